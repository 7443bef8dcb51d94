"""Ways to MCP servers elsewhere: a process of ours or an address, in the era each of them speaks."""
