"""The ASGI apps: `HttpEdge` serves both eras at one path, `PathRouter` several edges and pages, `AgentPaths`
the paths of sub-agents.

Owns what is HTTP: routes, limits, status codes. A modern request is answered by an `Exchange`; a legacy
one by the `LegacyEndpoint`.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ...languages import Locale, answering, said
from ...telemetry.requests import ClientAddress, client_address
from ...wire.call import MAX_THREAD, THREAD_HEADER, Identity, Principal, Service
from ...wire.errors import HeaderMismatch, InternalError, InvalidRequest, McpError
from ...wire.headers import RequestHeaders, check_duplicates
from ...wire.messages import encode, encode_error, parse, recover_id
from ...wire.seal import Sealer
from ...wire.versions import MODERN_VERSIONS
from ..proxies import ForwardingProxies
from ..replies import take_notification
from ..request import (
    AGENT_EXTENSION,
    JSON_TYPE,
    MAX_LENGTH_DIGITS,
    PAGE_HEADERS,
    AcceptHeaders,
    App,
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
    body_over,
    check_legacy_version,
    forget_keys,
    form_error,
    identify_caller,
    not_found,
    read_body,
    send_empty,
    send_json,
)
from .exchange import Exchange, ExchangeMonitor
from .front_page import CONTENT_TYPE as FRONT_PAGE_TYPE
from .front_page import front_page
from .legacy import LegacyEndpoint

logger = logging.getLogger("toolyard.edge")

_LOCAL = Identity()
_TRACE = (b"traceparent", b"tracestate")
_RIGHTS = ("kind", "agent", "groups", "scopes", "grant")
"""What a principal's rights come from, besides who it is."""


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
        locale: Locale = "en",
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
        self._locale: Locale = locale
        self._reader = RequestReader()
        self._closing = False
        self._accept = AcceptHeaders()
        self._monitor = ExchangeMonitor(pace or Pace())
        self._legacy = LegacyEndpoint(service, sealer, self._monitor)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._serve_other(scope["type"], receive, send)
            return
        with answering(self._locale):
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        if scope["path"] != self.path:
            path = _path(scope)
            if path.rstrip("/") != self.path.rstrip("/"):
                await self._other_path(path, scope, send)
                return
        request = self._open(scope, receive, send, self.path)
        if not request.is_admitted and not await self._admit(request, scope, self.path):
            return
        refused = None if self._keys.keys is None else await self._read_keys(request)
        if self._exists_for is not None and not self._exists_for(request.identity.principal):
            # Whatever is wrong with the keys: an unknown path has none.
            await self._answer_unknown(request, scope["path"])
            if request.keys is not None:
                forget_keys(request.keys)
            return
        if refused is not None:
            await self._turn_away(request, refused)
            return
        headers = request.headers
        if THREAD_HEADER in headers.raw and not request.identity.thread:
            thread = (headers.get(THREAD_HEADER) or "")[:MAX_THREAD]
            request.identity = replace(request.identity, thread=thread)
        try:
            await (self._post(request, scope) if method == "POST" else self._get_or_delete(request, scope))
        finally:
            if request.keys is not None:
                forget_keys(request.keys)

    def _open(self, scope: Scope, receive: Receive, send: Send, path: str) -> HttpRequest:
        """Read the head of a request, and let it in if nothing has to be waited for."""
        pairs: Headers = list(scope["headers"])
        raw = dict(pairs)
        headers = RequestHeaders(pairs, raw) if len(raw) == len(pairs) else RequestHeaders.of(pairs)
        request = HttpRequest(headers, _LOCAL, receive, send, [])
        forwarded, client = raw.get(b"x-forwarded-for", b""), scope.get("client")
        address = client[0] if client else ""
        trace = [raw.get(name, b"").decode("latin-1") for name in _TRACE] if b"traceparent" in raw else ()
        client_address.set(ClientAddress(address, forwarded.decode("latin-1"), *trace))
        if b"origin" in raw or self._identify is not None or self._guard.refusal(headers) is not None:
            return request
        authenticator = self._callers.authenticator
        if authenticator is None:
            request.is_admitted = True
        # At the path of an agent not every credential counts that is known.
        elif AGENT_EXTENSION not in (scope.get("extensions") or ()):
            known = authenticator.recall(headers, path, scope.get("query_string", b""))
            if known is not None:
                request.identity, request.is_admitted = known, True
        return request

    async def _admit(self, request: HttpRequest, scope: Scope, path: str) -> bool:
        """Let a request in: by its host, and by who sends it. False if it is answered already."""
        headers = request.headers
        refusal = self._guard.refusal(headers)
        if refusal is not None:
            await _refuse(request, *refusal)
            return False
        if b"origin" in headers.raw:
            request.reply_headers = self._guard.cors(headers)
            if scope["method"] == "OPTIONS":
                requested = headers.raw.get(b"access-control-request-headers", b"")
                await send_empty(request.send, 204, self._guard.preflight(headers, requested))
                return False
        return await self._authenticate(request, scope, path)

    @property
    def knows_agents(self) -> bool:
        """Whether it can tell who holds a grant. An application's own hook cannot."""
        return self._identify is None and self._callers.authenticator is not None

    async def refuse_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for an unknown path, as one for an endpoint that its caller may not know of."""
        path: str = scope["path"].rstrip("/")
        # Of an endpoint that could be there a client is told as of one that is.
        is_below = path.startswith(f"{self.path}/")
        path = path if is_below else self.path
        with answering(self._locale):
            request = self._open(scope, receive, send, path)
            if request.is_admitted or await self._admit(request, scope, path):
                await self._answer_unknown(request, scope["path"])

    async def _answer_unknown(self, request: HttpRequest, path: str) -> None:
        error = InvalidRequest(not_found(path, repr(self._main_path), None))
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
        except Exception as error:  # the application's code, as in _turn_away
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

    async def start(self) -> None:
        self._closing = False

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
        if kind == "lifespan":
            await _live(self, receive, send)

    async def _other_path(self, path: str, scope: Scope, send: Send) -> None:
        method: str = scope["method"]
        if path == "/" and method in ("GET", "HEAD") and (page := self._front_page(scope)) is not None:
            await _send_page(send, page, [])
        elif path == "/health" and method in ("GET", "HEAD"):
            await _send_page(send, json_content(self._service.health()), [])
        elif path in (LIVE_PATH, READY_PATH) and method in ("GET", "HEAD"):
            is_leaving = path == READY_PATH and self._closing
            await _send_page(send, Readiness((_SHUTTING_DOWN,) if is_leaving else ()).page(), [])
        else:
            keys = None if self._callers.authenticator else self._key_reader.setting.keys
            error = InvalidRequest(not_found(path, repr(self.path), keys))
            await send_json(send, 404, encode_error(None, error), [])

    def _front_page(self, scope: Scope) -> "PageContent | None":
        """None for a host that is not ours to name."""
        headers = RequestHeaders.of(scope["headers"])
        if self._guard.refusal(headers) is not None:
            return None
        health: Any = self._service.health()
        name = str(health.get("server", {}).get("name", ""))
        url = f"{scope.get('scheme', 'http')}://{headers.get(b'host')}{scope.get('root_path', '')}{self.path}"
        keys = self._key_reader.setting.keys
        header = (keys.headers[0], "…") if keys is not None and keys.required else None
        return PageContent(FRONT_PAGE_TYPE, front_page(name, url, header))

    async def _authenticate(self, request: HttpRequest, scope: Scope, path: str) -> bool:
        """Find out who calls; False if the request was refused. `path` is that of the endpoint."""
        try:
            request.identity = await self._identity_of(request.headers, scope, request.receive, path)
            return True
        except Exception as error:
            await self._turn_away(request, error)
            return False

    async def _read_keys(self, request: HttpRequest) -> Exception | None:
        """Read the caller's keys; returns why the request has to be refused."""
        try:
            request.identity, request.keys = await self._key_reader.read(request.headers, request.identity)
            return None
        except Exception as error:
            return error

    async def _turn_away(self, request: HttpRequest, error: Exception) -> None:
        if isinstance(error, Refused):
            request.reply_headers += error.headers
            await _refuse(request, error.status, error.message)
        elif isinstance(error, HeaderMismatch):
            await send_json(request.send, error.http_status, encode_error(None, error), request.reply_headers)
        else:  # the application's code: its bug is not the client's to see
            logger.error("identify failed", exc_info=error)
            await send_json(request.send, 500, encode_error(None, InternalError()), request.reply_headers)

    async def _identity_of(
        self, headers: RequestHeaders, scope: Scope, receive: Receive, path: str = ""
    ) -> Identity:
        if self._identify is not None:
            return await identify_caller(self._identify, headers, scope, receive)
        authenticator = self._callers.authenticator
        if authenticator is not None:
            return await authenticate_caller(authenticator, headers, scope, receive, path or self.path)
        return _LOCAL

    def _stay(self, request: HttpRequest, scope: Scope) -> None:
        """The request opens a stream: from time to time its caller is looked at again."""
        if self._identify is None and self._callers.authenticator is None:
            return
        before = request.identity.principal

        async def is_valid() -> bool:
            try:
                now = (await self._identity_of(request.headers, scope, request.receive)).principal
            except Refused as refused:
                return refused.status not in (401, 403)  # else it is not known just now
            except Exception as error:  # the application's code, as in _turn_away
                logger.error("identify failed", exc_info=error)
                return True
            return all(getattr(now, name) == getattr(before, name) for name in _RIGHTS)

        request.is_valid = is_valid

    async def _get_or_delete(self, request: HttpRequest, scope: Scope) -> None:
        method: str = scope["method"]
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
            self._stay(request, scope)
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
            await _refuse(request, 503, said("The server is shutting down", "O servidor está encerrando"))
        else:
            await self._legacy.get(request)

    async def _post(self, request: HttpRequest, scope: Scope) -> None:
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
            await _refuse(request, 503, said("The server is shutting down", "O servidor está encerrando"))
        else:
            if call.method == "subscriptions/listen":
                self._stay(request, scope)
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
            message = said("The body did not arrive in time", "O corpo não chegou a tempo")
            await _refuse(request, 408, message)
        except BodyTooLargeError:
            await self._refuse_body(request)
        return None

    async def _refuse_body(self, request: HttpRequest) -> None:
        # The connection stays open: closing on a client that still sends would reset it before it reads why.
        await _refuse(request, 413, body_over(self._max_body))


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


class PageContent(Struct, frozen=True):
    content_type: str
    body: bytes
    status: int = 200


class HttpPage(Struct, frozen=True):
    """A page beside the endpoints, in full and for those who are not admitted."""

    full: Callable[[], PageContent | Awaitable[PageContent]]
    public: Callable[[], PageContent | Awaitable[PageContent]] | None = None
    for_everybody: bool = False
    """Whether all see it in full. Then nobody is asked who they are, which may need a store that is down."""


LIVE_PATH, READY_PATH = "/health/live", "/health/ready"
_STARTING, _SHUTTING_DOWN = "it is starting", "it is shutting down"


class Readiness(Struct, frozen=True):
    """Whether requests should come here. Probes see it without a credential, so it names no details."""

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What should be looked at, and is no reason to send requests elsewhere."""

    def page(self) -> "PageContent":
        more = {"warnings": self.warnings} if self.warnings else {}
        if self.faults:
            return json_content({"status": "unready", "reasons": self.faults, **more}, 503)
        return json_content({"status": "ok", **more})


class Endpoint(Protocol):
    """What can be served: an edge, or several behind one."""

    @property
    def path(self) -> str: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def close(self) -> None: ...


async def _live(endpoint: "HttpEdge | PathRouter", receive: Receive, send: Send) -> None:
    """ASGI's lifespan. A server that gets an exception takes it for an app without one, and serves it."""
    steps = {"lifespan.startup": endpoint.start, "lifespan.shutdown": endpoint.close}
    while True:
        kind = (await receive())["type"]
        try:
            await steps[kind]()
        except Exception as error:
            is_expected = hasattr(error, "message")  # an error of our own, which says what to do
            reason = str(error) if is_expected else f"{type(error).__name__}: {error}"
            logger.error("%s failed: %s", kind, reason, exc_info=None if is_expected else error)
            await send({"type": f"{kind}.failed", "message": f"toolyard: {reason}"})
            return
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


AGENTS_PATH = "/agents/"
_AGENT_PATH = re.compile(r"/agents/([^/]{1,100})/mcp/?")


class AgentPaths:
    """`/agents/NAME/mcp`: the endpoint again, for the holder of a grant of this name and for nobody else."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _path(scope)
        found = _AGENT_PATH.fullmatch(path)
        if found is None or not self._edge.knows_agents:
            await self._edge.refuse_path(scope, receive, send)
            return
        known: Mapping[str, Any] = scope.get("extensions") or {}
        extensions = {**known, AGENT_EXTENSION: found[1]}
        # The path is the endpoint's own, with what a server has put before it.
        at = scope["path"].removesuffix(path) + self._edge.path
        await self._edge({**scope, "path": at, "extensions": extensions}, receive, send)


class PathRouter:
    """`open(name)` makes the edge of a name, or returns None when there is no such thing (any more).

    `routes` are apps of their own, by how the paths begin that they answer. They see to it whom they let in.
    `page_headers` are added to the pages, which a browser may be pointed at.
    `readiness` is asked while it runs; starting and closing are known here.
    `proxies` are the addresses of those whose X-Forwarded-For names the client.
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
        page_headers: Headers | None = None,
        readiness: Callable[[], Awaitable[Readiness]] | None = None,
        proxies: Sequence[str] = (),
    ) -> None:
        self.path = path
        self._main = main
        self._names = names
        self._open = open
        self._pages = {
            LIVE_PATH: HttpPage(Readiness().page, for_everybody=True),
            READY_PATH: HttpPage(self._ready_page, for_everybody=True),
            **pages,
        }
        self._start = start
        self._stop = stop
        self._routes = routes
        self._page_headers = page_headers or []
        self._readiness = readiness
        self._proxies = ForwardingProxies(proxies) if proxies else None
        self._edges: dict[str, HttpEdge] = {}
        self._started = self._has_started = False
        self._failure: Exception | None = None
        """Why it did not start."""
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(self, receive, send)
            return
        if self._proxies is not None:
            scope = self._proxies.resolve(scope)
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
        if page.for_everybody or await self._main.admits(scope, receive):
            await _send_page(send, page.full(), self._page_headers)
        elif page.public is not None:
            await _send_page(send, page.public(), self._page_headers)
        else:
            error = InvalidRequest("Forbidden: unknown host or missing credentials")
            await send_json(send, 403, encode_error(None, error), self._page_headers)

    async def _ready_page(self) -> PageContent:
        if self._closed or not self._has_started:
            return Readiness((_SHUTTING_DOWN if self._closed else _STARTING,)).page()
        return (Readiness() if self._readiness is None else await self._readiness()).page()

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

    async def start(self) -> None:
        """Does nothing if it has started. One that has failed to is closed, and fails again."""
        if self._failure is not None:
            raise self._failure
        if self._started:
            return
        self._started = True
        try:
            await self._start()
        except BaseException as error:
            if isinstance(error, Exception):
                self._failure = error
            await self._close_what_started()
            raise
        self._has_started = True

    async def _close_what_started(self) -> None:
        try:
            await self.close()
        except Exception as error:  # why it did not start is what counts
            logger.error("cannot close what had started", exc_info=error)

    async def close(self) -> None:
        """End open streams and background work, then what all of it stands on."""
        if self._closed:
            return
        self._closed = True
        for edge in [self._main, *self._edges.values()]:
            await edge.close()
        await self._stop()


async def _send_page(send: Send, shown: PageContent | Awaitable[PageContent], headers: Headers) -> None:
    page = await shown if inspect.isawaitable(shown) else shown
    length = (b"content-length", b"%d" % len(page.body))
    head = [(b"content-type", page.content_type.encode()), *PAGE_HEADERS, *headers, length]
    await send({"type": "http.response.start", "status": page.status, "headers": head})
    await send({"type": "http.response.body", "body": page.body})


def json_content(content: Any, status: int = 200) -> PageContent:
    return PageContent("application/json", encode(content), status)


def json_page(content: Callable[[], Awaitable[Any]], public: Callable[[Any], Any]) -> HttpPage:
    """`public` reduces the content to what everybody may see."""

    async def full_page() -> PageContent:
        return json_content(await content())

    async def public_page() -> PageContent:
        return json_content(public(await content()))

    return HttpPage(full_page, public_page)
