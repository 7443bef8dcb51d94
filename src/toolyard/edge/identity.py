"""Whose request is it? The hook by which an application says so, and the headers that it may believe."""

from collections.abc import Awaitable, Callable

from ..wire.call import Identity
from ..wire.headers import Head, check_repeated
from .asgi import Headers, Receive, Scope

Identify = Callable[[Headers], Identity | Awaitable[Identity]]
"""Reads whose request it is from its headers; raises `Refused` to turn it away."""

WITHOUT_TRAILERS = "toolyard.without_trailers"
"""The name of our server's ASGI extension: all headers of this scope came before the body."""
_LIMITED_HTTP = "toolyard.edge.patience:LimitedHttp"
_MIXES_TRAILERS = "uvicorn.protocols.http.httptools_impl"


class Refused(Exception):
    """For `identify`: answer with this status instead of serving the request."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


async def identified(identify: Identify, head: Head, scope: Scope, receive: Receive) -> Identity:
    """Asks `identify`, which may take each header for the only one of its name, and for one of the request.

    Raises McpError for a header that came twice, and `Refused` where a trailer may stand among the headers.
    """
    if scope.get("http_version") in ("2", "3"):
        head = _with_one_cookie(head)
    check_repeated(head)
    if b"transfer-encoding" in head.raw and _mixes_trailers(scope, receive):
        message = "Send a Content-Length: this server cannot tell the trailers of a chunked body from headers"
        raise Refused(411, f"{message}; it runs uvicorn without --http {_LIMITED_HTTP}")
    found = identify(head.pairs)
    return found if isinstance(found, Identity) else await found


def _with_one_cookie(head: Head) -> Head:
    """HTTP/2 and HTTP/3 allow a client to cut its one cookie header into several lines."""
    pieces = [value for name, value in head.pairs if name == b"cookie"]
    if len(pieces) < 2:
        return head
    others = [pair for pair in head.pairs if pair[0] != b"cookie"]
    return Head([*others, (b"cookie", b"; ".join(pieces))])


def _mixes_trailers(scope: Scope, receive: Receive) -> bool:
    """uvicorn with httptools, unless it is ours, appends trailers to the headers."""
    cycle: object = getattr(receive, "__self__", None)
    return type(cycle).__module__ == _MIXES_TRAILERS and WITHOUT_TRAILERS not in scope.get("extensions", {})
