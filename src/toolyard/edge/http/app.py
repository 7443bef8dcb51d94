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
from ...wire.call import MAX_THREAD, THREAD_HEADER, Identity, Principal, Service
from ...wire.errors import HeaderMismatch, InternalError, InvalidRequest, McpError
from ...wire.headers import RequestHeaders, check_duplicates
from ...wire.messages import encode, encode_error, parse, recover_id
from ...wire.seal import Sealer
from ...wire.versions import MODERN_VERSIONS
from ..replies import take_notification
from ..request import (
    JSON_TYPE,
    MAX_LENGTH_DIGITS,
    AcceptHeaders,
    AuthenticatorSetting,
    BodyTooLargeError,
    CallerKeyReader,
    CallerKeySetting,
    ClientDisconnectedError,
    Event,
    Headers,
    HostGuard,
    HttpRequest,
    Identify,
    Pace,
    Receive,
    Refused,
    RequestReader,
    Scope,
    Send,
    authenticate_caller,
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
        callers: AuthenticatorSetting | None = None,
        keys: CallerKeySetting | None = None,
        max_body: int = 4 * 1024 * 1024,
        pace: Pace | None = None,
        exists_for: Callable[[Principal], bool] | None = None,
        shows_pages_to: Callable[[Principal], bool] | None = None,
        main_path: str = "",
    ) -> None:
        """`identify` is the hook of an application; `callers` is not asked beside it.

        For a principal that it does not exist for, it answers as an unknown path below `main_path` does.
        Pages beside it are shown in full to whom `shows_pages_to` says; None: to all who may enter.
        """
        if not path.startswith("/"):
            raise ValueError(f"path must start with '/', not {path!r}")
        self.path = path.rstrip("/") or "/"
        self._service = service
        self._guard = HostGuard(allowed_hosts, allowed_origins)
        self._identify = identify
        self._exists_for = exists_for
        self._shows_pages_to = shows_pages_to
        self._main_path = main_path or self.path
        self._callers = callers or AuthenticatorSetting()
        self._keys = keys or CallerKeySetting()
        self._key_reader = CallerKeyReader(self._keys, sealer)
        self._max_body = max_body
        self._reader = RequestReader()
        self._closing = False
        self._accept = AcceptHeaders()
        self._monitor = ExchangeMonitor(pace or Pace())
        self._legacy = LegacyEndpoint(service, sealer, self._monitor)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._serve_other(scope["type"], receive, send)
            return
        method: str = scope["method"]
        if scope["path"] != self.path:
            path = _path(scope)
            if path.rstrip("/") != self.path.rstrip("/"):
                await self._other_path(path, method, send)
                return
        pairs: Headers = list(scope["headers"])
        raw = dict(pairs)
        headers = RequestHeaders(pairs, raw) if len(raw) == len(pairs) else RequestHeaders.of(pairs)
        request = HttpRequest(headers, _LOCAL, receive, send, [])
        forwarded, client = raw.get(b"x-forwarded-for", b""), scope.get("client")
        client_address.set(ClientAddress(client[0] if client else "", forwarded.decode("latin-1")))
        refusal = self._guard.refusal(headers)
        if refusal is not None:
            await _refuse(request, *refusal)
            return
        if b"origin" in raw:
            request.reply_headers = self._guard.cors(headers)
            if method == "OPTIONS":
                requested = raw.get(b"access-control-request-headers", b"")
                await send_empty(send, 204, self._guard.preflight(headers, requested))
                return
        authenticator = self._callers.authenticator
        if self._identify is not None or self._keys.keys is not None:
            if not await self._authenticate(request, scope):
                return
        elif authenticator is not None:
            query = scope.get("query_string", b"")
            known = authenticator.recall(headers, resource=self.path, query=query)
            if known is not None:
                request.identity = known
            elif not await self._authenticate(request, scope):
                return
        if self._exists_for is not None and not self._exists_for(request.identity.principal):
            await self._answer_unknown(request, self.path)
            return
        if THREAD_HEADER in raw and not request.identity.thread:
            thread = (headers.get(THREAD_HEADER) or "")[:MAX_THREAD]
            request.identity = replace(request.identity, thread=thread)
        try:
            await (self._post(request) if method == "POST" else self._get_or_delete(method, request))
        finally:
            if request.keys is not None:
                forget_keys(request.keys)

    async def refuse_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for an unknown path; who may not enter learns nothing about paths."""
        headers = RequestHeaders.of(scope["headers"])
        request = HttpRequest(headers, _LOCAL, receive, send, [])
        refusal = self._guard.refusal(headers)
        if refusal is not None:
            await _refuse(request, *refusal)
        elif await self._authenticate(request, scope):
            await self._answer_unknown(request, scope["path"])
            if request.keys is not None:
                forget_keys(request.keys)

    async def _answer_unknown(self, request: HttpRequest, path: str) -> None:
        error = InvalidRequest(f"Not found: {path[:80]!r}. The MCP endpoint is {self._main_path!r}")
        await send_json(request.send, 404, encode_error(None, error), request.reply_headers)

    async def admits(self, scope: Scope, receive: Receive) -> bool:
        """Whether such a request would be let in, for what is served beside the endpoint."""
        headers = RequestHeaders.of(scope["headers"])
        if self._guard.refusal(headers) is not None or headers.duplicate is not None:
            return False
        try:
            identity = await self._identity_of(headers, scope, receive)
        except (Refused, HeaderMismatch):
            return False
        except Exception as error:  # the application's code, as in _authenticate
            logger.error("identify failed", exc_info=error)
            return False
        return self._shows_pages_to is None or self._shows_pages_to(identity.principal)

    async def principal_of(self, scope: Scope, receive: Receive) -> Principal:
        """Who sends a request to an app beside the endpoint. Raises `Refused` and HeaderMismatch."""
        headers = RequestHeaders.of(scope["headers"])
        refusal = self._guard.refusal(headers)
        if refusal is not None:
            raise Refused(*refusal)
        return (await self._identity_of(headers, scope, receive)).principal

    async def close(self) -> None:
        """End open streams and background work. Whoever serves us calls it before waiting for connections."""
        if self._closing:  # our own server closes us first, and tells us so by the lifespan afterwards
            return
        self._closing = True
        await self._service.close()
        await self._legacy.close()
        await self._monitor.close()

    async def _serve_other(self, kind: str, receive: Receive, send: Send) -> None:
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

    async def _other_path(self, path: str, method: str, send: Send) -> None:
        if path == "/health" and method in ("GET", "HEAD"):
            await send_json(send, 200, encode(self._service.health()), [])
        else:
            error = InvalidRequest(f"Not found: {path[:80]!r}. The MCP endpoint is {self.path!r}")
            await send_json(send, 404, encode_error(None, error), [])

    async def _authenticate(self, request: HttpRequest, scope: Scope) -> bool:
        """Find out who calls, and read the caller's keys; False if the request was refused."""
        try:
            request.identity = await self._identity_of(request.headers, scope, request.receive)
            request.identity, request.keys = await self._key_reader.read(request.headers, request.identity)
            return True
        except Refused as refused:
            request.reply_headers += refused.headers
            await _refuse(request, refused.status, refused.message)
        except HeaderMismatch as error:
            await send_json(request.send, error.http_status, encode_error(None, error), request.reply_headers)
        except Exception as error:  # the application's code: its bug is not the client's to see
            logger.error("identify failed", exc_info=error)
            await send_json(request.send, 500, encode_error(None, InternalError()), request.reply_headers)
        return False

    async def _identity_of(self, headers: RequestHeaders, scope: Scope, receive: Receive) -> Identity:
        if self._identify is not None:
            return await identify_caller(self._identify, headers, scope, receive)
        authenticator = self._callers.authenticator
        if authenticator is not None:
            return await authenticate_caller(authenticator, headers, scope, receive, self.path)
        return _LOCAL

    async def _get_or_delete(self, method: str, request: HttpRequest) -> None:
        if request.headers.version in MODERN_VERSIONS:
            await _not_allowed(request, "Only POST is allowed in protocol version 2026-07-28")
            return
        try:
            check_duplicates(request.headers)
            check_legacy_version(request.headers)
        except McpError as error:
            await send_json(request.send, error.http_status, encode_error(None, error), request.reply_headers)
            return
        if method == "GET":
            await self._get(request)
        elif method == "DELETE":
            await self._legacy.delete(request)
        else:
            await _not_allowed(request, f"{method[:20]} is not allowed here", b"GET, POST, DELETE")

    async def _get(self, request: HttpRequest) -> None:
        if b"mcp-session-id" not in request.headers.raw:
            await _not_allowed(request, "GET opens a legacy session's stream and needs Mcp-Session-Id")
        elif not self._accept[request.headers.raw.get(b"accept")].streams:
            await _refuse(request, 406, "Accept must allow text/event-stream")
        elif self._closing:
            await _refuse(request, 503, "The server is shutting down")
        else:
            await self._legacy.get(request)

    async def _post(self, request: HttpRequest) -> None:
        raw = request.headers.raw
        accepted = self._accept[raw.get(b"accept")]
        if raw.get(b"content-type") != JSON_TYPE or not accepted.json:
            error = form_error(request.headers, accepted)
            if error is not None:
                await _refuse(request, *error)
                return
        length = raw.get(b"content-length", b"")
        if length.isdigit() and (len(length) > MAX_LENGTH_DIGITS or int(length) > self._max_body):
            await self._refuse_body(request)
            return
        event = await request.receive()
        body: bytes = event.get("body") or b""
        if event.get("more_body", True) or len(body) > self._max_body:
            whole = await self._read_body(event, request)
            if whole is None:
                return
            body = whole
        try:
            message = parse(body)
            exchange = Exchange(self._monitor, request, accepted)
            call = self._reader.read(request.headers, request.identity, request.keys, body, message, exchange)
        except McpError as error:
            reply = encode_error(recover_id(body), error)
            headers = [*request.reply_headers, *error.http_headers]
            await send_json(request.send, error.http_status, reply, headers)
            return
        if call is None:
            await self._legacy.post(body, message, request, accepted)
        elif call.id is None:
            await take_notification(self._service, call)
            await send_empty(request.send, 202, request.reply_headers)
        elif call.method == "subscriptions/listen" and not accepted.streams:
            await _refuse(request, 406, "Accept must allow text/event-stream to listen")
        elif call.method == "subscriptions/listen" and self._closing:
            await _refuse(request, 503, "The server is shutting down")
        else:
            await exchange.run(self._service, call)

    async def _read_body(self, first: Event, request: HttpRequest) -> bytes | None:
        """Read a body that arrives in pieces; None if the client is gone or the request was refused."""
        try:
            async with asyncio.timeout(self._monitor.pace.read_body):
                return await read_body(first, request.receive, self._max_body)
        except ClientDisconnectedError:
            pass
        except TimeoutError:
            request.reply_headers.append((b"connection", b"close"))
            await _refuse(request, 408, "The body did not arrive in time")
        except BodyTooLargeError:
            await self._refuse_body(request)
        return None

    async def _refuse_body(self, request: HttpRequest) -> None:
        # The connection stays open: closing on a client that still sends would reset it before it reads why.
        await _refuse(request, 413, f"The body is over the limit of {self._max_body} bytes")


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] or "/" if root and path.startswith(root) else path


async def _refuse(request: HttpRequest, status: int, message: str) -> None:
    """Turned away before any JSON-RPC was read: an error without an id."""
    await send_json(request.send, status, encode_error(None, InvalidRequest(message)), request.reply_headers)


async def _not_allowed(request: HttpRequest, message: str, allowed: bytes = b"POST") -> None:
    request.reply_headers.append((b"allow", allowed))
    await _refuse(request, 405, message)


App = Callable[[Scope, Receive, Send], Awaitable[None]]
PageContent = tuple[str, bytes]


class HttpPage(Struct, frozen=True):
    """A page beside the endpoints: its content type and bytes, in full and for those who are not admitted."""

    full: Callable[[], PageContent | Awaitable[PageContent]]
    public: Callable[[], PageContent | Awaitable[PageContent]] | None = None


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
            await self._lifespan(receive, send)
            return
        path: str = scope["path"]
        if path == self.path or scope["type"] != "http":
            await self._main(scope, receive, send)
            return
        page = self._pages.get(path)
        if page is not None and scope["method"] in ("GET", "HEAD"):
            await self._serve_page(page, scope, receive, send)
            return
        route = next((app for start, app in self._routes.items() if path.startswith(start)), None)
        if route is not None:
            await route(scope, receive, send)
            return
        edge = await self._edge_of(path)
        if edge is None:
            await self._main.refuse_path(scope, receive, send)
        else:
            await edge(scope, receive, send)

    async def _serve_page(self, page: HttpPage, scope: Scope, receive: Receive, send: Send) -> None:
        """Those who would not be let in at the endpoint, or come by another name, see less or nothing."""
        if await self._main.admits(scope, receive):
            await _send_page(send, page.full())
        elif page.public is not None:
            await _send_page(send, page.public())
        else:
            error = InvalidRequest("Forbidden: unknown host or missing credentials")
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

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start(self) -> None:
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


def json_page(content: Callable[[], Awaitable[Any]], public: Callable[[Any], Any]) -> HttpPage:
    """`public` reduces the content to what everybody may see."""

    async def full_page() -> PageContent:
        return "application/json", encode(await content())

    async def public_page() -> PageContent:
        return "application/json", encode(public(await content()))

    return HttpPage(full_page, public_page)
