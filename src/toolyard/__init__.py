"""Toolyard: one MCP endpoint in front of every tool an agent needs."""

__version__ = "0.6.0"
