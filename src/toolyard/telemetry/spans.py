"""Spans of OpenTelemetry's SDK, of requests and of agents' runs. Imported only if something exports them.

A SERVER span covers a client's request, a CLIENT span the request that the gateway sends to an upstream, and
one below it the HTTP exchange. `conventions` has their names and attributes.
"""

import asyncio
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from time import perf_counter_ns, time_ns
from types import TracebackType

import msgspec
from msgspec import Raw
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from .._version import __version__
from . import conventions
from .content import NO_CONTENT, ContentPolicy
from .conventions import MAX_TEXT, Attributes, AttributeValue, SpanFailure
from .requests import ExchangeSpan, ObservedRequest, client_address
from .run_spans import Operation, RunSpan, SpanValue, run_span_name
from .trace_file import PlainSpan, TraceStore

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


_KINDS: dict[SpanKind, conventions.SpanKind] = {SpanKind.SERVER: "server", SpanKind.CLIENT: "client"}


class Tracing:
    """Makes spans and owns their exporter. `tracing.start` builds it if something is exported."""

    def __init__(self, provider: TracerProvider, content: ContentPolicy = NO_CONTENT) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("toolyard", __version__)
        self._content = content

    def serve(self, request: ObservedRequest, meta: Meta) -> "RequestSpan":
        return RequestSpan(self._tracer, SpanKind.SERVER, request, meta)

    def forward(self, request: ObservedRequest, meta: Meta) -> "RequestSpan":
        return RequestSpan(self._tracer, SpanKind.CLIENT, request, meta)

    def exchange(self, method: str, url: str, request_bytes: int, resends: int) -> ExchangeSpan:
        return _HttpSpan(self._tracer, method, url, request_bytes, resends)

    def run_spans(self) -> "OtelRunSpans":
        return OtelRunSpans(self._tracer, self._content, self)

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
        request.is_root = not trace.get_current_span(parent).get_span_context().is_valid
        self._span = self._tracer.start_span(
            conventions.span_name(request),
            parent,
            self._kind,
            conventions.shared_attributes(request, _KINDS[self._kind]),
            links,
            record_exception=False,
            set_status_on_exception=False,
        )
        inside = trace.set_span_in_context(self._span, parent)
        self._token = otel_context.attach(inside)
        ours = self._span.get_span_context()
        request.trace, request.span = ours.trace_id, ours.span_id
        return inject(self._meta, inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        otel_context.detach(self._token)
        if error is not None:
            self._request.error = error
        if self._span.is_recording():
            ended, about, failure = conventions.failure_of(self._request, _KINDS[self._kind])
            own = conventions.own_attributes(self._request)
            self._span.set_attributes({**own, **about, **conventions.ending(self._request, ended)})
            if failure is not None:
                _fail(self._span, failure)
        self._span.end()


def _parent(kind: SpanKind, meta: Meta) -> tuple[Context, list[Link]]:
    ambient = otel_context.get_current()
    around = trace.get_current_span(ambient).get_span_context()
    if kind is SpanKind.CLIENT and around.is_valid:
        return ambient, []
    carried = extract(meta, ambient)
    parent = trace.get_current_span(carried).get_span_context()
    if not parent.is_valid and (origin := client_address.get()).traceparent:
        pairs = {"traceparent": origin.traceparent, "tracestate": origin.tracestate}
        header = {key: value for key, value in pairs.items() if value}
        return get_global_textmap().extract(header, ambient), []
    if around.is_valid and parent != around:
        # The parent is the context in the request; a surrounding span, such as a web server's, is a link.
        return carried, [Link(around)]
    return carried, []


def _fail(span: Span, failure: SpanFailure) -> None:
    span.set_attribute("error.type", failure.kind)
    span.set_status(Status(StatusCode.ERROR, failure.text or None))


class _HttpSpan:
    """Implements `requests.ExchangeSpan`."""

    __slots__ = ("_is_open", "_span", "_status")

    def __init__(self, tracer: trace.Tracer, method: str, url: str, request_bytes: int, resends: int) -> None:
        attributes = conventions.exchange_attributes(method, url)
        attributes["http.request.body.size"] = request_bytes
        if resends:
            attributes["http.request.resend_count"] = resends
        self._span = tracer.start_span(method, kind=SpanKind.CLIENT, attributes=attributes)
        self._is_open = True
        self._status = 0

    def answered(self, status: int, reused: bool) -> None:
        self._status = status
        self._span.set_attributes(conventions.answer_attributes(status, reused))

    def end(self, size: int | None = None, error: BaseException | None = None) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if size is not None:
            self._span.set_attribute("http.response.body.size", size)
        failure = conventions.exchange_failure(self._status, error)
        if failure is not None:
            _fail(self._span, failure)
        self._span.end()


class OtelRunSpans:
    """The spans of an agent's run. Implements `RunSpans`."""

    def __init__(self, tracer: trace.Tracer, content: ContentPolicy, tracing: Tracing) -> None:
        self._tracer = tracer
        self._content = content
        self._tracing = tracing

    def open(
        self, operation: Operation, name: str, attributes: Mapping[str, SpanValue] | None = None
    ) -> AbstractContextManager[RunSpan]:
        return _RunSpan(self._tracer, self._content, operation, name, attributes or {})

    def meta(self) -> dict[str, str]:
        return {key: _decode_string(value) for key, value in inject({}).items()}

    @property
    def trace_id(self) -> str:
        context = trace.get_current_span().get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else ""

    async def close(self, limit: float = 5.0) -> None:
        await self._tracing.close(limit)


class _RunSpan:
    def __init__(
        self,
        tracer: trace.Tracer,
        content: ContentPolicy,
        operation: Operation,
        name: str,
        attributes: Mapping[str, SpanValue],
    ) -> None:
        self._tracer = tracer
        self._content = content
        self._name = run_span_name(operation, name)
        self._kind = SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL
        self._operation: Operation = operation
        known = conventions.run_attributes(operation, attributes)
        kept = {key: content.kept(key, value) for key, value in known.items()}
        self._attributes = conventions.with_aliases(
            {key: value for key, value in kept.items() if value is not None}
        )

    def set(self, key: str, value: SpanValue) -> None:
        kept = self._content.kept(key, value)
        if kept is not None:
            self._span.set_attributes(conventions.with_aliases({key: kept}))

    def fail(self, kind: str, text: str = "") -> None:
        self._failed = True
        _fail(self._span, SpanFailure(kind, self._content.excerpt(text)[:MAX_TEXT]))

    def __enter__(self) -> "_RunSpan":
        self._failed = False
        self._span = self._tracer.start_span(self._name, kind=self._kind, attributes=self._attributes)
        self._token = otel_context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        otel_context.detach(self._token)
        if isinstance(error, Exception) and not self._failed:
            self._failed = True
            _fail(self._span, SpanFailure(type(error).__qualname__))
        if self._operation == "execute_tool":
            self._span.set_attribute(conventions.IS_ERROR, self._failed)
        self._span.end()


class StoringProcessor(SpanProcessor):
    """Also keeps the spans in the local store."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        # Of a run: one that is killed still has its root.
        if isinstance(span, ReadableSpan) and _is_of_run(span.attributes or {}):
            self._store.add(_record(span))

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._store.add(_record(span))

    def shutdown(self) -> None:
        self._store.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def _is_of_run(attributes: Mapping[str, object]) -> bool:
    return "gen_ai.operation.name" in attributes and "mcp.method.name" not in attributes


def _record(span: ReadableSpan) -> PlainSpan:
    assert span.context is not None
    start = span.start_time or 0
    attributes: Attributes = {key: _plain(value) for key, value in (span.attributes or {}).items()}
    error = str(attributes.pop("error.type", "error")) if not span.status.is_ok else ""
    return PlainSpan(
        span.context.trace_id,
        span.context.span_id,
        0 if span.parent is None else span.parent.span_id,
        span.name,
        _KINDS.get(span.kind, "internal"),
        start - (time_ns() - perf_counter_ns()),
        attributes,
        -1 if span.end_time is None else span.end_time - start,
        SpanFailure(error, span.status.description or "") if error else None,
    )


def _plain(value: object) -> AttributeValue:
    return value if isinstance(value, str | int | float | bool) else [str(item) for item in value]  # type: ignore[attr-defined]
