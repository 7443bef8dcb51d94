"""The Agent SDK adapter: a server inside the application that runs Claude Code."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import AssistantMessage, McpSdkServerConfig, ToolUseBlock

from tests.clients.claude_peer import claude_code
from tests.clients.conversation import Person, Result, converse, soon
from tests.clients.yard import Yard
from tests.emulators.anthropic_messages import ToolUse as Use
from toolyard.kit import ToolError
from toolyard.kit.agent_sdk import JsonObject, ToolUse, create_sdk_server

LACKS = {
    "lists_output_schemas": "Claude Code shows titles and output schemas to neither model nor application",
    "gets_prompts": "Claude Code does not look for prompts of such a server",
    "completes_arguments": "Claude Code completes in its terminal only",
    "notices_a_new_tool": "the SDK's bridge drops notifications; the application can toggle the server",
}
LEGACY = "2025-11-25"


def hosted(yard: Yard, person: Person) -> McpSdkServerConfig:
    """The yard in an application that shows a person everything."""

    async def on_elicit(params: JsonObject, use: ToolUse) -> JsonObject:
        person.asked.append(params)
        return person.answer

    async def on_sample(params: JsonObject, use: ToolUse) -> JsonObject:
        person.asked.append(params)
        return {"role": "assistant", "content": {"type": "text", "text": person.thought}, "model": "host"}

    async def on_roots(params: JsonObject, use: ToolUse) -> JsonObject:
        return {"roots": [{"uri": person.folder}]}

    async def on_progress(params: JsonObject, use: ToolUse) -> None:
        person.progress.put_nowait((params["progress"], params.get("total"), params.get("message")))

    async def on_log(params: JsonObject, use: ToolUse) -> None:
        person.lines.put_nowait((params["level"], params.get("logger"), params["data"]))

    return create_sdk_server(
        yard.server,
        on_elicit=on_elicit,
        on_sample=on_sample,
        on_roots=on_roots,
        on_progress=on_progress,
        on_log=on_log,
    )


async def test_an_application_holds_the_conversation_with_its_own_server(tmp_path: Path):
    yard, person = Yard(), Person()
    async with claude_code(tmp_path, hosted(yard, person), LEGACY, yard.started.wait, person) as peer:
        await converse(peer, LACKS)


async def test_a_tool_that_came_later_is_seen_when_the_application_toggles_the_server(tmp_path: Path):
    yard = Yard()
    yard.listened_to.set()
    server = create_sdk_server(yard.server)
    async with claude_code(tmp_path, server, LEGACY, yard.started.wait) as peer:
        assert await peer.call("grow") == Result("grown")
        await peer.client.toggle_mcp_server("yard", False)
        await peer.client.toggle_mcp_server("yard", True)
        assert "late" in await peer.tools()
        assert await peer.call("late") == Result("better late")


async def test_a_callback_knows_which_tool_use_it_is_about(tmp_path: Path):
    yard, uses = Yard(), []

    def on_elicit(params: JsonObject, use: ToolUse) -> JsonObject:  # need not be a coroutine
        uses.append(use)
        return {"action": "cancel"}

    server = create_sdk_server(yard.server, on_elicit=on_elicit)
    async with claude_code(tmp_path, server, LEGACY, yard.started.wait) as peer:
        messages = await peer.say("Go on.", Use("mcp__yard__greet"), "Done.")
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    (asked,) = [block for answer in answers for block in answer.content if isinstance(block, ToolUseBlock)]
    assert uses == [ToolUse("greet", asked.id)]


async def test_a_tool_that_asks_what_nobody_answers_says_so(tmp_path: Path):
    yard = Yard()
    async with claude_code(tmp_path, create_sdk_server(yard.server), LEGACY, yard.started.wait) as peer:
        for tool, capability in (("greet", "elicitation"), ("ponder", "sampling"), ("look_around", "roots")):
            complaint = f"The client must declare the capability: {capability}"
            assert await peer.call(tool) == Result(complaint, is_error=True)
        assert await peer.call("walk") == Result("walked")
        assert await peer.call("note_down") == Result("noted")


async def test_a_callback_that_fails_fails_the_tool_that_waits_for_it_and_says_which_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def failing(error: Exception) -> Callable[[JsonObject, ToolUse], Any]:
        async def callback(params: JsonObject, use: ToolUse) -> Any:
            raise error

        return callback

    async def on_roots(params: JsonObject, use: ToolUse) -> JsonObject:
        return {"folders": []}

    yard = Yard()
    server = create_sdk_server(
        yard.server,
        on_elicit=failing(RuntimeError("the password is swordfish")),
        on_progress=failing(OSError("the window is gone")),
        on_sample=failing(ToolError("The model is asleep.")),
        on_roots=on_roots,
    )
    expected = {
        "greet": "The application's on_elicit callback failed; its log has the details",
        "ponder": "The model is asleep.",
        "look_around": "The client's answer to 'folders' cannot be used: field 'roots' is required",
    }
    async with claude_code(tmp_path, server, LEGACY, yard.started.wait) as peer:
        for tool, text in expected.items():
            assert await peer.call(tool) == Result(text, is_error=True)
        assert await peer.call("walk") == Result("walked")
        assert (await peer.call("add", a=1, b=2)).structured == {"total": 3, "note": None}
    assert "the password is swordfish" in caplog.text
    assert "the window is gone" in caplog.text


async def test_one_config_serves_several_queries_at_once(tmp_path: Path):
    yard = Yard()
    server = create_sdk_server(yard.server)

    async def use(home: Path, tool: str) -> Result:
        async with claude_code(home, server, LEGACY, yard.started.wait) as peer:
            return await peer.call(tool)

    homes = [tmp_path / name for name in "abc"]
    for home in homes:
        home.mkdir()
    waiting = asyncio.gather(use(homes[0], "until_stopped"), use(homes[1], "until_started"))
    async with claude_code(homes[2], server, LEGACY, yard.started.wait) as peer:
        await peer.cancel_a_call("wait")
    assert await soon(waiting) == [Result("stopped"), Result("started")]


async def test_closing_the_application_stops_what_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    yard = Yard()
    async with claude_code(tmp_path, create_sdk_server(yard.server), LEGACY, yard.started.wait) as peer:
        call = asyncio.create_task(peer.say("Go on.", Use("mcp__yard__wait"), "Perhaps."))
        await soon(yard.started.wait())
    await soon(yard.stopped.wait())
    await asyncio.gather(call, return_exceptions=True)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_tool_that_cannot_be_stopped_does_not_keep_the_application_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    yard, stuck, let_go = Yard(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @yard.server.tool
    def dig() -> str:
        """Runs in a thread, which nobody can interrupt."""
        loop.call_soon_threadsafe(stuck.set)
        let_go.wait()
        return "dug"

    try:
        async with claude_code(tmp_path, create_sdk_server(yard.server), LEGACY, stuck.wait) as peer:
            call = asyncio.create_task(peer.say("Go on.", Use("mcp__yard__dig"), "Perhaps."))
            await soon(stuck.wait())
        # The SDK would say that it gave up waiting for the server.
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    finally:
        let_go.set()
    await asyncio.gather(call, return_exceptions=True)


def test_without_the_agent_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)  # which is how Python notes an absent module
    with pytest.raises(ImportError, match=r"extras add agent-sdk"):
        create_sdk_server(Yard().server)
