"""Claude Code inside the Agent SDK leads a run; its model is scripted, everything else is real."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import MAIN, NARROW, WRITER
from tests.emulators.anthropic_messages import MessagesRequest, ScriptedClaude, scripted_claude
from tests.emulators.scripted import Failing, Silent, ToolUse
from toolyard.agents import AgentLibrary, AgentRunner, LocalGateway, RunFolder, RunLimits
from toolyard.agents.backends.claude import ClaudeBackend, prompt_of
from toolyard.agents.messages import ChatMessage, TextPart, ToolResultPart, ToolUsePart
from toolyard.app import Gateway
from toolyard.config import TelemetryConfig
from toolyard.telemetry.trace_file import TraceReader
from toolyard.telemetry.tracing import open_run_spans

YARD = "mcp__yard__"


@asynccontextmanager
async def run_of(
    gateway: Gateway, tmp_path: Path, script: Any, **options: Any
) -> AsyncGenerator[tuple[AgentRunner, ScriptedClaude]]:
    async with scripted_claude(script) as api:
        environ = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "dummy", "NO_PROXY": "127.0.0.1"}
        environ["CLAUDE_CODE_MAX_RETRIES"] = "0"
        environ["TOOLYARD_PRICES"] = options.pop("prices", "")
        folder = options.pop("folder", None) or RunFolder.create(tmp_path / "run")
        runner = AgentRunner(
            LocalGateway(gateway.view(), gateway.callers),
            lambda spec: ClaudeBackend(environ=environ),
            folder,
            library=AgentLibrary((MAIN, WRITER, NARROW)),
            model="claude:claude-scripted-1",
            **options,
        )
        async with runner:
            yield runner, api
        folder.close()


def transcript(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]


def call(tool: str, **arguments: Any) -> ToolUse:
    return ToolUse(f"{YARD}call_tool", {"tool": tool, "arguments": arguments})


async def test_tools_go_through_the_session_and_only_those_of_the_session_exist(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "userhome"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    script = [
        [
            call("mcp__demo__add", a=1, b=2),
            call("mcp__demo__add", a=3, b=4),
            ToolUse("Bash", {"command": "id"}),
        ],
        "3 and 7.",
    ]
    async with run_of(gateway, tmp_path, script, prices="claude-scripted-1=3/15") as (runner, api):
        outcome = await runner.ask("Add.")
    assert (outcome.status, outcome.answer) == ("done", "3 and 7.")
    assert api.requests[0].tool_names
    assert all(name.startswith(YARD) for name in api.requests[0].tool_names)
    assert "You are MAIN." in api.requests[0].system
    results = {result.tool_use_id: result.text for result in api.requests[1].tool_results}
    assert "3" in results["toolu_1_0"]
    assert "7" in results["toolu_1_1"]
    assert "No such tool" in results["toolu_1_2"]
    record = outcome.record
    assert record.tool_calls == 2
    assert record.turns == 2
    asked = sum(-(-one.size // 4) for one in api.requests)
    assert record.usage.input == asked
    assert record.cost == pytest.approx((asked * 3 + record.usage.output * 15) / 1e6)
    assert list(home.iterdir()) == []
    told = json.dumps(transcript(tmp_path / "run"))
    assert "call_tool" in told
    assert "No such tool" in told


async def test_its_turns_and_tools_have_the_spans_and_names_of_our_own_loops(
    gateway: Gateway, tmp_path: Path
) -> None:
    spans = open_run_spans(TelemetryConfig(traces=("local",)), tmp_path)
    async with run_of(gateway, tmp_path, [call("mcp__demo__add", a=1, b=2), "3"], spans=spans) as (runner, _):
        outcome = await runner.ask("Add.")
    await spans.close()
    found = TraceReader(tmp_path).spans([outcome.record.trace])[outcome.record.trace]
    by_name = {span.name: span for span in found}
    assert set(by_name) == {
        "invoke_agent main",
        "turn 1",
        "turn 2",
        "chat claude-scripted-1",
        "execute_tool mcp__demo__add",
    }
    turn, tool = by_name["turn 1"], by_name["execute_tool mcp__demo__add"]
    assert tool.parent == turn.id
    assert turn.attributes["logfire.tags"] == ["conversation_iteration_1"]
    assert tool.attributes["logfire.tags"] == ["tool_call", "tool_result"]
    assert tool.attributes["tool_name"] == "mcp__demo__add"
    assert tool.attributes["tool_id"] == "toolu_1_0"
    assert tool.attributes["is_error"] is False


async def test_a_sub_agent_has_its_own_rights_and_its_answer_comes_back(
    gateway: Gateway, tmp_path: Path
) -> None:
    def script(asked: MessagesRequest) -> Any:
        is_writer, results = "You are WRITER." in asked.system, asked.tool_results
        if is_writer:
            return "written" if results else call("mcp__demo__echo", text="x")
        if not results:
            return ToolUse(f"{YARD}delegate", {"agent": "writer", "task": "Write."})
        return f"It said: {results[-1].text}"

    async with run_of(gateway, tmp_path, script) as (runner, api):
        outcome = await runner.ask("Let it be written.")
    assert (outcome.status, outcome.answer) == ("done", "It said: written")
    refused = [one.tool_results[0] for one in api.requests if "WRITER" in one.system and one.tool_results]
    assert "'mcp__demo__echo' not found" in refused[0].text
    assert [child.name for child in outcome.record.agents[0].agents] == ["writer"]


async def test_a_limit_of_turns_stops_before_the_next_request(gateway: Gateway, tmp_path: Path) -> None:
    script = [call("mcp__demo__add", a=1, b=2), call("mcp__demo__add", a=2, b=2)]
    async with run_of(gateway, tmp_path, script, limits=RunLimits(turns=2)) as (runner, api):
        outcome = await runner.ask("Add for ever.")
    assert outcome.status == "limit"
    assert "2 turns" in outcome.reason
    assert len(api.requests) == 2


async def test_a_cancelled_run_leaves_no_process_and_can_go_on(gateway: Gateway, tmp_path: Path) -> None:
    script: list[Any] = [call("mcp__demo__add", a=1, b=2), Silent("Let me")]
    folder = RunFolder.create(tmp_path / "run")
    async with run_of(gateway, tmp_path, script, folder=folder) as (runner, api):
        task = asyncio.create_task(runner.ask("Add."))
        await api.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await api.left.wait()
    folder = RunFolder.open(tmp_path / "run")
    async with run_of(gateway, tmp_path, ["It is 3."], folder=folder) as (runner, api):
        outcome = await runner.ask()
    assert outcome.answer == "It is 3."
    assert "You called call_tool with" in api.requests[0].user
    assert "It returned: " in api.requests[0].user


async def test_an_api_that_refuses_ends_the_run_with_its_reason(gateway: Gateway, tmp_path: Path) -> None:
    async with run_of(gateway, tmp_path, lambda asked: Failing(401, message="bad key")) as (runner, _):
        outcome = await runner.ask("Add.")
    assert outcome.status == "model_error"
    assert "ANTHROPIC_API_KEY" in outcome.hint


def test_an_earlier_conversation_is_told_as_text() -> None:
    use = ChatMessage("assistant", (TextPart("Let me see."), ToolUsePart("1", "add", {"a": 1})))
    result = ChatMessage("user", (ToolResultPart("1", (TextPart("boom"),), is_error=True),))
    told = prompt_of([ChatMessage("user", (TextPart("Add."),)), use, result])
    assert 'User: Add.\nYou: Let me see.\nYou called add with {"a":1}\nIt failed: boom' in told
    assert told.endswith("Go on with the task.")
    assert prompt_of([ChatMessage("user", (TextPart("Add."),))]) == "Add."
