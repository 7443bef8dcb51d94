"""The seed's story with a scripted model and everything else real: the command, the gateway, the grants, the
crawler, the workspace, and Composio as its emulator."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Outcome, Toolyard
from tests.crawler.web import Web
from tests.emulators.anthropic_messages import scripted_claude
from tests.emulators.composio import ComposioEmulator
from tests.emulators.openai_chat import scripted_chat
from tests.flow.story import (
    ANSWER,
    BROKEN,
    CONFIG,
    MAIL,
    NO_TOOL,
    PAGES,
    REPORT,
    STOP,
    TASK,
    Story,
    composio_with_news,
    news_site,
)

USER = "u42"
"""The document's DEFAULT_USER_ID: whoever stores the report must be who mails it."""
STAGES = (
    *("search_tools", "COMPOSIO_SEARCH_NEWS_SEARCH", "delegate", "crawl_parallel", "save_corpus"),
    *("upload_to_composio", "GMAIL_SEND_EMAIL"),
)


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with news_site() as opened:
        yield opened


@pytest.fixture
async def composio(web: Web) -> AsyncIterator[ComposioEmulator]:
    async with composio_with_news(web, USER) as emulator:
        yield emulator


@pytest.mark.parametrize("backend", ["openai", "anthropic", "claude"])
async def test_news_become_a_report_that_is_mailed(
    backend: str, web: Web, composio: ComposioEmulator, tmp_path: Path
) -> None:
    story = Story()
    toolyard = Toolyard(tmp_path)
    toolyard.patience = 120.0  # Claude Code starts twice
    config = CONFIG.format(port=web.port, key=composio.api_key, composio=composio.url)
    toolyard.write("toolyard.toml", config)
    async with AsyncExitStack() as open_for:
        environment = await _model(backend, story, open_for, tmp_path)
        environment["DEFAULT_USER_ID"] = USER
        done = await _run(toolyard, "agent", TASK, "--json", "--workspace", "run", **environment)
    assert done.status == 0, done.err
    record = json.loads(done.out)
    assert (record["status"], record["answer"]) == ("done", ANSWER)

    run = tmp_path / "run"
    assert (run / REPORT).read_text() == story.html
    (mail,) = composio.records["emails"]
    assert (mail["recipient_email"], mail["received"]) == ("bo@example.com", story.html.encode())
    (box,) = composio.sandboxes.values()
    assert (box.user_id, box.files["/home/user/report.html"]) == (USER, story.html.encode())
    assert {one["user_id"] for one in composio.world.executions} == {USER}
    corpus = json.loads((run / "expanded_corpus.json").read_text())
    assert (corpus["successful"], len(list(run.glob("search_results/crawl_*.md")))) == (STOP, STOP)
    fetched = [path for path in web.hits if path.startswith("/news/")]
    assert sorted(fetched) == sorted(f"/news/{number}" for number in range(BROKEN + STOP))

    # What a rule forbids does not exist.
    answers = story.said["report-creation-expert"]
    forbidden, unknown = (next(text for text in answers if name in text) for name in (MAIL, NO_TOOL))
    assert forbidden.replace(MAIL, NO_TOOL) == unknown
    assert "not found" in unknown
    assert "delegate" not in {name.rpartition("__")[2] for name in story.names["report-creation-expert"]}

    told = await _run(toolyard, "trace", record["trace"], "--json")
    _check_trace(json.loads(told.out), record, story, composio, backend)
    drawn = await _run(toolyard, "trace", record["trace"])
    assert f"total {PAGES}, successful {STOP}, failed {BROKEN}" in " ".join(drawn.out.split())


def _check_stages(spans: dict[str, Any]) -> None:
    """What is one below the other, and what came after what."""
    calls = [span for span in spans.values() if span["layer"] == "tool"]
    tools = {span["attributes"]["gen_ai.tool.name"].rpartition("__")[2]: span for span in calls}
    began = [tools[name]["start"] for name in STAGES]
    assert began == sorted(began)
    for name in ("crawl_parallel", "save_corpus", "read_research_files"):
        assert _layers_above(tools[name], spans) == ["agent", "turn", "tool", "agent", "turn"]
    sent = [span for span in spans.values() if spans.get(span["parent_id"], {}).get("layer") == "upstream"]
    assert {span["layer"] for span in sent} == {"http"}
    for span in sent:
        assert _layers_above(span, spans) == ["agent", "turn", "tool", "gateway", "upstream"]


def _layers_above(span: Any, spans: dict[str, Any]) -> list[str]:
    """From the root down to the span."""
    found: list[str] = []
    while span["parent_id"] is not None:
        span = spans[span["parent_id"]]
        found.insert(0, span["layer"])
    return found


def _check_trace(trace: Any, record: Any, story: Story, composio: ComposioEmulator, backend: str) -> None:
    """One tree, and the numbers in it are those that the emulators counted."""
    spans = {span["span_id"]: span for span in trace["spans"]}
    assert [span["name"] for span in spans.values() if span["parent_id"] is None] == ["invoke_agent main"]
    assert all(span["parent_id"] in spans for span in spans.values() if span["parent_id"] is not None)
    _check_stages(spans)

    def layer(name: str) -> list[Any]:
        return [span for span in spans.values() if span["layer"] == name]

    assert len(layer("model")) == len(layer("turn")) == sum(story.turns.values())
    assert len(layer("tool")) == record["tool_calls"] == sum(map(len, story.said.values()))
    sent = {"input": trace["input_tokens"], "output": trace["output_tokens"]}
    assert sent == {name: record["usage"][name] for name in sent}
    if backend != "claude":  # which counts for itself
        assert trace["input_tokens"] == story.tokens
    at_composio = [
        span for span in layer("upstream") if span["attributes"]["toolyard.upstream"] == "composio"
    ]
    executed = [one["tool"] for one in composio.world.executions]
    assert [span["attributes"]["gen_ai.tool.name"] for span in at_composio] == executed
    for span in at_composio:
        (exchange,) = [one for one in layer("http") if one["parent_id"] == span["span_id"]]
        assert exchange["attributes"]["http.response.status_code"] == 200
    counts = {
        span["attributes"]["gen_ai.tool.name"]: span["attributes"].get("toolyard.result.counts")
        for span in layer("tool")
    }
    skipped = PAGES - BROKEN - STOP
    assert counts["mcp__local_toolkit__crawl_parallel"] == (
        f"total {PAGES}, successful {STOP}, failed {BROKEN}, skipped {skipped}"
    )
    refused = [span["attributes"]["gen_ai.tool.name"] for span in layer("tool") if span["error"]]
    assert sorted(refused) == [MAIL, NO_TOOL]


async def _model(backend: str, story: Story, open_for: AsyncExitStack, folder: Path) -> dict[str, str]:
    prices = {"TOOLYARD_PRICES": "scripted=1/2"}
    if backend == "openai":
        chat = await open_for.enter_async_context(scripted_chat(story))
        return prices | {
            "OPENAI_BASE_URL": chat.url,
            "OPENAI_API_KEY": "sk-secret",
            "TOOLYARD_MODEL": "openai:scripted",
        }
    claude = await open_for.enter_async_context(scripted_claude(story, only_with_tools=backend == "claude"))
    return prices | claude.env(folder / "home") | {"TOOLYARD_MODEL": f"{backend}:scripted"}


async def _run(toolyard: Toolyard, *arguments: str, **environment: Any) -> Outcome:
    return await asyncio.to_thread(toolyard, *arguments, **environment)
