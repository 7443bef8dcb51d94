"""The agent runner: a customer of the gateway like any other, which speaks MCP to it."""
