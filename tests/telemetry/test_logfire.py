"""The real `logfire` package and our exporter, pointed at the same receiver."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import logfire
import pytest
from opentelemetry.propagate import get_global_textmap, set_global_textmap
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cli.running import Served, Toolyard
from tests.emulators.openai_chat import scripted_chat
from tests.emulators.scripted import ToolUse
from tests.telemetry.collector import Collector, collector
from tests.telemetry.played_run import SHOP
from toolyard import Client
from toolyard.app import Gateway
from toolyard.config import load


@pytest.fixture(autouse=True)
def own_propagator() -> Iterator[None]:
    """logfire replaces the one of the whole process, even if all else of it is local."""
    before = get_global_textmap()
    yield
    set_global_textmap(before)


TOKEN = "pylf_v1_eu_0123456789abcdef"


async def test_spans_of_both_arrive_at_one_place_and_ours_are_below_logfires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "toolyard.toml"
    file.write_text(
        f"""
[gateway]
state_dir = "{tmp_path / "state"}"
[telemetry]
traces = "logfire"
[servers.demo]
module = "demo"
"""
    )
    async with collector() as receiver:
        monkeypatch.setenv("LOGFIRE_TOKEN", TOKEN)
        monkeypatch.setenv("LOGFIRE_BASE_URL", receiver.url)
        configured = logfire.configure(
            local=True,
            token=TOKEN,
            send_to_logfire=True,
            console=False,
            metrics=False,
            inspect_arguments=False,
            distributed_tracing=True,
            advanced=logfire.AdvancedOptions(base_url=receiver.url),
        )
        gateway = Gateway(load(file))
        await gateway.start()
        async with Client(gateway.view()) as client:
            with configured.span("a person's own span", _tags=["a tag"]):
                await client.call_tool("mcp__demo__now", {})
        await gateway.close()
        await asyncio.to_thread(configured.shutdown)
        spans = {span.name: span for span in arrived(receiver)}
    tokens = {headers.get("Authorization") for headers in receiver.headers}
    assert tokens == {TOKEN}
    theirs, served, sent = (
        spans[name] for name in ("a person's own span", "tools/call mcp__demo__now", "tools/call now")
    )
    assert served.parent_span_id == theirs.span_id
    assert sent.parent_span_id == served.span_id
    assert theirs.trace_id == served.trace_id == sent.trace_id
    # What the package sends as tags is what we send as such.
    assert attributes_of(theirs)["logfire.tags"] == ["a tag"]
    assert attributes_of(sent)["logfire.tags"] == ["mcp.request"]
    assert "logfire.tags" not in attributes_of(served), "whoever named a trace has a span of the call"


@contextmanager
def behind(toolyard: Toolyard, tables: str = "", **environment: str) -> Iterator[Served]:
    """A gateway that has a server over HTTP, and no word about traces unless `tables` has one."""
    toolyard.write("shop.py", SHOP)
    with toolyard.serving("shop.py") as shop:
        toolyard.write("toolyard.toml", f'{tables}\n[servers.shop]\nurl = "{shop.url}"\n')
        with toolyard.serving("--config", "toolyard.toml", **environment) as gateway:
            yield gateway


async def test_a_token_alone_shows_agent_and_gateway_as_one_tree_with_the_names_of_the_seed(tmp_path: Path):
    call = ToolUse("call_tool", {"tool": "mcp__shop__find_orders", "arguments": {"customer": "Ann"}})
    toolyard = Toolyard(tmp_path)
    async with collector() as receiver, scripted_chat([call, "Five orders."]) as model:
        logfires = {"LOGFIRE_TOKEN": TOKEN, "LOGFIRE_BASE_URL": receiver.url}
        models = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k", "TOOLYARD_MODEL": "openai:scripted"}

        def run() -> str:
            with behind(toolyard, **logfires) as gateway:
                arguments = ("agent", "What did Ann order?", "--url", gateway.url, "--without-grants")
                done = toolyard(*arguments, **logfires, **models)
                assert (done.status, done.out) == (0, "Five orders.\n"), done.err
                return gateway.stop(signal.SIGINT).err

        log = await asyncio.to_thread(run)
    assert "traces go to Logfire, as LOGFIRE_TOKEN is set" in log
    assert TOKEN not in log
    assert {headers["Authorization"] for headers in receiver.headers} == {TOKEN}
    spans = {span.span_id: span for span in arrived(receiver)}
    (exchange,) = (
        span
        for span in spans.values()
        if span.name == "POST" and spans[span.parent_span_id].name == "tools/call find_orders"
    )
    found: list[tuple[str, dict[str, Any]]] = []
    at: Span | None = exchange
    while at is not None:
        attributes = attributes_of(at)
        found += [(tag, attributes) for tag in attributes.get("logfire.tags", [])]
        at = spans.get(at.parent_span_id)
    names = ["httpx.request", "mcp.request", "tool_call", "tool_result", "conversation_iteration_1"]
    assert [tag for tag, _ in found] == names
    told = dict(found)
    use, request, result = told["tool_call"], told["mcp.request"], told["tool_result"]
    assert use["tool_name"] == "mcp__shop__find_orders"
    assert use["tool_id"]
    assert (request["server_name"], request["tool_name"]) == ("shop", "find_orders")
    assert request["content_size"] > 0
    assert result["content_size"] > 0
    assert result["is_error"] is request["is_error"] is False


async def test_a_call_that_names_no_trace_is_a_tool_call_too(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    async with collector() as receiver:
        logfires = {"LOGFIRE_TOKEN": TOKEN, "LOGFIRE_BASE_URL": receiver.url}

        def run() -> None:
            with behind(toolyard, '[gateway]\nview = "all"', **logfires) as gateway:
                failed = toolyard("call", "mcp__shop__refund", "order=3", "--url", gateway.url)
                assert "not paid" in failed.out + failed.err
                gateway.stop(signal.SIGINT)

        await asyncio.to_thread(run)
    (served,) = (span for span in arrived(receiver) if span.name == "tools/call mcp__shop__refund")
    attributes = attributes_of(served)
    assert attributes["logfire.tags"] == ["tool_call", "tool_result"]
    assert attributes["tool_name"] == "mcp__shop__refund"
    assert attributes["is_error"] is True


@pytest.mark.parametrize(
    ("tables", "environment"),
    [('[telemetry]\ntraces = "off"', {}), ("", {"LOGFIRE_SEND_TO_LOGFIRE": "false"})],
)
async def test_a_token_sends_nothing_where_traces_are_off(
    tables: str, environment: dict[str, str], tmp_path: Path
):
    toolyard = Toolyard(tmp_path)
    async with collector() as receiver:
        logfires = {"LOGFIRE_TOKEN": TOKEN, "LOGFIRE_BASE_URL": receiver.url} | environment

        def run() -> str:
            with behind(toolyard, tables, **logfires) as gateway:
                assert toolyard("list", "--url", gateway.url).status == 0
                return gateway.stop(signal.SIGINT).err

        log = await asyncio.to_thread(run)
    assert not receiver.headers
    assert "Logfire" not in log


def arrived(receiver: Collector) -> list[Span]:
    """What was sent so far."""
    batches = [receiver.received.get_nowait() for _ in range(receiver.received.qsize())]
    return [
        span
        for batch in batches
        for resource in batch.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(span: Span) -> dict[str, Any]:
    return {item.key: _plain(item.value) for item in span.attributes}


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, str(kind))
