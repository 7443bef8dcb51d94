"""What is known of one request while it runs, how it ended, and its record: span, metrics and log line.

`Observation` makes all three in one `with`; what is turned off costs a comparison with None. `current`
tells other log lines which request they belong to.
"""

import logging
from contextvars import ContextVar
from itertools import count
from secrets import token_hex
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

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

if TYPE_CHECKING:
    from .spans import RequestSpan, Tracing


Transport = Literal["http", "stdio", "inprocess"]
OutcomeLabel = Literal["ok", "tool_error", "invalid", "timeout", "cancelled", "error"]

_calls = logging.getLogger("toolyard.calls")
_NAME = 200

# What the caller did wrong. Kept apart, or anybody could set off an alarm about an upstream.
_CALLERS_FAULT = frozenset(
    {
        PARSE_ERROR,
        INVALID_REQUEST,
        METHOD_NOT_FOUND,
        INVALID_PARAMS,
        HEADER_MISMATCH,
        MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
        -32002,  # a legacy server has no such resource
    }
)


class ObservedRequest(Struct, kw_only=True):
    """One request. The lower half is filled in as it becomes known."""

    method: str
    server: str
    """The upstream, by its name in the configuration; empty for what the gateway answers itself."""
    caller: Caller
    transport: Transport
    """Towards the upstream for a forward, towards the client for what the gateway serves."""
    name: str | None = None
    """Tool, prompt or resource address; None where there is none, or where it is unknown to us."""
    request_id: str = ""
    """Ours, from `new_request_id`: a client's ids are not unique among clients."""
    rpc_id: Id | None = None
    session_id: str = ""
    request_bytes: int = 0
    address: str = ""
    port: int = 0
    in_access_log: bool = False
    """It has a line in the log, however it ends."""

    upstream_version: str = ""
    response_bytes: int | None = None
    is_error_result: bool = False
    error: BaseException | None = None
    trace_id: str = ""
    span_id: str = ""
    """Written by the span, when traces are on; log lines show both."""


class ClientAddress(Struct, frozen=True):
    """Where a request came from, as far as its edge can tell."""

    address: str = ""
    """Of whoever holds the connection: a client, or the proxy before us."""
    forwarded_for: str = ""
    """For whom a proxy says that it asks. Anybody can say so."""


current: ContextVar[ObservedRequest | None] = ContextVar("toolyard_observed", default=None)
client_address: ContextVar[ClientAddress] = ContextVar("toolyard_origin", default=ClientAddress())  # noqa: B039 (frozen)

_process = token_hex(4)
_numbers = count(1)


def new_request_id() -> str:
    """Unique among processes; a counter and not random bytes, as it is made for every request."""
    return f"{_process}-{next(_numbers)}"


def outcome_label(seen: ObservedRequest) -> OutcomeLabel:
    error = seen.error
    if error is None:
        return "tool_error" if seen.is_error_result else "ok"
    if isinstance(error, TimeoutError):  # also an McpError that is one
        return "timeout"
    if isinstance(error, McpError):
        return "invalid" if error.code in _CALLERS_FAULT else "error"
    # CancelledError, KeyboardInterrupt and the like are no faults of the call.
    return "error" if isinstance(error, Exception) else "cancelled"


def log_request(seen: ObservedRequest, ended: OutcomeLabel, seconds: float) -> None:
    """The one line of a request: a warning when an upstream failed, else for the access log or debugging."""
    failed = ended in ("error", "timeout") and not getattr(seen.error, "expected", False)
    level = logging.WARNING if failed else logging.INFO if seen.in_access_log else logging.DEBUG
    if not _calls.isEnabledFor(level):
        return
    extra = {"outcome": ended, "duration_ms": round(seconds * 1000, 3), **request_fields(seen)}
    if seen.in_access_log:
        extra |= _caller_of(seen)
    if seen.error is not None:
        extra["error"] = f"{type(seen.error).__name__}: {seen.error}"
    _calls.log(level, "%s", seen.method, extra=extra)


def _caller_of(seen: ObservedRequest) -> dict[str, Any]:
    """Who made a request, from where, and how much went to and fro. Names are the client's own words."""
    came = client_address.get()
    client = seen.caller.client
    fields = {
        "agent": seen.caller.agent[:_NAME],
        "client": f"{client.name}/{client.version}".strip("/")[:_NAME],
        "address": came.address,
        "forwarded_for": came.forwarded_for[:_NAME],
        "request_bytes": seen.request_bytes,
        "response_bytes": seen.response_bytes,
    }
    return {name: value for name, value in fields.items() if value}


def request_fields(seen: ObservedRequest) -> dict[str, Any]:
    """The fields of a request that each of its log lines shows."""
    fields = {
        "request_id": seen.request_id,
        "server": seen.server,
        "tool": seen.name if seen.method == "tools/call" else None,
        "tenant": seen.caller.tenant,
        "trace_id": seen.trace_id,
        "span_id": seen.span_id,
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


class Observation:
    """`with Watch(seen, metrics, tracing, meta) as meta`: the block sends `meta` on and fills in `seen`."""

    __slots__ = ("_meta", "_metrics", "_seen", "_spanned", "_started", "_token")

    def __init__(
        self,
        seen: ObservedRequest,
        metrics: Recorder | None,
        tracing: "Tracing | None" = None,
        meta: Meta = _NO_META,
    ) -> None:
        self._seen = seen
        self._metrics = metrics
        self._meta = meta
        self._spanned: RequestSpan | None = None if tracing is None else tracing.forward(seen, meta)

    def __enter__(self) -> Meta:
        self._token = current.set(self._seen)
        self._started = perf_counter()
        return self._meta if self._spanned is None else self._spanned.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        seen = self._seen
        seconds = perf_counter() - self._started
        if error is not None:
            seen.error = error
        if self._spanned is not None:
            self._spanned.__exit__(kind, error, where)
        ended = outcome_label(seen)
        if self._metrics is not None:
            self._metrics.record(
                seen.server, seen.method, ended, seconds, seen.request_bytes, seen.response_bytes or 0
            )
        log_request(seen, ended, seconds)
        # What was begun during the call keeps its context, and must not keep its frames with the error.
        seen.error = None
        current.reset(self._token)
