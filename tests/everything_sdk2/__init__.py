"""The everything-server once more, on the `mcp` SDK 2.3: an upstream that speaks both eras.

Owns the fixtures as an author writes them on that SDK; everything about the wire is the SDK's. It has no
tasks, because the SDK has none.
"""
