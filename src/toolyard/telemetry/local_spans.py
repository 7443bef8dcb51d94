"""Our own spans, for the local trace store: of requests, of HTTP exchanges, and of agents' runs.

Light, because they are on for every run: OpenTelemetry's SDK takes 170 ms to import and several times as
much for a call. What describes a span is put together by the thread that writes it.
"""

import asyncio
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from time import perf_counter_ns
from types import TracebackType

from msgspec import Raw, Struct

from .content import ContentPolicy
from .conventions import (
    EXCHANGE_KEYS,
    IS_ERROR,
    MAX_TEXT,
    Attributes,
    OwnValues,
    SpanFailure,
    SpanKind,
    answer_attributes,
    ending,
    exchange_attributes,
    exchange_failure,
    failure_of,
    own_keys,
    own_values,
    rare_attributes,
    run_attributes,
    shared_attributes,
    span_name,
    with_aliases,
)
from .requests import ExchangeSpan, Meta, ObservedRequest, OutcomeLabel, client_address, current
from .run_spans import Operation, RunSpan, SpanValue, run_span_name
from .trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    context_in,
    format_trace,
    format_traceparent,
    new_span_id,
    new_trace_id,
    parse_traceparent,
)
from .trace_file import PlainSpan, SharedPart, TraceStore

_run: ContextVar[TraceContext | None] = ContextVar("toolyard_run_span", default=None)
_TRACEPARENT = b'"00-%032x-%016x-%02x"'


class LocalTracing:
    """Makes the spans of requests. Implements `Tracer`."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store

    def serve(self, request: ObservedRequest, meta: Meta) -> "_RequestSpan":
        return _RequestSpan(self._store, "server", request, meta)

    def forward(self, request: ObservedRequest, meta: Meta) -> "_RequestSpan":
        return _RequestSpan(self._store, "client", request, meta)

    def exchange(self, method: str, url: str, request_bytes: int, resends: int) -> ExchangeSpan:
        around = current.get()
        if around is None:
            return _HttpSpan(self._store, 0, 0, False, method, url, request_bytes, resends, 0, 0)
        return _HttpSpan(
            self._store,
            around.trace,
            around.span,
            around.is_sampled,
            method,
            url,
            request_bytes,
            resends,
            new_span_id(),
            perf_counter_ns(),
        )

    async def close(self, limit: float = 5.0) -> None:
        await asyncio.to_thread(self._store.close, limit)


def _ambient() -> TraceContext | None:
    """The request or the run that is under way here."""
    request = current.get()
    if request is not None and request.trace:
        return TraceContext(request.trace, request.span, request.is_sampled)
    return _run.get()


def _parent(kind: SpanKind, meta: Meta) -> TraceContext | None:
    ambient = _ambient()
    if ambient is not None and (kind == "client" or not meta):
        return ambient
    carried = context_in(meta) if meta else None
    if carried is None and ambient is None:
        header = client_address.get().traceparent
        return parse_traceparent(header) if header else None
    return carried or ambient


class _RequestSpan(Struct, gc=False, eq=False):
    """`with` returns the `_meta` to send on, as `requests.OpenSpan`. Is the record of itself when it ends.

    Not known to the garbage collector, which would look at each: it refers to nothing that refers to it.
    """

    _store: TraceStore
    _kind: SpanKind
    _request: ObservedRequest
    _meta: Meta
    parent: int = 0
    start: int = 0
    duration: int = -1
    failure: SpanFailure | None = None
    _outcome: OutcomeLabel = "ok"
    _more: Attributes | None = None

    def __enter__(self) -> Meta:
        request, meta, around = self._request, self._meta, current.get()
        if around is not None and around.trace and self._kind == "client":  # as nearly always
            request.trace, self.parent, request.is_sampled = around.trace, around.span, around.is_sampled
        elif (parent := _parent(self._kind, meta)) is not None:
            request.trace, self.parent, request.is_sampled = parent.trace, parent.id, parent.sampled
        else:
            request.trace, request.is_root = new_trace_id(), True
        request.span = new_span_id()
        self.start = perf_counter_ns()
        if self._kind == "server":
            return meta  # what it forwards finds its parent in `current` and not in `_meta`
        told = {**meta, TRACEPARENT: Raw(_TRACEPARENT % (request.trace, request.span, request.is_sampled))}
        if TRACESTATE in meta:
            carried = context_in(meta)
            if carried is None or carried.trace != request.trace:  # it belongs to another trace
                del told[TRACESTATE]
        return told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.duration = perf_counter_ns() - self.start
        request = self._request
        if error is not None:
            request.error = error
        if request.error is not None or request.is_error_result:
            self._outcome, self._more, self.failure = failure_of(request, self._kind)
            request.error = None if self._kind == "server" else request.error
        if request.is_sampled:
            self._store.add(self)

    @property
    def trace(self) -> int:
        return self._request.trace

    @property
    def id(self) -> int:
        return self._request.span

    # The record, asked for by the thread that writes

    def shared_key(self) -> Hashable:
        request = self._request
        # What is not here depends on the server or the caller. Callers are shared, and compared as objects.
        return (
            self._kind,
            self._outcome,
            request.is_root,
            request.name,
            request.method,
            request.server,
            request.upstream_version,
            request.session_id,
            request.caller,
        )

    def shared(self) -> SharedPart:
        request = self._request
        attributes = shared_attributes(request, self._kind) | ending(request, self._outcome)
        return SharedPart(span_name(request), self._kind, attributes, own_keys(request))

    def values(self) -> OwnValues:
        return own_values(self._request)

    def more(self) -> Attributes | None:
        rare = rare_attributes(self._request)
        return {**rare, **self._more} if rare and self._more else rare or self._more


class _HttpSpan(Struct, gc=False, eq=False):
    """Implements `requests.ExchangeSpan`, and is the record of itself when it ends."""

    _store: TraceStore
    trace: int
    parent: int
    _is_open: bool
    _method: str
    _url: str
    _sent: int
    _resends: int
    id: int
    start: int
    duration: int = -1
    failure: SpanFailure | None = None
    _status: int = 0
    _reused: bool = False
    _size: int | None = None

    def answered(self, status: int, reused: bool) -> None:
        self._status, self._reused = status, reused

    def end(self, size: int | None = None, error: BaseException | None = None) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self.duration = perf_counter_ns() - self.start
        self._size = size
        if error is not None or self._status >= 400:
            self.failure = exchange_failure(self._status, error)
        self._store.add(self)

    def shared_key(self) -> Hashable:
        return self._method, self._url, self._status, self._reused

    def shared(self) -> SharedPart:
        attributes = exchange_attributes(self._method, self._url)
        if self._status:
            attributes |= answer_attributes(self._status, self._reused)
        return SharedPart(self._method, "client", attributes, EXCHANGE_KEYS)

    def values(self) -> OwnValues:
        return self._sent, self._size, self._resends or None

    def more(self) -> Attributes | None:
        return None


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
        context = _run.get()
        return {} if context is None else {TRACEPARENT: format_traceparent(context)}

    @property
    def trace_id(self) -> str:
        context = _run.get()
        return "" if context is None else format_trace(context.trace)

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
        self._operation: Operation = operation
        self._attributes: Attributes = {}
        self._failure: SpanFailure | None = None
        for key, value in run_attributes(operation, attributes).items():
            self.set(key, value)

    def set(self, key: str, value: SpanValue) -> None:
        kept = self._content.kept(key, value)
        if kept is not None:
            self._attributes |= with_aliases({key: kept})

    def fail(self, kind: str, text: str = "") -> None:
        self._failure = SpanFailure(kind, self._content.excerpt(text)[:MAX_TEXT])

    def __enter__(self) -> "_RunSpan":
        parent = _run.get()
        trace = new_trace_id() if parent is None else parent.trace
        self._context = TraceContext(trace, new_span_id(), parent is None or parent.sampled)
        self._parent = 0 if parent is None else parent.id
        self._token = _run.set(self._context)
        self._start = perf_counter_ns()
        # Written now and again at its end: a run that is killed still has its root.
        self._keep(-1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        duration = perf_counter_ns() - self._start
        _run.reset(self._token)
        if error is not None and self._failure is None and isinstance(error, Exception):
            self._failure = SpanFailure(type(error).__qualname__)
        if self._operation == "execute_tool":
            self._attributes[IS_ERROR] = self._failure is not None
        self._keep(duration)

    def _keep(self, duration: int) -> None:
        if self._context.sampled:
            span = PlainSpan(
                self._context.trace,
                self._context.id,
                self._parent,
                self._name,
                self._kind,
                self._start,
                dict(self._attributes),
                duration,
                self._failure,
            )
            self._store.add(span)
