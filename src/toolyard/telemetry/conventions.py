"""Names and attributes of requests' spans, after OpenTelemetry's semantic conventions for MCP.

Both kinds of spans use them: our own (`local_spans`) and OpenTelemetry's (`spans`). The conventions:
github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md.
"""

import hashlib
import re
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from ..wire.errors import INTERNAL_ERROR, McpError
from .requests import ObservedRequest, outcome_label

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
COST = "toolyard.cost"


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
    if request.session_id:
        # A digest, because the id itself gives access to the session.
        known["mcp.session.id"] = hashlib.sha256(request.session_id.encode()).hexdigest()[:32]
    if kind == "client" and request.address:
        known["server.address"] = request.address
        known["server.port"] = request.port
    return known


OWN_KEYS = ("toolyard.request.size", "toolyard.response.size", "toolyard.request.id", "jsonrpc.request.id")
OwnValues = tuple[AttributeValue | None, ...]


def own_values(request: ObservedRequest) -> OwnValues:
    """The values of `OWN_KEYS`: what only this request has, when it has ended."""
    id = request.rpc_id
    return (
        request.request_bytes,
        request.response_bytes,
        request.request_id or None,
        id if id is None or isinstance(id, str) else str(id),
    )


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
    pairs = zip(OWN_KEYS, own_values(request), strict=True)
    return {**{key: value for key, value in pairs if value is not None}, **(rare_attributes(request) or {})}


def failure_of(request: ObservedRequest, kind: SpanKind) -> tuple[str, Attributes, SpanFailure | None]:
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
    return {**known, "server.address": parts.hostname or "", "server.port": port}


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
