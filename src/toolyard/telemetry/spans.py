"""Spans of requests, after OpenTelemetry's semantic conventions for MCP. Imported only if traces are on.

A SERVER span covers a client's request, a CLIENT span the request that the gateway sends to an upstream.
Arguments and results are never recorded. The conventions:
github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md.
"""

import asyncio
import hashlib
import re
import threading
from contextlib import suppress
from types import TracebackType

import msgspec
from msgspec import Raw
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from .._version import __version__
from ..wire.errors import INTERNAL_ERROR, McpError
from .requests import ObservedRequest, outcome_label

Meta = dict[str, Raw]

# The caller's baggage is passed on unchanged.
_BAGGAGE = "baggage"

_encode = msgspec.json.Encoder().encode
_decode_string = msgspec.json.Decoder(str).decode


class _Read(Getter[Meta]):
    def get(self, carrier: Meta, key: str) -> list[str] | None:
        value = carrier.get(key)
        if value is None:
            return None
        try:
            return [_decode_string(value)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # not a string: ignore the context and serve the call

    def keys(self, carrier: Meta) -> list[str]:
        return list(carrier)


class _Write(Setter[Meta]):
    def set(self, carrier: Meta, key: str, value: str) -> None:
        if key != _BAGGAGE or key not in carrier:
            carrier[key] = Raw(_encode(value))


_read = _Read()
_write = _Write()


def extract(meta: Meta, onto: Context | None = None) -> Context:
    """Add the context of a request to another one (by default the current one)."""
    return get_global_textmap().extract(meta, onto, _read)


def inject(meta: Meta, context: Context | None = None) -> Meta:
    """A copy of `meta` with another trace context (by default the current one)."""
    propagator = get_global_textmap()
    replaced = propagator.fields - {_BAGGAGE}
    changed = {key: value for key, value in meta.items() if key not in replaced}
    propagator.inject(changed, context, _write)
    return changed


_TARGET = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "completion/complete": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
    "resources/subscribe": "mcp.resource.uri",
    "resources/unsubscribe": "mcp.resource.uri",
}
_NETWORK = {"http": "tcp", "stdio": "pipe"}
_MAX_NAME = 128
_MAX_TEXT = 1000
_USERINFO = re.compile(r"(?<=//)[^/?#@]*@")

Attributes = dict[str, AttributeValue]


class Tracing:
    """Makes spans and owns their exporter. `tracing.start` builds it if traces are on."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("toolyard", __version__)

    def serve(self, request: ObservedRequest, meta: Meta) -> "RequestSpan":
        """The span of a client's request; its parent is the context in `_meta`."""
        return RequestSpan(self._tracer, SpanKind.SERVER, request, meta)

    def forward(self, request: ObservedRequest, meta: Meta) -> "RequestSpan":
        """The span of a request to an upstream; its parent is the current span, or else the one in `meta`."""
        return RequestSpan(self._tracer, SpanKind.CLIENT, request, meta)

    async def close(self, limit: float = 5.0) -> None:
        """Export the remaining spans. An unreachable collector delays this by `limit` seconds at most."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # the limit has passed and the loop is closed
                loop.call_soon_threadsafe(done.set)

        # A daemon thread: Python would wait at exit for a thread of asyncio's pool.
        threading.Thread(target=shut_down, name="toolyard-traces", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await done.wait()


class RequestSpan:
    """`with` returns the `_meta` to send on: the caller's, with this span as the parent.

    The block writes values that are known only at the end into `request`.
    """

    __slots__ = ("_kind", "_meta", "_request", "_span", "_token", "_tracer")

    def __init__(self, tracer: trace.Tracer, kind: SpanKind, request: ObservedRequest, meta: Meta) -> None:
        self._tracer = tracer
        self._kind = kind
        self._request = request
        self._meta = meta

    def __enter__(self) -> Meta:
        request = self._request
        parent, links = _parent(self._kind, self._meta)
        self._span = self._tracer.start_span(
            _span_name(request),
            parent,
            self._kind,
            _attributes(request, self._kind),
            links,
            record_exception=False,
            set_status_on_exception=False,
        )
        inside = trace.set_span_in_context(self._span, parent)
        self._token = otel_context.attach(inside)
        ours = self._span.get_span_context()
        request.trace_id = trace.format_trace_id(ours.trace_id)
        request.span_id = trace.format_span_id(ours.span_id)
        return inject(self._meta, inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        otel_context.detach(self._token)
        if error is not None:
            self._request.error = error
        if self._span.is_recording():
            _finish(self._span, self._request, self._kind)
        self._span.end()


def _parent(kind: SpanKind, meta: Meta) -> tuple[Context, list[Link]]:
    ambient = otel_context.get_current()
    around = trace.get_current_span(ambient).get_span_context()
    if kind is SpanKind.CLIENT and around.is_valid:
        return ambient, []
    carried = extract(meta, ambient)
    if around.is_valid and trace.get_current_span(carried).get_span_context() != around:
        # The parent is the context in the request; a surrounding span, such as a web server's, is a link.
        return carried, [Link(around)]
    return carried, []


def _span_name(request: ObservedRequest) -> str:
    key = _TARGET.get(request.method)
    if request.name is None or key is None or key == "mcp.resource.uri":  # URIs make too many names
        return request.method
    return f"{request.method} {request.name[:_MAX_NAME]}"


def _attributes(request: ObservedRequest, kind: SpanKind) -> Attributes:
    caller = request.caller
    identity = caller.identity
    known: Attributes = {
        "mcp.method.name": request.method,
        "toolyard.tenant": identity.principal.tenant,
        "toolyard.request.size": request.request_bytes,
    }
    optional = {
        "toolyard.upstream": request.server,
        "toolyard.agent": identity.principal.agent,
        "toolyard.thread": identity.thread,
        "toolyard.request.id": request.request_id,
        "toolyard.client.name": caller.client.name,
        "network.transport": _NETWORK.get(request.transport, ""),
        "network.protocol.name": "http" if request.transport == "http" else "",
    }
    known.update((key, value) for key, value in optional.items() if value)
    if request.name is not None and (target := _TARGET.get(request.method)):
        known[target] = _USERINFO.sub("", request.name) if "@" in request.name else request.name
    if request.method == "tools/call":
        known["gen_ai.operation.name"] = "execute_tool"
    if request.rpc_id is not None:
        known["jsonrpc.request.id"] = str(request.rpc_id)
    if request.session_id:
        # A digest, because the id itself gives access to the session.
        known["mcp.session.id"] = hashlib.sha256(request.session_id.encode()).hexdigest()[:32]
    if kind is SpanKind.SERVER:
        known["mcp.protocol.version"] = caller.version
    elif request.address:
        known["server.address"] = request.address
        known["server.port"] = request.port
    return known


def _finish(span: Span, request: ObservedRequest, kind: SpanKind) -> None:
    ended = outcome_label(request)
    span.set_attribute("toolyard.outcome", ended)
    if request.response_bytes is not None:
        span.set_attribute("toolyard.response.size", request.response_bytes)
    if kind is SpanKind.CLIENT and request.upstream_version:
        span.set_attribute("mcp.protocol.version", request.upstream_version)
    error = request.error
    if isinstance(error, McpError):
        span.set_attribute("rpc.response.status_code", str(error.code))
        # An invalid request is an error for its sender (CLIENT), not for its server.
        if kind is SpanKind.CLIENT or error.code == INTERNAL_ERROR or -32099 <= error.code <= -32000:
            _fail(span, str(error.code), error.message[:_MAX_TEXT])
    elif ended == "tool_error":
        _fail(span, "tool_error")
    elif ended == "timeout":
        _fail(span, "timeout")
    elif ended == "error":
        _fail(span, type(error).__qualname__)


def _fail(span: Span, kind: str, description: str | None = None) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, description))
