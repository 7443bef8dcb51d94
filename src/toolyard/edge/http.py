"""The HTTP edge: an ASGI app that serves both eras at one path.

Owns what is HTTP: routes, limits, who may enter, status codes. A modern request is answered by an
`Exchange`; everything legacy goes to the `LegacyDoor`.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from ..telemetry.observed import Origin, origin
from ..wire.call import Identity, Service
from ..wire.errors import HeaderMismatch, InternalError, InvalidRequest, McpError
from ..wire.headers import Head, check_doubles
from ..wire.messages import encode, encode_error, parse, recover_id
from ..wire.seal import Sealer
from ..wire.threads import MAX_THREAD, THREAD_HEADER
from ..wire.versions import MODERN_VERSIONS
from .accepting import Acceptance
from .answer import take_notification
from .asgi import Gone, Receive, Scope, Send, TooLarge, check_declared, read_rest, send_empty, send_json
from .exchange import Exchange, Watchman
from .guard import Guard
from .identity import Identify, Refused, identified
from .legacy import LegacyDoor
from .pace import Pace
from .tenants import CallerKeys, Tenants, forget
from .understanding import Understanding, check_legacy_version, wrong_form
from .visit import Visit

logger = logging.getLogger("toolyard.edge")

_LOCAL = Identity()


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
        keys: Callable[[], CallerKeys | None] | None = None,
        max_body: int = 4 * 1024 * 1024,
        pace: Pace | None = None,
    ) -> None:
        """`keys` says in which headers callers bring keys of their own; it is asked for each request."""
        if not path.startswith("/"):
            raise ValueError(f"path must start with '/', not {path!r}")
        self.path = path.rstrip("/") or "/"
        self._service = service
        self._guard = Guard(allowed_hosts, allowed_origins)
        self._identify = identify
        self._tenants = None if keys is None else Tenants(keys, sealer)
        self._max_body = max_body
        self._understanding = Understanding()
        self._closing = False
        self._acceptance = Acceptance()
        self._watchman = Watchman(pace or Pace())
        self._legacy = LegacyDoor(service, sealer, self._watchman)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._not_http(scope["type"], receive, send)
            return
        method: str = scope["method"]
        if scope["path"] != self.path:
            path = _path(scope)
            if path.rstrip("/") != self.path.rstrip("/"):
                await self._elsewhere(path, method, send)
                return
        head = Head(scope["headers"])
        visit = Visit(head, _LOCAL, receive, send, [])
        origin.set(_origin(scope, head))
        refusal = self._guard.refusal(head)
        if b"origin" in head.raw and refusal is None:
            visit.headers = self._guard.cors(head)
        if refusal is not None:
            await _refuse(visit, *refusal)
        elif method == "OPTIONS" and b"origin" in head.raw:
            requested = head.raw.get(b"access-control-request-headers", b"")
            await send_empty(send, 204, self._guard.preflight(head, requested))
        elif not await self._identified(visit, scope):
            return
        else:
            if THREAD_HEADER in head.raw and not visit.identity.thread:
                thread = (head.get(THREAD_HEADER) or "")[:MAX_THREAD]
                visit.identity = replace(visit.identity, thread=thread)
            try:
                await (self._post(visit) if method == "POST" else self._without_body(method, visit))
            finally:
                if visit.secrets is not None:
                    forget(visit.secrets)

    async def admits(self, scope: Scope, receive: Receive) -> bool:
        """Whether such a request would be let in, for what is served beside the endpoint."""
        head = Head(scope["headers"])
        if self._guard.refusal(head) is not None or head.doubled is not None:
            return False
        if self._identify is None:
            return True
        try:
            await identified(self._identify, head, scope, receive)
        except (Refused, HeaderMismatch):
            return False
        except Exception as error:  # the application's code, as in _identified
            logger.error("identify failed", exc_info=error)
            return False
        return True

    async def close(self) -> None:
        """End open streams and background work. Whoever serves us calls it before waiting for connections."""
        if self._closing:  # our own server closes us first, and tells us so by the lifespan afterwards
            return
        self._closing = True
        await self._service.close()
        await self._legacy.close()
        await self._watchman.close()

    async def _not_http(self, kind: str, receive: Receive, send: Send) -> None:
        if kind == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": "MCP is served over HTTP"})
        while kind == "lifespan":
            event = await receive()
            if event["type"] == "lifespan.startup":
                self._closing = False
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _elsewhere(self, path: str, method: str, send: Send) -> None:
        if path == "/health" and method in ("GET", "HEAD"):
            await send_json(send, 200, encode(self._service.health()), [])
        else:
            error = InvalidRequest(f"Nothing at {path[:80]!r}; the MCP endpoint is {self.path!r}")
            await send_json(send, 404, encode_error(None, error), [])

    async def _identified(self, visit: Visit, scope: Scope) -> bool:
        """Find out whose request it is, and take its keys; False when it was turned away."""
        if self._identify is None and self._tenants is None:
            return True
        try:
            if self._identify is not None:
                visit.identity = await identified(self._identify, visit.head, scope, visit.receive)
            if self._tenants is not None:
                visit.identity, visit.secrets = await self._tenants.enter(visit.head, visit.identity)
            return True
        except Refused as refused:
            visit.headers += refused.headers
            await _refuse(visit, refused.status, refused.message)
        except HeaderMismatch as error:
            await send_json(visit.send, error.http_status, encode_error(None, error), visit.headers)
        except Exception as error:  # the application's code: its bug is not the client's to see
            logger.error("identify failed", exc_info=error)
            await send_json(visit.send, 500, encode_error(None, InternalError()), visit.headers)
        return False

    async def _without_body(self, method: str, visit: Visit) -> None:
        if visit.head.version in MODERN_VERSIONS:
            await _not_allowed(visit, "The modern era knows POST only")
            return
        try:
            check_doubles(visit.head)
            check_legacy_version(visit.head)
        except McpError as error:
            await send_json(visit.send, error.http_status, encode_error(None, error), visit.headers)
            return
        if method == "GET":
            await self._get(visit)
        elif method == "DELETE":
            await self._legacy.delete(visit)
        else:
            await _not_allowed(visit, f"{method[:20]} is not allowed here", b"GET, POST, DELETE")

    async def _get(self, visit: Visit) -> None:
        if b"mcp-session-id" not in visit.head.raw:
            await _not_allowed(visit, "GET opens a legacy session's stream and needs Mcp-Session-Id")
        elif not self._acceptance.of(visit.head.raw.get(b"accept")).streams:
            await _refuse(visit, 406, "Accept must admit text/event-stream")
        elif self._closing:
            await _refuse(visit, 503, "The server is shutting down")
        else:
            await self._legacy.get(visit)

    async def _post(self, visit: Visit) -> None:
        raw = visit.head.raw
        accepted = self._acceptance.of(raw.get(b"accept"))
        wrong = wrong_form(visit.head, accepted)
        if wrong is not None:
            await _refuse(visit, *wrong)
            return
        try:
            check_declared(raw.get(b"content-length"), self._max_body)
            event = await visit.receive()
            body = event.get("body") or b""
            if event.get("more_body", True) or len(body) > self._max_body:
                async with asyncio.timeout(self._watchman.pace.read_body):
                    body = await read_rest(event, visit.receive, self._max_body)
        except Gone:
            return
        except TimeoutError:
            visit.headers.append((b"connection", b"close"))
            await _refuse(visit, 408, "The body did not arrive in time")
            return
        except TooLarge:
            # The connection stays: closing on a client that still sends would reset it before it reads why.
            await _refuse(visit, 413, f"The body is over the limit of {self._max_body} bytes")
            return
        try:
            message = parse(body)
            call = self._understanding.call_of(visit.head, visit.identity, body, message)
        except McpError as error:
            reply = encode_error(recover_id(body), error)
            await send_json(visit.send, error.http_status, reply, visit.headers)
            return
        if call is None:
            await self._legacy.post(body, message, visit, accepted)
            return
        call.secrets = visit.secrets
        if call.id is None:
            await take_notification(self._service, call)
            await send_empty(visit.send, 202, visit.headers)
        elif call.method == "subscriptions/listen" and not accepted.streams:
            await _refuse(visit, 406, "Accept must admit text/event-stream to listen")
        elif call.method == "subscriptions/listen" and self._closing:
            await _refuse(visit, 503, "The server is shutting down")
        else:
            await Exchange(self._watchman, visit, accepted).run(self._service, call)


def _origin(scope: Scope, head: Head) -> Origin:
    client = scope.get("client")
    forwarded = head.raw.get(b"x-forwarded-for")
    return Origin(client[0] if client else "", forwarded.decode("latin-1") if forwarded else "")


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] or "/" if root and path.startswith(root) else path


async def _refuse(visit: Visit, status: int, message: str) -> None:
    """Turned away before any JSON-RPC was read: an error without an id."""
    await send_json(visit.send, status, encode_error(None, InvalidRequest(message)), visit.headers)


async def _not_allowed(visit: Visit, message: str, allowed: bytes = b"POST") -> None:
    visit.headers.append((b"allow", allowed))
    await _refuse(visit, 405, message)
