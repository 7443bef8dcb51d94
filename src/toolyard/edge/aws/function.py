"""The edge of a Lambda function: HTTP requests as events, both eras, no connection to keep.

Owns paths, methods, CORS, admission, the reply before the function's time is up, and one log line a
request. Nothing of a request outlives it. A function keeps no streams, needs and ends no sessions, and asks
legacy clients nothing.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from ...languages import Locale, answering, said
from ...telemetry.logs import write_json_line
from ...telemetry.requests import ObservedRequest, OutcomeLabel, current, outcome_label
from ...wire.call import NO_CHANNEL, Call, Caller, Identity, Secret, Service, StreamedResult
from ...wire.errors import InternalError, InvalidRequest, McpError, MethodNotFound
from ...wire.headers import RequestHeaders
from ...wire.messages import (
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcResponse,
    decode_params,
    encode,
    encode_error,
    parse,
    recover_id,
)
from ...wire.seal import Sealer
from ...wire.sse import frame
from ...wire.types import CallToolResult, InitializeParams, Text
from ...wire.versions import ASSUMED_VERSION
from ..replies import error_reply, take_notification
from ..request import (
    JSON_HEADERS,
    SSE_HEADERS,
    AcceptHeader,
    AcceptHeaders,
    App,
    AuthenticatorSetting,
    CallerKeyReader,
    CallerKeys,
    CallerKeySetting,
    Event,
    Headers,
    HostGuard,
    Refused,
    RequestReader,
    Scope,
    body_over,
    forget_keys,
    form_error,
    hide_in_log,
    not_found,
)
from ..sessions import SESSION_HEADER, LegacySessions, find_session, legacy_call
from .events import MAX_EVENT_BYTES, EventKind, EventRequest, ResponseWriter

Fit = Callable[[Call, Raw], Awaitable[Raw]]
"""Makes a tool's result small that is too big for a function to send."""

MAX_NOTIFIED = 1024 * 1024
"""Room that notifications leave for the answer."""
_NOBODY = Caller(ASSUMED_VERSION, {})


class FunctionTimeoutError(McpError, TimeoutError):
    """The function's time ran out, and the call was cancelled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            -32603,
            said(
                f"The function timed out: the call was cancelled after {seconds:.1f} seconds",
                f"O tempo da função acabou: a chamada foi cancelada após {seconds:.1f} segundos",
            ),
        )

    @property
    def http_status(self) -> int:
        return 504


class _NameParams(Struct):
    name: str = ""


_decode_name = msgspec.json.Decoder(_NameParams).decode


class Invocation:
    """A request, what is known of it by now, and how it was answered."""

    def __init__(self, request: EventRequest, writer: ResponseWriter) -> None:
        self.method, self.path, self.body = request.method, request.path, request.body
        self.peer, self.query, self.domain = request.peer, request.query, request.domain
        self.kind: EventKind = request.kind
        self.head = RequestHeaders.of(request.headers)
        self.headers: Headers = []
        """What every answer carries: CORS, for a browser."""
        self.accepted = AcceptHeader(True, False, False)
        self.identity = Identity()
        self.secrets: Mapping[str, Secret] | None = None
        self.call: Call | None = None
        self.record = ObservedRequest(method="", server="", caller=_NOBODY, transport="http")
        self.status = 0
        self.outcome: OutcomeLabel = "ok"
        self._writer = writer
        self._state: Literal["silent", "speaking", "finished"] = "silent"

    def located_head(self) -> RequestHeaders:
        """The headers with the host that AWS says, and none if it says none: a client may send any."""
        others = [pair for pair in self.head.pairs if pair[0] != b"host"]
        domain = [(b"host", self.domain.encode())] if self.domain else []
        return RequestHeaders.of([*others, *domain])

    # Answers

    async def refuse(self, status: int, message: str, headers: Headers | None = None) -> None:
        """Turned away before any JSON-RPC was read: an error without an id."""
        self.headers += headers or []
        await self.fail(status, InvalidRequest(message))

    async def fail(self, status: int, error: McpError, id: Any = None) -> None:
        self.record_error(error)
        await self.finish(status, encode_error(id, error))

    async def empty(self, status: int, headers: Headers | None = None) -> None:
        if self._state == "finished":
            return
        await self._start(status, [*self.headers, *(headers or [])])
        self._state = "finished"

    async def finish(self, status: int, body: bytes) -> None:
        if self._state == "finished":
            return
        speaking, self._state = self._state == "speaking", "finished"
        if not speaking:
            await self._start(status, [*JSON_HEADERS, *self.headers])
        await self._writer.write(frame(body) if speaking else body)

    async def run_app(self, app: App) -> None:
        """Have an ASGI app answer it, which reads no body."""

        async def send(event: Event) -> None:
            if event["type"] == "http.response.start":
                await self._start(event["status"], event["headers"])
            elif self.method != "HEAD":
                await self._writer.write(event["body"])

        self._state = "finished"
        scope: Scope = {
            "type": "http",
            "scheme": "https",
            "method": self.method,
            "path": self.path,
            "query_string": self.query,
            "headers": self.located_head().pairs,
        }
        await app(scope, _no_body, send)

    async def _start(self, status: int, headers: Headers) -> None:
        self.status = status
        await self._writer.start(status, headers)

    def record_error(self, error: BaseException) -> None:
        """Note how it ended. The error itself is let go: its traceback would hold on to the request."""
        self.record.error = error
        self.outcome = outcome_label(self.record)
        self.record.error = None

    # The call

    async def run(self, service: Service, call: Call, fit: Fit | None) -> None:
        """Have it answered. In the legacy era errors are answers like any other."""
        self.take(call)
        try:
            result = await service.handle(call)
            if isinstance(result, StreamedResult):
                result = await _whole(result)
            if getattr(result, "is_error", False):
                self.outcome = "tool_error"
            status, body = 200, await self._fitted_body(call, result, fit)
        except Exception as error:
            self.record_error(error)
            reply = error_reply(call, error)
            self.headers = [*self.headers, *reply.headers]
            status = reply.legacy_status if call.caller.era == "legacy" else reply.status
            body = reply.body
        await self.finish(status, body)

    def take(self, call: Call) -> None:
        """Use this call in the log and when the time runs out."""
        self.call = call
        self.record.method, self.record.caller, self.record.rpc_id = call.method, call.caller, call.id
        if call.method == "tools/call":
            try:
                self.record.name = _decode_name(call.params).name[:128]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.record.name = None

    def forget(self) -> None:
        """Let go of what came. A call and its channel hold each other, and no collector looks into a call."""
        if self.call is not None:
            self.call.channel = NO_CHANNEL
            self.call.secrets = self.call = None
        if self.secrets is not None:
            forget_keys(self.secrets)
            self.secrets = None
        self.head, self.body = RequestHeaders.of([]), b""

    async def _fitted_body(self, call: Call, result: Any, fit: Fit | None) -> bytes:
        writer = self._writer
        body = encode(JsonRpcResponse(call.id, result))  # type: ignore[arg-type]
        size = writer.size_of(body)
        if size <= writer.remaining:
            return body
        if fit is not None and call.method == "tools/call":
            body = encode(JsonRpcResponse(call.id, await fit(call, Raw(encode(result)))))  # type: ignore[arg-type]
            if writer.size_of(body) <= writer.remaining:
                return body
        message = said(
            f"The result has {size} bytes and a function can send {writer.remaining}; request less at a time",
            f"O resultado tem {size} bytes e uma função pode enviar {writer.remaining}; peça menos por vez",
        )
        return self._error_body(call, InternalError(message))

    async def time_out(self, seconds: float) -> None:
        """The time is up. Whoever has been told nothing by now is told that."""
        late = FunctionTimeoutError(seconds)
        self.record_error(late)
        if self.call is None or self.call.id is None:
            await self.finish(late.http_status, encode_error(None, late))
        else:
            await self.finish(200, self._error_body(self.call, late))

    def _error_body(self, call: Call, error: McpError) -> bytes:
        """An error that a model can do something about comes as the result of its tool."""
        if call.method != "tools/call":
            return encode_error(call.id, error)
        result = CallToolResult(content=[Text(error.message)], is_error=True)
        if call.caller.era == "modern":
            result.result_type = "complete"
        return encode(JsonRpcResponse(call.id, result))  # type: ignore[arg-type]

    # The call's channel

    async def notify(self, method: str, params: Any) -> None:
        """Drop it if the client accepts no streams, or if the response might not fit after it."""
        if not self.accepted.streams or self._state == "finished":
            return
        event = frame(encode(JsonRpcNotification(method, params)))
        if self._writer.size_of(event) + MAX_NOTIFIED // 2 > self._writer.remaining:
            return
        if self._state == "silent":
            self._state = "speaking"
            await self._start(200, [*SSE_HEADERS, *self.headers])
        await self._writer.write(event)

    async def ask(self, method: str, params: Any) -> Raw:
        raise InvalidRequest(
            f"{method!r} is not available: this server is a stateless function and cannot receive "
            "a client's response; use protocol version 2026-07-28"
        )

    async def release(self, retry_ms: int | None) -> None:
        """There is nobody to come back to."""


async def _no_body() -> Event:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _whole(result: StreamedResult) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in result.chunks()]))
    finally:
        result.close()


logger = logging.getLogger("toolyard.edge")

HEALTH = "/health"
NEEDS_STREAMS = frozenset({"subscriptions/listen", "resources/subscribe", "resources/unsubscribe"})
LAST_MOMENT = 0.1
"""Seconds that a call has to tidy up after it was stopped."""
# Where Python can (3.12), a request is begun at once and not in the loop's next turn, which is a system call.
_EAGERLY: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
_ALLOWED: Headers = [(b"allow", b"POST, OPTIONS")]


class LambdaRoute(Struct, frozen=True):
    """A server at one path."""

    name: str
    service: Service
    sealer: Sealer
    keys: CallerKeys | None = None
    locale: Locale = "en"


class LambdaEdge:
    """`entries` by their paths; `origins` whose pages may call, all of them unless some are named.

    `routes` are apps of their own, by how the paths begin that they answer.
    """

    def __init__(
        self,
        entries: Mapping[str, LambdaRoute],
        *,
        origins: list[str] | None = None,
        callers: AuthenticatorSetting | None = None,
        fit: Fit | None = None,
        routes: Mapping[str, App] | None = None,
    ) -> None:
        self._routes = dict(entries)
        self._apps = dict(routes or {})
        self._callers = callers or AuthenticatorSetting()
        self._key_readers = {
            path: CallerKeyReader(CallerKeySetting(entry.keys), entry.sealer)
            for path, entry in entries.items()
            if entry.keys is not None
        }
        self._locale: Locale = next(iter(entries.values())).locale
        """Of what no server is asked for: that of the first."""
        self._only_keys = next(iter(entries.values())).keys if len(entries) == 1 else None
        self._guard = HostGuard(["*"], origins or ["*"])
        self._fit = fit
        self._accept = AcceptHeaders()
        self._reader = RequestReader()

    async def serve(
        self, request: EventRequest, writer: ResponseWriter, seconds: float | None, request_id: str = ""
    ) -> Invocation:
        """Answer a request, within so many seconds. The answer is in the writer, how it went is returned."""
        invocation = Invocation(request, writer)
        invocation.record.request_id = request_id
        route = self._routes.get(request.path.rstrip("/"))
        with answering(self._locale if route is None else route.locale):
            return await self._serve(invocation, seconds)

    async def _serve(self, invocation: Invocation, seconds: float | None) -> Invocation:
        loop = asyncio.get_running_loop()
        # What `asyncio.wait` does, at less than half its price: it was a tenth of a short request.
        ended: asyncio.Future[bool] = loop.create_future()
        working = asyncio.Task(self._work(invocation, ended), loop=loop, **_EAGERLY)
        timer = None if seconds is None else loop.call_later(seconds, _settle, ended, False)
        try:
            in_time = await ended
            if timer is not None:
                timer.cancel()
            if in_time or seconds is None:
                working.result()  # what the writer raised: it is lost, and so is the answer
            else:
                working.cancel()
                await asyncio.wait({working}, timeout=LAST_MOMENT)
                await invocation.time_out(seconds)
        finally:
            invocation.forget()
        return invocation

    async def _work(self, invocation: Invocation, ended: "asyncio.Future[bool]") -> None:
        current.set(invocation.record)
        try:
            # The error is over by then: one of the writer's would carry it, and its words, to another log.
            if not await self._is_answered(invocation, ended):
                call = invocation.call
                await invocation.fail(500, InternalError(), None if call is None else call.id)
        finally:
            _settle(ended, True)

    async def _is_answered(self, invocation: Invocation, ended: "asyncio.Future[bool]") -> bool:
        """The last net: whatever goes wrong is logged, and the instance goes on."""
        try:
            await self._route(invocation)
        except asyncio.CancelledError as error:
            if ended.done():  # by us: the time is up
                raise
            # By its own code. AWS's loop does not catch it, so the instance would end.
            logger.error("a request was cancelled from inside", exc_info=error)
        except Exception as error:
            logger.error("a request failed", exc_info=error)
        else:
            return True
        return False

    # Where to

    async def _route(self, invocation: Invocation) -> None:
        method, path = invocation.method, invocation.path.rstrip("/")
        refusal = self._guard.refusal(invocation.head)
        if refusal is not None:
            await invocation.refuse(*refusal)
            return
        for start, app in self._apps.items():
            if path.startswith(start):
                await invocation.run_app(app)
                return
        if b"origin" in invocation.head.raw:
            invocation.headers = self._guard.cors(invocation.head)
        if path == HEALTH and method in ("GET", "HEAD"):
            await invocation.finish(200, b"" if method == "HEAD" else encode(self._health()))
        elif path != HEALTH and path not in self._routes:
            await invocation.refuse(404, self._not_found(invocation.path))
        elif method == "OPTIONS":
            await invocation.empty(204, self._preflight(invocation))
        elif path == HEALTH:
            await invocation.refuse(
                405, f"{method[:20]} is not allowed here", [(b"allow", b"GET, HEAD, OPTIONS")]
            )
        elif method != "POST":
            name = method[:20]
            message = said(
                f"{name} is not allowed here: a function keeps no streams",
                f"{name} não é permitido aqui: uma função não mantém streams",
            )
            await invocation.refuse(405, message, _ALLOWED)
        else:
            await self._authenticate(invocation, path)

    def _not_found(self, path: str) -> str:
        keys = self._only_keys if self._callers.authenticator is None else None
        return not_found(path, ", ".join(repr(name) for name in self._routes), keys)

    def _health(self) -> object:
        told = [entry.service.health() for entry in self._routes.values()]
        return told[0] if len(told) == 1 else {"status": "ok", "servers": told}

    def _preflight(self, invocation: Invocation) -> Headers:
        requested = invocation.head.raw.get(b"access-control-request-headers") or b"content-type"
        allowed: Headers = [
            (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
            (b"access-control-allow-headers", requested),
            (b"access-control-max-age", b"600"),
        ]
        return allowed if invocation.headers else [(b"access-control-allow-origin", b"*"), *allowed]

    async def _authenticate(self, invocation: Invocation, path: str) -> None:
        entry = self._routes[path]
        invocation.record.server = entry.name
        tenants = self._key_readers.get(path)
        authenticator = self._callers.authenticator
        try:
            if authenticator is not None:
                principal = await authenticator.authenticate(
                    invocation.located_head(), invocation.peer, resource=path, query=invocation.query
                )
                invocation.identity = Identity(principal)
            if tenants is not None:
                invocation.identity, invocation.secrets = await tenants.read(
                    invocation.head, invocation.identity
                )
                if invocation.secrets is not None:
                    hide_in_log(invocation.secrets)
        except Refused as refused:
            await invocation.refuse(refused.status, refused.message, refused.headers)
            return
        await self._post(invocation, entry)

    # What

    async def _post(self, invocation: Invocation, entry: LambdaRoute) -> None:
        body = invocation.body
        invocation.accepted = self._accept[invocation.head.raw.get(b"accept")]
        wrong = form_error(invocation.head, invocation.accepted)
        most = MAX_EVENT_BYTES[invocation.kind]
        if wrong is None and len(body) > most:
            wrong = 413, body_over(most)
        if wrong is not None:
            await invocation.refuse(*wrong)
            return
        try:
            message = parse(body)
            call = self._reader.read(
                invocation.head, invocation.identity, invocation.secrets, body, message, invocation
            )
        except McpError as error:
            await invocation.fail(error.http_status, error, recover_id(body))
            return
        if call is None:
            await self._legacy(invocation, entry, message)
        else:
            await self._answer(invocation, entry, call)

    async def _answer(self, invocation: Invocation, entry: LambdaRoute, call: Call) -> None:
        if call.id is None:
            invocation.take(call)
            await take_notification(entry.service, call)
            await invocation.empty(202)
        elif call.method in NEEDS_STREAMS:
            invocation.take(call)
            await invocation.fail(
                404, MethodNotFound("subscriptions/listen, by a function: it keeps no streams"), call.id
            )
        else:
            await invocation.run(entry.service, call, self._fit)

    async def _legacy(self, invocation: Invocation, entry: LambdaRoute, message: JsonRpcMessage) -> None:
        sessions = LegacySessions(
            entry.sealer, last=False
        )  # made for each request: what it remembers goes with it
        if message.method == "initialize" and message.is_request:
            await self._initialize(invocation, entry, message, sessions)
            return
        opened = find_session(sessions, invocation.head, invocation.identity)
        if opened is None:  # nothing is kept, so nobody is refused for what is not known
            opened = sessions.anonymous(invocation.head.version or ASSUMED_VERSION, invocation.identity)
        else:
            invocation.headers.append((SESSION_HEADER, invocation.head.raw[SESSION_HEADER]))
        if isinstance(message.method, str):
            call = legacy_call(
                invocation.body, message, opened, opened.session, invocation.secrets, invocation
            )
            await self._answer(invocation, entry, call)
        else:
            await invocation.empty(202)  # the answer to a question that no function asked

    async def _initialize(
        self, invocation: Invocation, entry: LambdaRoute, message: JsonRpcMessage, sessions: LegacySessions
    ) -> None:
        assert isinstance(message.method, str)
        assert isinstance(message.id, int | str)
        try:
            id, caller, session = sessions.start(
                decode_params(message.params, InitializeParams), invocation.identity
            )
        except McpError as error:
            await invocation.fail(400, error, message.id)
            return
        call = Call(message.method, message.params, caller, invocation, message.id, session=session)
        invocation.headers.append((SESSION_HEADER, id.encode()))
        await invocation.run(entry.service, call, None)


def _settle(ended: "asyncio.Future[bool]", in_time: bool) -> None:
    if not ended.done():
        ended.set_result(in_time)


requests = logging.getLogger("toolyard.requests")

_KEY = "key:"
_SHOWN = 12
"""Hexadecimal digits of a key's keyed hash."""


def log_invocation(invocation: Invocation, seconds: float, init_ms: float | None) -> None:
    """`init_ms` comes with an instance's first request: what it took to start invocation."""
    if not requests.isEnabledFor(logging.INFO):
        return
    record = invocation.record
    fields: dict[str, object] = {
        "request_id": record.request_id,
        "method": record.method[:80],
        "tool": (record.name or "")[:80],
        "server": record.server,
        "key": _key(invocation.identity.principal.tenant),
        "http_method": invocation.method[:20],
        "path": invocation.path[:80],
        "status": invocation.status,
        "outcome": invocation.outcome,
        "duration_ms": round(seconds * 1000, 3),
    }
    extra = {name: value for name, value in fields.items() if value not in ("", None)}
    if init_ms is not None:
        extra |= {"cold_start": 1, "init_ms": round(init_ms, 1)}
    write_json_line(requests.name, record.method[:80] or invocation.method[:20], extra)


def _key(tenant: str) -> str:
    """The part of a tenant's name that is the hash of its key."""
    _, mark, hashed = tenant.rpartition(_KEY)
    return hashed[:_SHOWN] if mark else ""


def uptime_ms() -> float:
    """Milliseconds since this process was started, the interpreter's own start included."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / 100) * 1000
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time() * 1000
