"""HTTP: the ASGI apps, one exchange, the legacy era, and the uvicorn server.

Reading a request, sessions and replies are shared with the other edges and stand above, in `edge`."""
