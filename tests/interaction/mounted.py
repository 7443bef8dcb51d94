"""A place for the server under test where a gateway's configuration can find it."""

from toolyard.kit import Server

server: Server | None = None
