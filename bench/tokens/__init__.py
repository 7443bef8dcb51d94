"""The cost of a task in tokens with tool search, compared with listing every tool."""
