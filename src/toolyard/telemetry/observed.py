"""What is known of one request while it runs, and how it ended.

Spans, metrics and log lines are three readings of it. `current` tells log lines which request they belong to.
"""

from contextvars import ContextVar
from itertools import count
from secrets import token_hex
from typing import Literal

from msgspec import Struct

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
Outcome = Literal["ok", "tool_error", "invalid", "timeout", "cancelled", "error"]

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


class Observed(Struct, kw_only=True):
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


class Origin(Struct, frozen=True):
    """Where a request came from, as far as its edge can tell."""

    address: str = ""
    """Of whoever holds the connection: a client, or the proxy before us."""
    forwarded_for: str = ""
    """For whom a proxy says that it asks. Anybody can say so."""


current: ContextVar[Observed | None] = ContextVar("toolyard_observed", default=None)
origin: ContextVar[Origin] = ContextVar("toolyard_origin", default=Origin())  # noqa: B039 (frozen)

_process = token_hex(4)
_numbers = count(1)


def new_request_id() -> str:
    """Unique among processes; a counter and not random bytes, as it is made for every request."""
    return f"{_process}-{next(_numbers)}"


def outcome(seen: Observed) -> Outcome:
    error = seen.error
    if error is None:
        return "tool_error" if seen.is_error_result else "ok"
    if isinstance(error, TimeoutError):  # also an McpError that is one
        return "timeout"
    if isinstance(error, McpError):
        return "invalid" if error.code in _CALLERS_FAULT else "error"
    # CancelledError, KeyboardInterrupt and the like are no faults of the call.
    return "error" if isinstance(error, Exception) else "cancelled"
