"""Our own spans, for the local trace store: of requests, of HTTP exchanges, and of agents' runs.

Light, because they are on for every run: OpenTelemetry's SDK takes 170 ms to import and 30 µs a span. What
describes a span is put together by the thread that writes it.
"""

import asyncio
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from time import perf_counter_ns, time_ns
from types import TracebackType

from .content import ContentPolicy
from .conventions import (
    MAX_TEXT,
    Attributes,
    SpanFailure,
    SpanKind,
    answer_attributes,
    exchange_attributes,
    exchange_failure,
    failure_of,
    own_attributes,
    shared_attributes,
    shared_key,
    span_name,
)
from .requests import ExchangeSpan, Meta, ObservedRequest, client_address
from .run_spans import Operation, RunSpan, SpanValue, run_span_name
from .trace_context import (
    TraceContext,
    context_in,
    new_span_id,
    new_trace_id,
    parse_traceparent,
    with_context,
)
from .trace_file import PlainSpan, SharedPart, TraceStore

_current: ContextVar[TraceContext | None] = ContextVar("toolyard_trace_context", default=None)


class LocalTracing:
    """Makes the spans of requests. Implements `Tracer`."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store

    def serve(self, request: ObservedRequest, meta: Meta) -> "_RequestSpan":
        return _RequestSpan(self._store, "server", request, meta)

    def forward(self, request: ObservedRequest, meta: Meta) -> "_RequestSpan":
        return _RequestSpan(self._store, "client", request, meta)

    def exchange(self, method: str, url: str, request_bytes: int, resends: int) -> ExchangeSpan:
        return _HttpSpan(self._store, _current.get(), method, url, request_bytes, resends)

    async def close(self, limit: float = 5.0) -> None:
        await asyncio.to_thread(self._store.close, limit)


def _parent(kind: SpanKind, meta: Meta) -> TraceContext | None:
    ambient = _current.get()
    if kind == "client" and ambient is not None:
        return ambient
    carried = context_in(meta) if meta else None
    if carried is None and ambient is None:
        header = client_address.get().traceparent
        return parse_traceparent(header) if header else None
    return carried or ambient


class _RequestSpan:
    """`with` returns the `_meta` to send on, as `requests.OpenSpan`. Is the record of itself when it ends."""

    __slots__ = (
        "_began",
        "_kind",
        "_meta",
        "_more",
        "_outcome",
        "_request",
        "_store",
        "_token",
        "duration",
        "failure",
        "id",
        "parent",
        "start",
        "trace",
    )
    _token: Token[TraceContext | None]

    def __init__(self, store: TraceStore, kind: SpanKind, request: ObservedRequest, meta: Meta) -> None:
        self._store = store
        self._kind: SpanKind = kind
        self._request = request
        self._meta = meta
        self.failure: SpanFailure | None = None
        self._outcome = "ok"
        self._more: Attributes | None = None
        self.duration = -1

    def __enter__(self) -> Meta:
        parent, request = _parent(self._kind, self._meta), self._request
        self.parent = "" if parent is None else parent.span
        self.trace = new_trace_id() if parent is None else parent.trace
        self.id = new_span_id()
        context = TraceContext(self.trace, self.id, parent is None or parent.sampled)
        request.trace_id, request.span_id = self.trace, self.id
        self._token = _current.set(context)
        self.start, self._began = time_ns(), perf_counter_ns()
        if self._kind == "server":
            return self._meta  # what it forwards finds the context here and not in `_meta`
        carried = context_in(self._meta) if "tracestate" in self._meta else None
        keeps = carried is not None and carried.trace == self.trace
        return with_context(self._meta, context, keeps_state=keeps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.duration = perf_counter_ns() - self._began
        request = self._request
        context = _current.get()
        _current.reset(self._token)
        if error is not None:
            request.error = error
        if request.error is not None or request.is_error_result:
            self._outcome, self._more, self.failure = failure_of(request, self._kind)
        if context is not None and not context.sampled:
            return
        self._meta = {}
        self._store.add(self)

    # The record, asked for by the thread that writes

    def shared_key(self) -> Hashable:
        return self._outcome, shared_key(self._request, self._kind)

    def shared(self) -> SharedPart:
        attributes = shared_attributes(self._request, self._kind)
        attributes["toolyard.outcome"] = self._outcome
        return SharedPart(span_name(self._request), self._kind, attributes)

    def own(self) -> Attributes:
        own = own_attributes(self._request)
        if self._more:
            own.update(self._more)
        return own


class _HttpSpan:
    """Implements `requests.ExchangeSpan`, and is the record of itself when it ends."""

    __slots__ = (
        "_began",
        "_error",
        "_is_open",
        "_method",
        "_resends",
        "_reused",
        "_sent",
        "_size",
        "_status",
        "_store",
        "_url",
        "duration",
        "failure",
        "id",
        "parent",
        "start",
        "trace",
    )

    def __init__(
        self,
        store: TraceStore,
        parent: TraceContext | None,
        method: str,
        url: str,
        request_bytes: int,
        resends: int,
    ) -> None:
        self._store = store
        self.trace, self.parent = ("", "") if parent is None else (parent.trace, parent.span)
        self._is_open = parent is not None and parent.sampled
        self.id = new_span_id()
        self._method, self._url, self._sent, self._resends = method, url, request_bytes, resends
        self._status, self._reused = 0, False
        self._size: int | None = None
        self.failure: SpanFailure | None = None
        self.duration = -1
        self.start, self._began = time_ns(), perf_counter_ns()

    def answered(self, status: int, reused: bool) -> None:
        self._status, self._reused = status, reused

    def end(self, size: int | None = None, error: BaseException | None = None) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self.duration = perf_counter_ns() - self._began
        self._size = size
        self.failure = exchange_failure(self._status, error)
        self._store.add(self)

    def shared_key(self) -> Hashable:
        return self._method, self._url, self._status, self._reused

    def shared(self) -> SharedPart:
        attributes = exchange_attributes(self._method, self._url)
        if self._status:
            attributes |= answer_attributes(self._status, self._reused)
        return SharedPart(self._method, "client", attributes)

    def own(self) -> Attributes:
        own: Attributes = {"http.request.body.size": self._sent}
        if self._size is not None:
            own["http.response.body.size"] = self._size
        if self._resends:
            own["http.request.resend_count"] = self._resends
        return own


class LocalRunSpans:
    """The spans of an agent's run. Implements `RunSpans`."""

    def __init__(self, store: TraceStore, content: ContentPolicy) -> None:
        self._store = store
        self._content = content

    def open(
        self, operation: Operation, name: str, attributes: Mapping[str, SpanValue] | None = None
    ) -> AbstractContextManager[RunSpan]:
        return _RunSpan(self._store, self._content, operation, name, attributes or {})

    def meta(self) -> dict[str, str]:
        context = _current.get()
        return {} if context is None else {"traceparent": context.traceparent}

    @property
    def trace_id(self) -> str:
        context = _current.get()
        return "" if context is None else context.trace

    async def close(self, limit: float = 5.0) -> None:
        await asyncio.to_thread(self._store.close, limit)


class _RunSpan:
    def __init__(
        self,
        store: TraceStore,
        content: ContentPolicy,
        operation: Operation,
        name: str,
        attributes: Mapping[str, SpanValue],
    ) -> None:
        self._store = store
        self._content = content
        self._name = run_span_name(operation, name)
        self._kind: SpanKind = "client" if operation == "chat" else "internal"
        self._attributes: Attributes = {"gen_ai.operation.name": operation}
        self._failure: SpanFailure | None = None
        for key, value in attributes.items():
            self.set(key, value)

    def set(self, key: str, value: SpanValue) -> None:
        kept = self._content.kept(key, value)
        if kept is not None:
            self._attributes[key] = kept

    def fail(self, kind: str, text: str = "") -> None:
        self._failure = SpanFailure(kind, text[:MAX_TEXT])

    def __enter__(self) -> "_RunSpan":
        parent = _current.get()
        trace = new_trace_id() if parent is None else parent.trace
        self._context = TraceContext(trace, new_span_id(), parent is None or parent.sampled)
        self._parent = "" if parent is None else parent.span
        self._token = _current.set(self._context)
        self._start, self._began = time_ns(), perf_counter_ns()
        # Written now and again at its end: a run that is killed still has its root.
        self._keep(-1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        duration = perf_counter_ns() - self._began
        _current.reset(self._token)
        if error is not None and self._failure is None and isinstance(error, Exception):
            self._failure = SpanFailure(type(error).__qualname__)
        self._keep(duration)

    def _keep(self, duration: int) -> None:
        if self._context.sampled:
            span = PlainSpan(
                self._context.trace,
                self._context.span,
                self._parent,
                self._name,
                self._kind,
                self._start,
                dict(self._attributes),
                duration,
                self._failure,
            )
            self._store.add(span)
