"""The server features of MCP: tools, resources, prompts with completion, subscriptions."""
