"""The real `logfire` package and our exporter, pointed at the same receiver."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import logfire
import pytest
from opentelemetry.propagate import get_global_textmap, set_global_textmap

from tests.telemetry.collector import collector
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
            with configured.span("a person's own span"):
                await client.call_tool("mcp__demo__now", {})
        await gateway.close()
        await asyncio.to_thread(configured.shutdown)
        batches = [receiver.received.get_nowait() for _ in range(receiver.received.qsize())]
    tokens = {headers.get("Authorization") for headers in receiver.headers}
    assert tokens == {TOKEN}
    spans = {
        span.name: span
        for batch in batches
        for resource in batch.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    theirs, served, sent = (
        spans[name] for name in ("a person's own span", "tools/call mcp__demo__now", "tools/call now")
    )
    assert served.parent_span_id == theirs.span_id
    assert sent.parent_span_id == served.span_id
    assert theirs.trace_id == served.trace_id == sent.trace_id
