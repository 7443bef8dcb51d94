"""Arguments and results in spans: none by default, else cut and without secrets, wherever spans go."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.telemetry.collector import collector
from toolyard import Client
from toolyard.app import Gateway
from toolyard.config import load
from toolyard.config.secrets import possible_secrets
from toolyard.telemetry.content import MAX_CONTENT, ContentPolicy
from toolyard.telemetry.redaction import Redactor
from toolyard.telemetry.trace_file import TraceReader
from toolyard.telemetry.trace_tree import build_tree

KEY = "sk-live-0123456789"
ECHO = f'''
from toolyard import Server
server = Server("echo")

@server.tool
def echo(text: str, password: str = "") -> str:
    """Say it again."""
    return text + " and {KEY} " + password
'''


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "LOGFIRE_", "TOOLYARD_TRACES"))]:
        monkeypatch.delenv(name)


def configured(folder: Path, telemetry: str) -> Path:
    (folder / "echo.py").write_text(ECHO)
    file = folder / "toolyard.toml"
    file.write_text(
        f"""
[gateway]
state_dir = "{folder / "state"}"
[telemetry]
{telemetry}
[servers.echo]
module = "{folder / "echo.py"}"
[servers.elsewhere]
url = "http://127.0.0.1:9/mcp"
headers = {{ Authorization = "Bearer {KEY}" }}
"""
    )
    return file


async def spoken(file: Path, text: str, password: str = "hunter2!") -> dict[str, Mapping[str, object]]:
    """The attributes of the spans of one call, by layer."""
    async with Client(file) as client:
        await client.call_tool("mcp__echo__echo", {"text": text, "password": password})
    reader = TraceReader(file.parent / "state")
    (trace,) = [id for id, spans in reader.spans(reader.recent(50)).items() if len(spans) > 1]
    return {
        node.layer: node.span.attributes for node in build_tree(trace, reader.spans([trace])[trace]).walk()
    }


async def test_by_default_spans_have_neither(tmp_path: Path):
    for attributes in (await spoken(configured(tmp_path, 'traces = "local"'), "good morning")).values():
        assert "good morning" not in str(attributes)


async def test_arguments_alone_are_kept_without_secrets(tmp_path: Path):
    told = await spoken(configured(tmp_path, 'traces = "local"\ncontent = "arguments"'), f"use {KEY} today")
    arguments = json.loads(str(told["upstream"]["gen_ai.tool.call.arguments"]))
    assert arguments == {"text": "use *** today", "password": "***"}
    assert not any("gen_ai.tool.call.result" in attributes for attributes in told.values())
    assert "gen_ai.tool.call.arguments" not in told["gateway"]


async def test_all_keeps_results_too_and_cuts_them(tmp_path: Path):
    told = await spoken(configured(tmp_path, 'traces = "local"\ncontent = "all"'), "x" * 50_000)
    result = str(told["upstream"]["gen_ai.tool.call.result"])
    assert len(result) < MAX_CONTENT + 50
    assert result.endswith(" in all)")
    assert KEY not in str(told)


async def test_otlp_has_the_same(tmp_path: Path):
    async with collector() as receiver:
        telemetry = f'traces = ["local", "otlp"]\nendpoint = "{receiver.url}"\ncontent = "all"'
        told = await spoken(configured(tmp_path, telemetry), f"use {KEY} today")
        batches = [receiver.received.get_nowait() for _ in range(receiver.received.qsize())]
    spans = [span for batch in batches for part in batch.resource_spans[0].scope_spans for span in part.spans]
    sent = {
        span.kind: {item.key: item.value.string_value for item in span.attributes}
        for span in spans
        if span.name.startswith("tools/call")
    }
    upstream = sent[spans[0].SPAN_KIND_CLIENT]
    assert upstream["gen_ai.tool.call.arguments"] == told["upstream"]["gen_ai.tool.call.arguments"]
    assert "use *** today and ***" in upstream["gen_ai.tool.call.result"]


def test_a_secret_at_the_cut_is_not_kept_in_part():
    policy = ContentPolicy("all", [KEY])
    text = "x" * (MAX_CONTENT - 5) + KEY
    assert "sk-l" not in policy.excerpt(text)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"a {KEY} b", "a *** b"),
        ('{"password": "hunter2"}', '{"password": "***"}'),
        (r'{"text": "{\"api_key\": \"abc123\", \"n\": 1}"}', r'{"text": "{\"api_key\": \"***\", \"n\": 1}"}'),
        ("Authorization: Bearer abcdef", "Authorization: ***"),
        ("https://x/?q=a%2Fb%3Dc1", "https://x/?q=***"),
        ("nothing here", "nothing here"),
    ],
)
def test_secrets_are_known_by_value_and_by_name(text: str, redacted: str):
    assert Redactor([KEY, "a/b=c1", "ab"]).text(text) == redacted


def test_in_json_what_stands_under_a_secrets_name_is_masked():
    value = {"user": {"Password": "x", "access_token": 7, "tokens": 9}, "list": [KEY, True, None, 1.5]}
    assert Redactor([KEY]).json(value) == {
        "user": {"Password": "***", "access_token": "***", "tokens": 9},
        "list": ["***", True, None, 1.5],
    }


def test_a_configurations_secrets_are_known(tmp_path: Path):
    assert KEY in possible_secrets(load(configured(tmp_path, "")))


async def test_a_gateways_own_tools_keep_their_arguments(tmp_path: Path):
    gateway = Gateway(load(configured(tmp_path, 'traces = "local"\ncontent = "all"')))
    await gateway.start()
    async with Client(gateway.view()) as client:
        await client.call_tool("search_tools", {"queries": [{"use_case": "say it"}]})
    await gateway.close()
    reader = TraceReader(tmp_path / "state")
    found = [span for spans in reader.spans(reader.recent(50)).values() for span in spans]
    (search,) = [span for span in found if span.name == "tools/call search_tools"]
    assert "say it" in str(search.attributes["gen_ai.tool.call.arguments"])
    assert "mcp__echo__echo" in str(search.attributes["gen_ai.tool.call.result"])


async def test_the_task_of_a_run_is_content(tmp_path: Path):
    from toolyard.config import TelemetryConfig
    from toolyard.telemetry.tracing import open_run_spans

    spans = open_run_spans(TelemetryConfig(traces=("local",), content="arguments"), tmp_path, [KEY])
    with spans.open("invoke_agent", "main", {"toolyard.task": f"Use {KEY}"}):
        await asyncio.sleep(0)
    await spans.close()
    reader = TraceReader(tmp_path)
    (trace,) = reader.recent(5)
    assert build_tree(trace, reader.spans([trace])[trace]).summary.task == "Use ***"
