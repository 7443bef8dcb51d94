"""AWS Lambda: HTTP events and replies, the edge of a function, and a runtime that streams."""
