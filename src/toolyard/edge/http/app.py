"""The ASGI apps: `HttpEdge` serves both eras at one path, `PathRouter` several edges and pages.

Owns what is HTTP: routes, limits, status codes. A modern request is answered by an `Exchange`; a legacy
one by the `LegacyEndpoint`.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ...telemetry.requests import ClientAddress, client_address
from ...wire.call import MAX_THREAD, THREAD_HEADER, Identity, Service
from ...wire.errors import HeaderMismatch, InternalError, InvalidRequest, McpError
from ...wire.headers import RequestHeaders, check_duplicates
from ...wire.messages import encode, encode_error, parse, recover_id
from ...wire.seal import Sealer
from ...wire.versions import MODERN_VERSIONS
from ..replies import take_notification
from ..request import (
    AcceptParser,
    BodyTooLargeError,
    CallerKeyReader,
    CallerKeys,
    ClientDisconnectedError,
    HostGuard,
    HttpRequest,
    Identify,
    Pace,
    Receive,
    Refused,
    RequestReader,
    Scope,
    Send,
    check_content_length,
    check_legacy_version,
    forget_keys,
    form_error,
    identify_caller,
    read_body,
    send_empty,
    send_json,
)
from .exchange import Exchange, ExchangeMonitor
from .legacy import LegacyEndpoint

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
        self._guard = HostGuard(allowed_hosts, allowed_origins)
        self._identify = identify
        self._tenants = None if keys is None else CallerKeyReader(keys, sealer)
        self._max_body = max_body
        self._understanding = RequestReader()
        self._closing = False
        self._acceptance = AcceptParser()
        self._watchman = ExchangeMonitor(pace or Pace())
        self._legacy = LegacyEndpoint(service, sealer, self._watchman)

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
        head = RequestHeaders(scope["headers"])
        visit = HttpRequest(head, _LOCAL, receive, send, [])
        client_address.set(_origin(scope, head))
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
                    forget_keys(visit.secrets)

    async def admits(self, scope: Scope, receive: Receive) -> bool:
        """Whether such a request would be let in, for what is served beside the endpoint."""
        head = RequestHeaders(scope["headers"])
        if self._guard.refusal(head) is not None or head.doubled is not None:
            return False
        if self._identify is None:
            return True
        try:
            await identify_caller(self._identify, head, scope, receive)
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

    async def _identified(self, visit: HttpRequest, scope: Scope) -> bool:
        """Find out whose request it is, and take its keys; False when it was turned away."""
        if self._identify is None and self._tenants is None:
            return True
        try:
            if self._identify is not None:
                visit.identity = await identify_caller(self._identify, visit.head, scope, visit.receive)
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

    async def _without_body(self, method: str, visit: HttpRequest) -> None:
        if visit.head.version in MODERN_VERSIONS:
            await _not_allowed(visit, "The modern era knows POST only")
            return
        try:
            check_duplicates(visit.head)
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

    async def _get(self, visit: HttpRequest) -> None:
        if b"mcp-session-id" not in visit.head.raw:
            await _not_allowed(visit, "GET opens a legacy session's stream and needs Mcp-Session-Id")
        elif not self._acceptance.of(visit.head.raw.get(b"accept")).streams:
            await _refuse(visit, 406, "Accept must admit text/event-stream")
        elif self._closing:
            await _refuse(visit, 503, "The server is shutting down")
        else:
            await self._legacy.get(visit)

    async def _post(self, visit: HttpRequest) -> None:
        raw = visit.head.raw
        accepted = self._acceptance.of(raw.get(b"accept"))
        wrong = form_error(visit.head, accepted)
        if wrong is not None:
            await _refuse(visit, *wrong)
            return
        try:
            check_content_length(raw.get(b"content-length"), self._max_body)
            event = await visit.receive()
            body = event.get("body") or b""
            if event.get("more_body", True) or len(body) > self._max_body:
                async with asyncio.timeout(self._watchman.pace.read_body):
                    body = await read_body(event, visit.receive, self._max_body)
        except ClientDisconnectedError:
            return
        except TimeoutError:
            visit.headers.append((b"connection", b"close"))
            await _refuse(visit, 408, "The body did not arrive in time")
            return
        except BodyTooLargeError:
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


def _origin(scope: Scope, head: RequestHeaders) -> ClientAddress:
    client = scope.get("client")
    forwarded = head.raw.get(b"x-forwarded-for")
    return ClientAddress(client[0] if client else "", forwarded.decode("latin-1") if forwarded else "")


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] or "/" if root and path.startswith(root) else path


async def _refuse(visit: HttpRequest, status: int, message: str) -> None:
    """Turned away before any JSON-RPC was read: an error without an id."""
    await send_json(visit.send, status, encode_error(None, InvalidRequest(message)), visit.headers)


async def _not_allowed(visit: HttpRequest, message: str, allowed: bytes = b"POST") -> None:
    visit.headers.append((b"allow", allowed))
    await _refuse(visit, 405, message)


App = Callable[[Scope, Receive, Send], Awaitable[None]]
PageContent = tuple[str, bytes]


class HttpPage(Struct, frozen=True):
    """A page beside the endpoints: its content type and bytes, and those for whoever may not see it all."""

    whole: Callable[[], PageContent | Awaitable[PageContent]]
    brief: Callable[[], PageContent | Awaitable[PageContent]] | None = None


class Endpoint(Protocol):
    """What can be served: an edge, or several behind one."""

    @property
    def path(self) -> str: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def close(self) -> None: ...


class PathRouter:
    """`open(name)` makes the edge of a name, or returns None when there is no such thing (any more).

    `routes` are apps of their own, by how the paths begin that they answer. They see to it whom they let in.
    """

    def __init__(
        self,
        path: str,
        main: HttpEdge,
        names: Callable[[], list[str]],
        open: Callable[[str, str], HttpEdge],
        pages: dict[str, HttpPage],
        start: Callable[[], Any],
        stop: Callable[[], Any],
        routes: Mapping[str, App] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._main = main
        self._names = names
        self._open = open
        self._pages = pages
        self._start = start
        self._stop = stop
        self._routes = routes
        self._edges: dict[str, HttpEdge] = {}
        self._started = False
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        path: str = scope["path"]
        if path == self.path or scope["type"] != "http":
            await self._main(scope, receive, send)
            return
        page = self._pages.get(path)
        if page is not None and scope["method"] in ("GET", "HEAD"):
            await self._show(page, scope, receive, send)
            return
        route = next((app for start, app in self._routes.items() if path.startswith(start)), None)
        if route is not None:
            await route(scope, receive, send)
            return
        edge = await self._edge_of(path)
        if edge is None:
            error = InvalidRequest(f"Nothing at {path[:80]!r}; the MCP endpoint is {self.path!r}")
            await send_json(send, 404, encode_error(None, error), [])
        else:
            await edge(scope, receive, send)

    async def _show(self, page: HttpPage, scope: Scope, receive: Receive, send: Send) -> None:
        """Those who would not be let in at the endpoint, or come by another name, see less or nothing."""
        if await self._main.admits(scope, receive):
            await _send_page(send, page.whole())
        elif page.brief is not None:
            await _send_page(send, page.brief())
        else:
            error = InvalidRequest("Not for you: the Host is not one of ours, or the credentials are missing")
            await send_json(send, 403, encode_error(None, error), [])

    async def _edge_of(self, path: str) -> HttpEdge | None:
        if path.rstrip("/") == self.path:
            return self._main
        start = f"{self.path}/"
        if not path.startswith(start):
            return None
        name = path.removeprefix(start).rstrip("/")
        names = self._names()
        for gone in [known for known in self._edges if known not in names]:
            await self._edges.pop(gone).close()
        if name not in names:
            return None
        if name not in self._edges:
            self._edges[name] = self._open(name, start + name)
        return self._edges[name]

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await self.begin()
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def begin(self) -> None:
        if not self._started:
            self._started = True
            await self._start()

    async def close(self) -> None:
        """End open streams and background work, then what all of it stands on."""
        if self._closed:
            return
        self._closed = True
        for edge in [self._main, *self._edges.values()]:
            await edge.close()
        await self._stop()


async def _send_page(send: Send, shown: PageContent | Awaitable[PageContent]) -> None:
    content_type, body = await shown if inspect.isawaitable(shown) else shown
    head = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def json_page(whole: Callable[[], Awaitable[Any]], brief: Callable[[Any], Any]) -> HttpPage:
    """`brief` makes of the whole what everybody may see."""

    async def shown() -> PageContent:
        return "application/json", encode(await whole())

    async def shortened() -> PageContent:
        return "application/json", encode(brief(await whole()))

    return HttpPage(shown, shortened)
