"""The HTTP edge: an ASGI app that serves both eras at one path.

Owns what is HTTP: routes, limits, who may enter, status codes. A modern request is answered by an
`Exchange`; everything legacy goes to the `LegacyDoor`.
"""

from collections.abc import Awaitable, Callable

from ..wire.call import Call, Caller, Identity, Service
from ..wire.eras import is_modern, read_modern
from ..wire.errors import HeaderMismatch, InternalError, InvalidRequest, McpError
from ..wire.headers import Head
from ..wire.messages import Message, encode, encode_error, parse, recover_id
from ..wire.seal import Sealer
from .answer import take_notification
from .asgi import Gone, Headers, Receive, Scope, Send, TooLarge, read_body, send_empty, send_json
from .exchange import Exchange, Watchman
from .guard import Guard
from .legacy import LegacyDoor
from .visit import Visit

Identify = Callable[[Headers], Identity | Awaitable[Identity]]
"""Reads whose request it is from its headers; raises `Refused` to turn it away."""

_LOCAL = Identity()


class Refused(Exception):
    """For `identify`: answer with this status instead of serving the request."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


class HttpEdge:
    def __init__(
        self,
        service: Service,
        sealer: Sealer,
        *,
        path: str = "/mcp",
        allowed_hosts: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        identify: Identify | None = None,
        max_body: int = 4 * 1024 * 1024,
    ) -> None:
        if not path.startswith("/"):
            raise ValueError(f"path must start with '/', not {path!r}")
        self.path = path.rstrip("/") or "/"
        self._service = service
        self._guard = Guard(allowed_hosts, allowed_origins)
        self._identify = identify
        self._max_body = max_body
        self._watchman = Watchman()
        self._legacy = LegacyDoor(service, sealer, self._watchman)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            path = _path(scope)
            if path == self.path or path.rstrip("/") == self.path:
                await self._serve(scope, receive, send)
            else:
                await self._elsewhere(path, scope["method"], send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": "MCP is served over HTTP"})

    async def close(self) -> None:
        """End open streams and background work; whoever serves us calls it before it waits for connections."""
        await self._service.close()
        await self._legacy.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _elsewhere(self, path: str, method: str, send: Send) -> None:
        if path == "/health" and method in ("GET", "HEAD"):
            await send_json(send, 200, encode(self._service.health()), [])
        else:
            await _refuse(send, 404, f"Nothing at {path[:80]!r}; the MCP endpoint is {self.path!r}", [])

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = Head(scope["headers"])
        refusal = self._guard.refusal(head)
        if refusal is not None:
            await _refuse(send, 403, refusal, [])
            return
        visit = Visit(head, _LOCAL, receive, send, self._guard.cors(head))
        method: str = scope["method"]
        if head.oversized:
            await _refuse(send, 431, "Too many headers, or one that is too long", visit.headers)
        elif method == "OPTIONS" and b"origin" in head.raw:
            requested = head.raw.get(b"access-control-request-headers", b"")
            await send_empty(send, 204, self._guard.preflight(head, requested))
        elif self._identify is None or await self._identified(visit, self._identify, scope["headers"]):
            if method == "POST":
                await self._post(visit)
            elif method == "GET":
                await self._get(visit)
            elif method == "DELETE":
                await self._legacy.delete(visit)
            else:
                visit.headers.append((b"allow", b"GET, POST, DELETE"))
                await _refuse(send, 405, f"{method[:20]} is not allowed here", visit.headers)

    async def _identified(self, visit: Visit, identify: Identify, raw_headers: Headers) -> bool:
        """Find out whose request it is; False when it was turned away."""
        try:
            found = identify(raw_headers)
            visit.identity = found if isinstance(found, Identity) else await found
            return True
        except Refused as refused:
            await _refuse(visit.send, refused.status, refused.message, [*visit.headers, *refused.headers])
            return False

    async def _get(self, visit: Visit) -> None:
        if b"mcp-session-id" not in visit.head.raw:
            visit.headers.append((b"allow", b"POST"))
            message = "GET opens a legacy session's stream and needs Mcp-Session-Id; otherwise use POST"
            await _refuse(visit.send, 405, message, visit.headers)
        elif not _accepts(visit.head, b"text/event-stream"):
            await _refuse(visit.send, 406, "Accept must admit text/event-stream", visit.headers)
        else:
            await self._legacy.get(visit)

    async def _post(self, visit: Visit) -> None:
        head, send = visit.head, visit.send
        content_type = head.raw.get(b"content-type")
        if content_type != b"application/json" and not _is_json(content_type):
            await _refuse(send, 415, "Content-Type must be application/json", visit.headers)
            return
        if not _accepts(head, b"application/json"):
            message = "Accept must admit application/json and should admit text/event-stream"
            await _refuse(send, 406, message, visit.headers)
            return
        try:
            body = await read_body(visit.receive, head.raw.get(b"content-length"), self._max_body)
        except Gone:
            return
        except TooLarge:
            # What is left of the body is not worth reading.
            headers = [*visit.headers, (b"connection", b"close")]
            await _refuse(send, 413, f"The body is over the limit of {self._max_body} bytes", headers)
            return
        try:
            message = parse(body)
        except McpError as error:
            await send_json(send, 400, encode_error(recover_id(body), error), visit.headers)
            return
        if isinstance(message.method, str) and is_modern(body, message.params, head):
            await self._modern(visit, message, message.method)
            return
        doubled = head.doubled
        if doubled is not None:
            error = HeaderMismatch(f"header {doubled!r} came more than once")
            id = message.id if isinstance(message.id, int | str) else None
            await send_json(send, 400, encode_error(id, error), visit.headers)
            return
        streams = _accepts(head, b"text/event-stream")
        await self._legacy.post(body, message, visit, streams)

    async def _modern(self, visit: Visit, message: Message, method: str) -> None:
        head = visit.head
        id = message.id if isinstance(message.id, int | str) else None
        streams = _accepts(head, b"text/event-stream")
        exchange = Exchange(self._watchman, visit, streams)
        if id is None:
            # The modern era defines no notification over HTTP, and no headers for one.
            caller = Caller(head.version or "", {}, identity=visit.identity)
            await take_notification(self._service, Call(method, message.params, caller, exchange))
            await send_empty(visit.send, 202, visit.headers)
            return
        try:
            meta = read_modern(method, message.params, head)
        except McpError as error:
            await send_json(visit.send, error.http_status, encode_error(id, error), visit.headers)
            return
        assert isinstance(meta.version, str)
        caller = Caller(meta.version, meta.capabilities, meta.client, visit.identity, meta.log_level)
        call = Call(method, message.params, caller, exchange, id, meta.progress_token, None, head.params)
        await exchange.run(self._service, call)


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] or "/" if root and path.startswith(root) else path


async def _refuse(send: Send, status: int, message: str, headers: Headers) -> None:
    """Turned away before any JSON-RPC was read: an error without an id."""
    error = InternalError(message) if status >= 500 else InvalidRequest(message)
    await send_json(send, status, encode_error(None, error), headers)


def _is_json(content_type: bytes | None) -> bool:
    return content_type is not None and content_type.split(b";")[0].strip().lower() == b"application/json"


def _accepts(head: Head, media_type: bytes) -> bool:
    accept = head.raw.get(b"accept")
    if accept is None or media_type in accept or b"*/*" in accept:
        return True
    return media_type.split(b"/")[0] + b"/*" in accept.lower() or media_type in accept.lower()
