"""Serving from the command line: the socket, the gateway, and the session key."""
