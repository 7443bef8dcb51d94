"""What strangers say to each other with the gateway in between, judged by their own tests and programs.

`make faithful` runs the tests of FastMCP and of the MCP SDK three times (as they are, over HTTP, through the
gateway), speaks to programs of others directly and through, and writes docs/concepts/faithful.md.
"""
