"""Quality and speed of tool search: ours compared with others, on public sets of tools and queries."""
