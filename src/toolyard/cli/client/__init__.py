"""The commands' own MCP client. It is being replaced by `toolyard.client`."""
