"""Names and attributes of requests' spans, after OpenTelemetry's semantic conventions for MCP.

Both kinds of spans use them: our own (`local_spans`) and OpenTelemetry's (`spans`). The conventions:
github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md.

Beside them stand the names that agents have which are instrumented with Logfire by hand: those of spans as
tags, which Logfire has a column for, and those of attributes as further attributes (`ALIASES`). Queries for
either find a span.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from ..wire.errors import INTERNAL_ERROR, McpError
from .requests import ObservedRequest, OutcomeLabel, outcome_label
from .run_spans import Operation, SpanValue

SpanKind = Literal["internal", "server", "client"]
AttributeValue = str | int | float | bool | list[str]
Attributes = dict[str, AttributeValue]

MAX_TEXT = 1000
_MAX_NAME = 128
_NETWORK = {"http": "tcp", "stdio": "pipe"}
_USERINFO = re.compile(r"(?<=//)[^/?#@]*@")
TARGETS = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "completion/complete": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
    "resources/subscribe": "mcp.resource.uri",
    "resources/unsubscribe": "mcp.resource.uri",
}
"""The attribute that holds the target of a request, by its method."""
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
TASK = "toolyard.task"
TURN = "toolyard.turn"
COST = "toolyard.cost"


TAGS = "logfire.tags"
ALIASES = {
    "gen_ai.tool.name": "tool_name",
    "gen_ai.tool.call.id": "tool_id",
    "toolyard.upstream": "server_name",
    "toolyard.response.size": "content_size",
}
IS_ERROR = "is_error"
TOOL_CALL_TAGS = ["tool_call", "tool_result"]
"""Of the span around a call as its caller sees it; at its end it has the size of the result."""
REQUEST_TAGS = ["mcp.request"]
EXCHANGE_TAGS = ["httpx.request"]


def with_aliases(attributes: Attributes) -> Attributes:
    return attributes | {alias: attributes[key] for key, alias in ALIASES.items() if key in attributes}


def run_attributes(operation: Operation, attributes: Mapping[str, SpanValue]) -> Attributes:
    """What a span of an agent's run has from its beginning."""
    known: Attributes = {"gen_ai.operation.name": operation, **attributes}
    if operation == "turn" and TURN in attributes:
        known[TAGS] = [f"conversation_iteration_{attributes[TURN]}"]
    elif operation == "execute_tool":
        known[TAGS] = TOOL_CALL_TAGS
    return known


class SpanFailure(Struct, frozen=True):
    """Why a span's status is an error; `kind` is its `error.type`."""

    kind: str
    text: str = ""


def span_name(request: ObservedRequest) -> str:
    key = TARGETS.get(request.method)
    if request.name is None or key is None or key == "mcp.resource.uri":  # URIs make too many names
        return request.method
    return f"{request.method} {request.name[:_MAX_NAME]}"


def shared_attributes(request: ObservedRequest, kind: SpanKind) -> Attributes:
    """What a request has in common with others of its caller for the same target."""
    caller = request.caller
    identity = caller.identity
    known: Attributes = {"mcp.method.name": request.method, "toolyard.tenant": identity.principal.tenant}
    optional = {
        "toolyard.upstream": request.server,
        "toolyard.agent": identity.principal.agent,
        "toolyard.thread": identity.thread,
        "toolyard.client.name": caller.client.name,
        "network.transport": _NETWORK.get(request.transport, ""),
        "network.protocol.name": "http" if request.transport == "http" else "",
        "mcp.protocol.version": caller.version if kind == "server" else request.upstream_version,
    }
    known.update((key, value) for key, value in optional.items() if value)
    if request.name is not None and (target := TARGETS.get(request.method)):
        known[target] = _USERINFO.sub("", request.name) if "@" in request.name else request.name
    if request.method == "tools/call":
        known["gen_ai.operation.name"] = "execute_tool"
        if kind == "server" and request.is_root:  # else its caller has a span around the call
            known[TAGS] = TOOL_CALL_TAGS
    if kind == "client":
        known[TAGS] = REQUEST_TAGS
    if request.session_id:
        # A digest, because the id itself gives access to the session.
        known["mcp.session.id"] = hashlib.sha256(request.session_id.encode()).hexdigest()[:32]
    if kind == "client" and request.address:
        known["server.address"] = request.address
        known["server.port"] = request.port
    return with_aliases(known)


OWN_KEYS = ("toolyard.request.size", "toolyard.response.size", "toolyard.request.id", "jsonrpc.request.id")
_TOOL_KEYS = (*OWN_KEYS, ALIASES["toolyard.response.size"])
OwnValues = tuple[AttributeValue | None, ...]


def own_keys(request: ObservedRequest) -> tuple[str, ...]:
    """What only this request has, when it has ended."""
    return _TOOL_KEYS if request.method == "tools/call" else OWN_KEYS


def own_values(request: ObservedRequest) -> OwnValues:
    """The values of `own_keys`."""
    id = request.rpc_id
    values = (
        request.request_bytes,
        request.response_bytes,
        request.request_id or None,
        id if id is None or isinstance(id, str) else str(id),
    )
    return (*values, request.response_bytes) if request.method == "tools/call" else values


def rare_attributes(request: ObservedRequest) -> Attributes | None:
    """What only this request has, and most others have not."""
    called = request.called
    if not (called or request.resends or request.stored_as or request.arguments or request.result):
        return None
    rare: Attributes = {}
    if request.resends:
        rare["toolyard.retries"] = request.resends
    if request.stored_as:
        rare["toolyard.result.stored"] = True
        rare["toolyard.result.id"] = request.stored_as
    if called:
        rare["toolyard.tools.called"] = list(called)
    if request.arguments:
        rare[ARGUMENTS] = request.arguments
    if request.result:
        rare[RESULT] = request.result
    return rare


def own_attributes(request: ObservedRequest) -> Attributes:
    """All that only this request has."""
    pairs = zip(own_keys(request), own_values(request), strict=True)
    return {**{key: value for key, value in pairs if value is not None}, **(rare_attributes(request) or {})}


def ending(request: ObservedRequest, ended: OutcomeLabel) -> Attributes:
    """What is said of an outcome."""
    said: Attributes = {"toolyard.outcome": ended}
    return said | {IS_ERROR: ended not in ("ok", "cancelled")} if request.method == "tools/call" else said


def failure_of(
    request: ObservedRequest, kind: SpanKind
) -> tuple[OutcomeLabel, Attributes, SpanFailure | None]:
    """How a request ended: its outcome, attributes about it, and the failure if its span failed."""
    ended = outcome_label(request)
    error = request.error
    if isinstance(error, McpError):
        about: Attributes = {"rpc.response.status_code": str(error.code)}
        # An invalid request is an error for its sender (client), not for its server.
        if kind == "client" or error.code == INTERNAL_ERROR or -32099 <= error.code <= -32000:
            return ended, about, SpanFailure(str(error.code), error.message[:MAX_TEXT])
        return ended, about, None
    if ended in ("tool_error", "timeout"):
        return ended, {}, SpanFailure(ended)
    if ended == "error":
        return ended, {}, SpanFailure(type(error).__qualname__)
    return ended, {}, None


EXCHANGE_KEYS = ("http.request.body.size", "http.response.body.size", "http.request.resend_count")


def exchange_attributes(method: str, url: str) -> Attributes:
    """Of an HTTP exchange with an upstream."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    known: Attributes = {"http.request.method": method, "url.full": url}
    return {**known, "server.address": parts.hostname or "", "server.port": port, TAGS: EXCHANGE_TAGS}


def answer_attributes(status: int, reused: bool) -> Attributes:
    return {"http.response.status_code": status, "toolyard.http.connection_reused": reused}


def exchange_failure(status: int, error: BaseException | None) -> SpanFailure | None:
    if error is not None:
        return SpanFailure(type(error).__qualname__) if isinstance(error, Exception) else None
    return SpanFailure(str(status)) if status >= 400 else None


_SECRET_SEGMENT = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[\w~.-]{20,}")


def url_for_spans(url: str) -> str:
    """An address without user, query and fragment. Some services have the key in the path: it is masked."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{_SECRET_SEGMENT.sub('***', parts.path)}"
