"""A recorded run of an agent replays to the same transcript, without servers and without a model."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PATIENCE, Toolyard
from tests.emulators.openai_chat import ScriptedChat, scripted_chat
from tests.emulators.scripted import Failing, ToolUse
from tests.recordings.yard import WORKSHOP

SECRET = "sk-of-the-model-0123456789"
CONFIG = f"""
[servers.demo]
module = "demo"

[servers.shop]
module = {json.dumps(WORKSHOP)}
"""


def call(tool: str, **arguments: object) -> ToolUse:
    return ToolUse("call_tool", {"tool": tool, "arguments": arguments})


class Script:
    def __init__(self) -> None:
        self.turns: list[Any] = []

    def __call__(self, request: Any) -> Any:
        return self.turns.pop(0)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ScriptedChat, Script]]:
    """A model on loopback, in a thread: the commands are processes that the test waits for."""
    script = Script()
    ready: Future[tuple[asyncio.AbstractEventLoop, ScriptedChat]] = Future()
    stopping = asyncio.Event()

    async def serve() -> None:
        async with scripted_chat(script) as chat:
            ready.set_result((asyncio.get_running_loop(), chat))
            await stopping.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, chat = ready.result(PATIENCE)
    yield chat, script
    loop.call_soon_threadsafe(stopping.set)
    thread.join(PATIENCE)


def steady(folder: Path) -> list[str]:
    """The lines of a transcript without what is random or a time."""
    text = re.sub(r'"run":"[^"]*","time":[0-9.]+,', "", (folder / "transcript.jsonl").read_text())
    text = re.sub(r"local-[0-9a-f-]{36}", "local", text)
    return re.sub(r'(expires_at\\":\\")[^\\]*', r"\1", text).splitlines()


def test_a_run_replays_to_the_same_transcript_answer_and_record(
    tmp_path: Path, served: tuple[ScriptedChat, Script]
) -> None:
    chat, script = served
    toolyard = Toolyard(tmp_path)
    toolyard.write("toolyard.toml", CONFIG)
    script.turns = [
        ToolUse("search_tools", {"queries": [{"use_case": "ring a bell"}]}),
        Failing(529),
        [call("mcp__shop__ring"), call("mcp__demo__add", a=2, b=40)],
        call("mcp__shop__says", text="\n".join(f"line {number}" for number in range(3000))),
        call("mcp__shop__ring"),
        call("mcp__shop__breaks", how="badly"),
        "The bell rang twice, and 42.",
    ]
    model = {"OPENAI_BASE_URL": chat.url, "OPENAI_API_KEY": SECRET, "TOOLYARD_MODEL": "openai:scripted"}
    words = ("agent", "ring the bell")
    first = toolyard("record", "run.jsonl", *words, "--workspace", "a", **model)
    assert first.status == 0, first.err
    assert first.out == "The bell rang twice, and 42.\n"
    assert script.turns == []
    assert SECRET not in (tmp_path / "run.jsonl").read_text()

    again = toolyard("replay", "run.jsonl", *words, "--workspace", "b", TOOLYARD_MODEL="openai:scripted")
    assert (again.status, again.out) == (0, first.out), again.err
    assert steady(tmp_path / "b") == steady(tmp_path / "a")
    compared = toolyard("diff", "a", "b", "--json")
    assert compared.status == 0, compared.out
    assert json.loads(compared.out)["totals"]["turns"] == {"a": 6, "b": 6}

    words = ("agent", "do something else", "--model", "openai:scripted")
    other = toolyard("replay", "run.jsonl", *words, "--workspace", "c")
    assert other.status == 1
    assert "a request to the model was not recorded; the nearest is event" in other.err
    assert "'do something else', recorded 'ring the bell'" in other.err
