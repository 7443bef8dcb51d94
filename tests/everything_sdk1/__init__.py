"""The everything-server once more, on the `mcp` SDK 1.x: an upstream that knows the legacy era only.

It runs in an environment of its own, which has `mcp` 1.x and nothing of ours: this package imports the SDK,
what the SDK brings along, and plain data.
"""
