"""Records one request: its data while it runs, its outcome, and its span, metrics and log line.

`Observation` makes all three in one `with`; a disabled one costs a comparison with None. `current` links
other log lines to their request.
"""

import logging
from collections.abc import Callable
from contextvars import ContextVar, Token
from itertools import count
from secrets import token_hex
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from ..wire.call import Caller
from ..wire.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    McpError,
)
from ..wire.messages import Id

Transport = Literal["http", "stdio", "inprocess"]
OutcomeLabel = Literal["ok", "tool_error", "invalid", "timeout", "cancelled", "error"]

_calls = logging.getLogger("toolyard.calls")
_NAME = 200

# Errors of the caller. Counted separately, so that a client cannot trigger alarms about an upstream.
_CALLERS_FAULT = frozenset(
    {
        PARSE_ERROR,
        INVALID_REQUEST,
        METHOD_NOT_FOUND,
        INVALID_PARAMS,
        HEADER_MISMATCH,
        MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
        -32002,  # resource not found, in the legacy era
    }
)


class ObservedRequest(Struct, kw_only=True, gc=False):
    """One request. The lower half is filled in while it runs.

    Many wait to be written as spans, so the garbage collector does not look at them. Whoever sets `error`
    takes it away at the end: its traceback refers to the request.
    """

    method: str
    server: str
    """The upstream's name in the configuration; empty if the gateway answers the request itself."""
    caller: Caller
    transport: Transport
    """The transport to the upstream for a forward, to the client for a request that the gateway serves."""
    name: str | None = None
    """Tool, prompt or resource address; None if there is none or it is unknown to us."""
    request_id: str = ""
    """Ours, from `new_request_id`: a client's ids are not unique among clients."""
    rpc_id: Id | None = None
    session_id: str = ""
    request_bytes: int = 0
    address: str = ""
    port: int = 0
    in_access_log: bool = False
    """Whether it is logged even if it succeeds."""

    upstream_version: str = ""
    response_bytes: int | None = None
    is_error_result: bool = False
    error: BaseException | None = None
    trace: int = 0
    span: int = 0
    """The ids of its span; 0 if traces are off."""
    is_sampled: bool = True
    """Whether its span is kept; only some are if the caller says so."""
    is_root: bool = False
    """Its span begins a trace: whoever sent it named none."""
    is_served: bool = False
    """It came from a client. Otherwise it is one to an upstream."""
    is_forwarded: bool = False
    """It was served by requests to upstreams."""
    called: tuple[str, ...] = ()
    """The full names of the tools that were called for it, if it names another, as a meta tool's does."""
    stored_as: str = ""
    """The id under which its result was stored, because it was too big."""
    arguments: str = ""
    result: str = ""
    """As JSON, cut and redacted; set only if content is to be traced."""
    resends: int = 0
    """How often it was sent again to the upstream."""
    connections: int = 0
    """How many connections were opened for it."""
    exchanges: "ExchangeTracer | None" = None
    """Makes spans of its HTTP exchanges while it runs; None if traces are off."""

    @property
    def trace_id(self) -> str:
        return f"{self.trace:032x}" if self.trace else ""

    @property
    def span_id(self) -> str:
        return f"{self.span:016x}" if self.span else ""


class ClientAddress(Struct, frozen=True):
    """The origin of a request, as far as its edge knows it."""

    address: str = ""
    """The client's address; where a proxy is not configured, the proxy's."""
    forwarded_for: str = ""
    """What X-Forwarded-For says. It is not verified."""
    traceparent: str = ""
    """The HTTP header: the trace of a client that names none in `_meta`."""
    tracestate: str = ""


class ExchangeSpan(Protocol):
    """The span of one HTTP exchange with an upstream."""

    def answered(self, status: int, reused: bool) -> None:
        """The head of the response has come; `reused`: on a connection that was open before."""
        ...

    def end(self, size: int | None = None, error: BaseException | None = None) -> None:
        """`size` is that of the response's body. Only the first call counts."""
        ...


class ExchangeTracer(Protocol):
    def exchange(self, method: str, url: str, request_bytes: int, resends: int) -> ExchangeSpan:
        """Open a span below the current one; `url` has no secrets."""
        ...


current: ContextVar[ObservedRequest | None] = ContextVar("toolyard_observed", default=None)
client_address: ContextVar[ClientAddress] = ContextVar("toolyard_origin", default=ClientAddress())  # noqa: B039 (frozen)

new_request_id: Callable[[], str] = map(f"{token_hex(4)}-{{}}".format, count(1)).__next__
"""Makes an id that is unique among processes. A counter, because random bytes would cost more."""


def outcome_label(request: ObservedRequest) -> OutcomeLabel:
    error = request.error
    if error is None:
        return "tool_error" if request.is_error_result else "ok"
    if isinstance(error, TimeoutError):  # some McpErrors are TimeoutErrors too
        return "timeout"
    if isinstance(error, McpError):
        return "invalid" if error.code in _CALLERS_FAULT else "error"
    # CancelledError, KeyboardInterrupt and the like are not faults of the call.
    return "error" if isinstance(error, Exception) else "cancelled"


def log_request(request: ObservedRequest, ended: OutcomeLabel, seconds: float) -> None:
    """Log a request: as a warning if an upstream failed, otherwise in the access log or for debugging."""
    failed = ended in ("error", "timeout") and not getattr(request.error, "expected", False)
    level = logging.WARNING if failed else logging.INFO if request.in_access_log else logging.DEBUG
    if not _calls.isEnabledFor(level):
        return
    extra = {"outcome": ended, "duration_ms": round(seconds * 1000, 3), **request_fields(request)}
    if request.in_access_log:
        extra |= _caller_of(request)
    if request.error is not None:
        extra["error"] = f"{type(request.error).__name__}: {request.error}"
    _calls.log(level, "%s", request.method, extra=extra)


def _caller_of(request: ObservedRequest) -> dict[str, Any]:
    """The caller, its address and the sizes of a request. Names are as the client sent them."""
    came = client_address.get()
    client = request.caller.client
    fields = {
        "agent": request.caller.agent[:_NAME],
        "client": f"{client.name}/{client.version}".strip("/")[:_NAME],
        "address": came.address,
        "forwarded_for": came.forwarded_for[:_NAME],
        "request_bytes": request.request_bytes,
        "response_bytes": request.response_bytes,
    }
    return {name: value for name, value in fields.items() if value}


def request_fields(request: ObservedRequest) -> dict[str, Any]:
    """The fields of a request that each of its log lines shows."""
    fields = {
        "request_id": request.request_id,
        "server": request.server,
        "tool": request.name if request.method == "tools/call" else None,
        "tenant": request.caller.tenant,
        "trace_id": request.trace_id,
        "span_id": request.span_id,
    }
    return {name: value for name, value in fields.items() if value}


Meta = dict[str, Raw]
_NO_META: Meta = {}


class Recorder(Protocol):
    """Counts finished requests: `Metrics`."""

    def record(
        self,
        server: str,
        method: str,
        outcome: OutcomeLabel,
        seconds: float,
        request_bytes: int,
        response_bytes: int,
    ) -> None: ...


class OpenSpan(Protocol):
    """A span that `with` opens; returns the `_meta` to send on."""

    def __enter__(self) -> Meta: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None, /
    ) -> None: ...


class Tracer(ExchangeTracer, Protocol):
    """Makes the spans of requests."""

    def serve(self, request: ObservedRequest, meta: Meta) -> OpenSpan:
        """The span of a client's request; its parent is the context in `_meta`."""
        ...

    def forward(self, request: ObservedRequest, meta: Meta) -> OpenSpan:
        """The span of a request to an upstream; its parent is the current span, or else the one in `meta`."""
        ...

    async def close(self, limit: float = 5.0) -> None:
        """Export or write the remaining spans, for `limit` seconds at most."""
        ...


class Observation(Struct, eq=False):
    """`with Observation(request, metrics, tracing, meta) as meta`: the block sends this `meta` on.

    The block fills in the lower half of `request`; at its end the request is recorded.
    """

    request: ObservedRequest
    metrics: Recorder | None
    tracing: Tracer | None = None
    meta: Meta = _NO_META
    _span: OpenSpan | None = None
    _token: Token[ObservedRequest | None] | None = None
    _started: float = 0.0

    def __enter__(self) -> Meta:
        self._started = perf_counter()
        if self.tracing is None:
            self._token = current.set(self.request)
            return self.meta
        self.request.exchanges = self.tracing
        self._span = self.tracing.forward(self.request, self.meta)
        told = self._span.__enter__()  # before `current` changes: its parent is there
        self._token = current.set(self.request)
        return told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        request = self.request
        seconds = perf_counter() - self._started
        if error is not None:
            request.error = error
        if self._span is not None:
            self._span.__exit__(kind, error, where)
        is_ok = request.error is None and not request.is_error_result
        label: OutcomeLabel = "ok" if is_ok else outcome_label(request)
        if self.metrics is not None:
            received, sent = request.request_bytes, request.response_bytes or 0
            self.metrics.record(request.server, request.method, label, seconds, received, sent)
        if not is_ok or request.in_access_log or _calls.isEnabledFor(logging.DEBUG):
            log_request(request, label, seconds)
        # Tasks begun during the call keep its context, which must not keep the error and its frames alive.
        request.error = None
        request.exchanges = None
        if self._token is not None:
            current.reset(self._token)
