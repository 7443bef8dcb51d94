"""Whose request is it? The hook by which an application says so."""

from collections.abc import Awaitable, Callable

from ..wire.call import Identity
from .asgi import Headers

Identify = Callable[[Headers], Identity | Awaitable[Identity]]
"""Reads whose request it is from its headers; raises `Refused` to turn it away."""


class Refused(Exception):
    """For `identify`: answer with this status instead of serving the request."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []
