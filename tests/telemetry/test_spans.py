"""Spans as the OpenTelemetry SDK hands them to an exporter."""

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
from msgspec import Raw
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from tests.telemetry.requests import PARENT, TRACE, TRACEPARENT, call, carrying
from toolyard.telemetry.logs import JsonLines
from toolyard.telemetry.requests import Observation
from toolyard.telemetry.spans import Tracing, extract, inject
from toolyard.wire.errors import InternalError, InvalidParams, McpError


class Late(McpError, TimeoutError):
    """An error of ours that is also a timeout, as an upstream raises it."""


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider)
    provider.shutdown()


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def parent_in(meta: dict[str, Raw]) -> list[str]:
    return bytes(meta["traceparent"]).decode().strip('"').split("-")


def test_a_forwarded_tool_call_has_the_attributes_of_the_conventions(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    seen = call(session_id="signed.and.secret")
    with tracing.forward(seen, {}):
        seen.response_bytes = 4096
    span = only(exporter)
    assert span.name == "tools/call search"
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    attributes = dict(span.attributes or {})
    assert len(str(attributes.pop("mcp.session.id"))) == 32
    assert attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "search",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": "7",
        "mcp.protocol.version": "2025-11-25",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": "tools.example.com",
        "server.port": 443,
        "toolyard.tenant": "acme",
        "toolyard.agent": "writer",
        "toolyard.thread": "t-1",
        "toolyard.upstream": "git",
        "toolyard.client.name": "editor",
        "toolyard.request.id": "r-1",
        "toolyard.request.size": 120,
        "toolyard.response.size": 4096,
        "toolyard.outcome": "ok",
        "logfire.tags": ("mcp.request",),
        "server_name": "git",
        "tool_name": "search",
        "content_size": 4096,
        "is_error": False,
    }


def test_a_served_request_speaks_the_clients_version_and_names_no_server_address(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    with tracing.serve(call(transport="stdio"), {}):
        pass
    span = only(exporter)
    attributes = dict(span.attributes or {})
    assert span.kind is SpanKind.SERVER
    assert attributes["mcp.protocol.version"] == "2026-07-28"
    assert attributes["network.transport"] == "pipe"
    assert "server.address" not in attributes
    assert "network.protocol.name" not in attributes


@pytest.mark.parametrize(
    ("method", "name", "span_name", "key", "value"),
    [
        ("prompts/get", "greet", "prompts/get greet", "gen_ai.prompt.name", "greet"),
        ("resources/read", "file:///a", "resources/read", "mcp.resource.uri", "file:///a"),
        ("resources/read", "pg://u:pw@db/t", "resources/read", "mcp.resource.uri", "pg://db/t"),
        ("tasks/get", "task-1", "tasks/get", "mcp.method.name", "tasks/get"),
        ("tools/list", None, "tools/list", "mcp.method.name", "tools/list"),
    ],
)
def test_the_span_is_named_after_tools_and_prompts_and_not_after_addresses(
    tracing: Tracing,
    exporter: InMemorySpanExporter,
    method: str,
    name: str | None,
    span_name: str,
    key: str,
    value: str,
) -> None:
    with tracing.forward(call(method=method, name=name), {}):
        pass
    span = only(exporter)
    attributes = dict(span.attributes or {})
    assert span.name == span_name
    assert attributes[key] == value
    assert "gen_ai.operation.name" not in attributes
    assert "gen_ai.tool.name" not in attributes


@pytest.mark.parametrize(
    ("error", "outcome", "kind", "code", "description"),
    [
        (InternalError("broken"), "error", "-32603", "-32603", "broken"),
        (InvalidParams("no such tool"), "invalid", "-32602", "-32602", "no such tool"),
        (Late(-32603, "too late"), "timeout", "-32603", "-32603", "too late"),
        (TimeoutError(), "timeout", "timeout", None, None),
        (ValueError("secret inside"), "error", "ValueError", None, None),
    ],
)
def test_a_failed_forward_says_how_it_failed_and_raises_on(
    tracing: Tracing,
    exporter: InMemorySpanExporter,
    error: Exception,
    outcome: str,
    kind: str,
    code: str | None,
    description: str | None,
) -> None:
    with pytest.raises(type(error)), tracing.forward(call(), {}):
        raise error
    span = only(exporter)
    attributes = dict(span.attributes or {})
    assert attributes["toolyard.outcome"] == outcome
    assert attributes["error.type"] == kind
    assert attributes.get("rpc.response.status_code") == code
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == description
    assert not span.events


def test_a_callers_mistake_is_no_error_of_the_span_that_served_it(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    with pytest.raises(InvalidParams), tracing.serve(call(), {}):
        raise InvalidParams("no such tool")
    span = only(exporter)
    attributes = dict(span.attributes or {})
    assert attributes["rpc.response.status_code"] == "-32602"
    assert "error.type" not in attributes
    assert span.status.status_code is StatusCode.UNSET


def test_a_result_with_is_error_is_a_tool_error(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    seen = call()
    with tracing.forward(seen, {}):
        seen.is_error_result = True
    span = only(exporter)
    assert dict(span.attributes or {})["error.type"] == "tool_error"
    assert span.status.status_code is StatusCode.ERROR


async def test_a_cancelled_call_is_cancelled_and_not_failed(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        with tracing.forward(call(), {}):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    span = only(exporter)
    attributes = dict(span.attributes or {})
    assert attributes["toolyard.outcome"] == "cancelled"
    assert "error.type" not in attributes
    assert span.status.status_code is StatusCode.UNSET


def test_the_clients_trace_goes_on_into_the_upstream(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    meta = carrying(traceparent=TRACEPARENT, tracestate="rojo=1", baggage="user=al%20ice;p=1")
    meta["progressToken"] = Raw(b"3")
    with tracing.serve(call(), meta) as served, tracing.forward(call(), served) as sent:
        pass
    client, server = exporter.get_finished_spans()
    assert client.context
    assert client.parent
    assert server.context
    assert server.parent
    assert format_trace_id(server.context.trace_id) == TRACE
    assert format_span_id(server.parent.span_id) == PARENT
    assert client.parent.span_id == server.context.span_id
    assert parent_in(sent)[1:] == [TRACE, format_span_id(client.context.span_id), "01"]
    assert bytes(sent["tracestate"]) == b'"rojo=1"'
    assert bytes(sent["baggage"]) == b'"user=al%20ice;p=1"'
    assert bytes(sent["progressToken"]) == b"3"
    assert bytes(meta["traceparent"]).decode().strip('"') == TRACEPARENT  # the caller's own is not touched


def test_without_a_served_span_a_forward_takes_its_parent_from_the_request(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    with tracing.forward(call(), carrying(traceparent=TRACEPARENT)):
        pass
    span = only(exporter)
    assert span.parent
    assert format_span_id(span.parent.span_id) == PARENT


@pytest.mark.parametrize("value", [b'"nonsense"', b"7", b"null", b'{"a":1}', b'"00-0-0-0"', b'"\xff"'])
def test_what_is_no_trace_context_starts_a_new_trace_and_is_not_passed_on(
    tracing: Tracing, exporter: InMemorySpanExporter, value: bytes
) -> None:
    meta = {"traceparent": Raw(value), "tracestate": Raw(b'"stale=1"')}
    with tracing.forward(call(), meta) as sent:
        pass
    span = only(exporter)
    assert span.parent is None
    assert span.context
    assert parent_in(sent)[1] == format_trace_id(span.context.trace_id)
    assert "tracestate" not in sent


def test_a_client_that_does_not_sample_is_heeded_and_its_trace_still_goes_on(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    with tracing.forward(call(), carrying(traceparent=f"00-{TRACE}-{PARENT}-00")) as sent:
        pass
    assert not exporter.get_finished_spans()
    assert parent_in(sent)[1] == TRACE
    assert parent_in(sent)[3] == "00"


def test_a_surrounding_span_is_linked_when_the_request_names_another_parent(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    with tracing.serve(call(), {}), tracing.serve(call(), carrying(traceparent=TRACEPARENT)):
        pass
    inner, outer = exporter.get_finished_spans()
    assert inner.parent
    assert outer.context
    assert format_span_id(inner.parent.span_id) == PARENT
    assert [link.context.span_id for link in inner.links] == [outer.context.span_id]


async def test_calls_at_the_same_time_keep_their_own_parents(
    tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    traces = [f"{number:032x}" for number in range(1, 6)]
    together = asyncio.Barrier(len(traces))

    async def one(trace: str) -> str:
        meta = carrying(traceparent=f"00-{trace}-{PARENT}-01")
        with tracing.serve(call(), meta) as served:
            await together.wait()
            with tracing.forward(call(), served) as sent:
                await together.wait()
                return parent_in(sent)[1]

    assert await asyncio.gather(*map(one, traces)) == traces
    assert len(exporter.get_finished_spans()) == 2 * len(traces)


def test_log_lines_inside_a_span_can_name_it(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    seen = call()
    with Observation(seen, None, tracing, carrying(traceparent=TRACEPARENT)) as sent:
        assert [seen.trace_id, seen.span_id] == parent_in(sent)[1:3]
        assert seen.trace_id == TRACE
        record = logging.makeLogRecord({"msg": "inside"})
        line = json.loads(JsonLines().format(record))
    assert (line["trace_id"], line["span_id"]) == (seen.trace_id, seen.span_id)
    assert only(exporter).kind is SpanKind.CLIENT


def test_extract_and_inject_are_each_others_reverse() -> None:
    meta = carrying(traceparent=TRACEPARENT, tracestate="rojo=1", baggage="a=b")
    assert inject(meta, extract(meta)) == meta
    assert inject({}, extract(meta)) == meta
