"""`toolyard agent` and `toolyard chat` as processes, with a scripted model on loopback."""

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PATIENCE, Toolyard
from tests.emulators.openai_chat import ScriptedChat, scripted_chat
from tests.emulators.scripted import Failing, Hanging, ToolUse

CONFIG = """
[servers.local_toolkit]
module = "local_toolkit"

[servers.demo]
module = "demo"

[servers.sessions]
module = "sessions"
"""


SECRET = "sk-secret-0123456789"


def call(tool: str, **arguments: object) -> ToolUse:
    return ToolUse("call_tool", {"tool": tool, "arguments": arguments})


class Api:
    """The scripted model; `turns` are what it says next. `reached` is set by every request."""

    def __init__(self) -> None:
        self.turns: list[Any] = []
        self.reached = threading.Semaphore(0)
        self.served: ScriptedChat | None = None

    def __call__(self, request: Any) -> Any:
        self.reached.release()
        turn = self.turns.pop(0)
        return turn(request) if callable(turn) else turn

    @property
    def environment(self) -> dict[str, str]:
        assert self.served is not None
        return {
            "OPENAI_BASE_URL": self.served.url,
            "OPENAI_API_KEY": SECRET,
            "TOOLYARD_MODEL": "openai:scripted",
            "TOOLYARD_PRICES": "scripted=1/2",
        }


@pytest.fixture(scope="module")
def served_api() -> Iterator[Api]:
    api = Api()
    ready: Future[asyncio.AbstractEventLoop] = Future()
    stopping = asyncio.Event()

    async def serve() -> None:
        async with scripted_chat(api) as served:
            api.served = served
            ready.set_result(asyncio.get_running_loop())
            await stopping.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop = ready.result(PATIENCE)
    yield api
    loop.call_soon_threadsafe(stopping.set)
    thread.join(PATIENCE)


@pytest.fixture
def api(served_api: Api) -> Api:
    served_api.turns = []
    served_api.reached = threading.Semaphore(0)
    return served_api


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    command = Toolyard(tmp_path)
    command.write("toolyard.toml", CONFIG)
    return command


def runs_of(toolyard: Toolyard) -> list[Path]:
    return sorted((toolyard.state / "toolyard" / "runs").iterdir())


def test_a_model_that_writes_its_calls_as_text_is_understood_if_it_is_said(
    toolyard: Toolyard, api: Api
) -> None:
    written = '```json\n{"name": "mcp__demo__add", "arguments": {"a": 20, "b": 22}}\n```'
    api.turns = [written, "The sum is 42."]
    done = toolyard("agent", "Add 20 and 22", "--view", "all", "--text-calls", **api.environment)
    assert (done.status, done.out) == (0, "The sum is 42.\n"), done.err
    assert "1 tool call," in done.err
    api.turns = [written]
    alone = toolyard("agent", "Add 20 and 22", "--view", "all", **api.environment)
    assert (alone.status, alone.out) == (0, f"{written}\n"), "other models are taken at their word"


def test_tools_that_leave_no_room_for_a_conversation_are_refused_before_the_model_is_asked(
    toolyard: Toolyard, api: Api
) -> None:
    refused = toolyard("agent", "Hello", "--view", "all", "--context-tokens", "3000", **api.environment)
    assert refused.status != 0
    assert "tools and the prompt are about " in refused.err
    assert "no room is left for a talk" in refused.err
    assert "--view search" in refused.err
    assert not api.reached.acquire(blocking=False), "nothing was sent"
    api.turns = ["Hello."]
    assert toolyard("agent", "Hello", "--view", "all", **api.environment).out == "Hello.\n"


def test_a_task_is_done_and_its_answer_printed(toolyard: Toolyard, api: Api) -> None:
    api.turns = [
        [
            call(
                "mcp__local_toolkit__write_local_file",
                path="work_products/a.txt",
                content="sk-secret-0123456789",
            ),
            call("mcp__demo__add", a=20, b=22),
        ],
        "The sum is 42.",
    ]
    done = toolyard("agent", "Add 20 and 22", **api.environment)
    assert (done.status, done.out) == (0, "The sum is 42.\n"), done.err
    for shown in (
        "main (openai:scripted)  Add 20 and 22",
        "mcp__demo__add",
        "2 turns, 2 tool calls",
        "a.txt",
    ):
        assert shown in done.err
    (run,) = runs_of(toolyard)
    assert {path.name for path in run.iterdir()} == {
        "run.json",
        "transcript.jsonl",
        "search_results",
        "work_products",
    }
    assert "sk-secret" not in (run / "transcript.jsonl").read_text() + (run / "run.json").read_text()
    trace = json.loads((run / "run.json").read_text())["trace"]
    (traced,) = json.loads(toolyard("trace", "--runs", "--json").out)
    assert (traced["trace_id"], traced["calls"]) == (trace, 2), "both count alike"

    nothing = toolyard("agent", "--resume", "last", **api.environment)
    assert (nothing.status, f"the run '{run.name}' is done" in nothing.err) == (2, True)

    api.turns = ["Hello again."]
    more = toolyard("agent", "And now?", "--resume", "last", "--json", **api.environment)
    record = json.loads(more.out)
    assert (more.status, more.err) == (0, ""), more.err
    assert (record["answer"], record["starts"], record["status"]) == ("Hello again.", 2, "done")
    listed = toolyard("agent", "--runs")
    assert record["run"] in listed.out
    found = toolyard("call", "mcp__sessions__search_sessions", "query=sum", "--json")
    assert record["run"] in found.out


def test_ctrl_c_stops_cleanly_and_the_run_goes_on(toolyard: Toolyard, api: Api) -> None:
    api.turns = [call("mcp__demo__add", a=1, b=1), Hanging()]
    process = toolyard.start("agent", "Add", **api.environment)
    assert api.reached.acquire(timeout=PATIENCE)
    assert api.reached.acquire(timeout=PATIENCE)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    (run,) = runs_of(toolyard)
    assert f"toolyard agent --resume {run.name}" in err
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"

    api.turns = ["It is 2."]
    done = toolyard("agent", "--resume", run.name, **api.environment)
    assert (done.status, done.out) == (0, "It is 2.\n")


def test_a_killed_run_goes_on_and_one_that_runs_is_refused(toolyard: Toolyard, api: Api) -> None:
    api.turns = [call("mcp__demo__add", a=1, b=1), Hanging()]
    process = toolyard.start("agent", "Add", **api.environment)
    assert api.reached.acquire(timeout=PATIENCE)
    assert api.reached.acquire(timeout=PATIENCE)
    (run,) = runs_of(toolyard)
    second = toolyard("agent", "--resume", run.name, **api.environment)
    assert second.status == 2
    assert f"another process works on the run '{run.name}'" in second.err
    process.kill()
    process.communicate()
    assert "interrupted" in toolyard("agent", "--runs").out

    api.turns = ["It is 2."]
    done = toolyard("agent", "--resume", str(run), **api.environment)
    assert (done.status, done.out) == (0, "It is 2.\n")


def test_a_run_that_ends_otherwise_says_why_and_how_to_go_on(toolyard: Toolyard, api: Api) -> None:
    api.turns = [call("mcp__demo__add", a=1, b=1)]
    done = toolyard("agent", "Add", "--max-turns", "1", **api.environment)
    assert done.status == 1
    assert "error: limit of turns: 1 turns" in done.err
    assert "toolyard agent --resume" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no task"),
        (["x", "--agent", "mian"], "no agent 'mian'"),
        (["x", "--model", "openai:"], "does not name a model"),
        (["x", "--workspace", "toolyard.toml/x"], "cannot write"),
        (["x", "--resume", "nothing"], "no run 'nothing'"),
        (["x", "--agents", "agents"], "agents/bad.md, line 2: 'this is no key' is not 'key: value'"),
        (["x", "--config", "missing.toml"], "missing.toml"),
        (["x", "--url", "http://127.0.0.1:9/mcp"], "nothing listens at"),
        (["x", "--without-grants"], "--without-grants is for a gateway at an address"),
    ],
)
def test_what_cannot_start_is_named(toolyard: Toolyard, api: Api, arguments: list[str], message: str) -> None:
    (toolyard.folder / "agents").mkdir()
    toolyard.write("agents/bad.md", "---\nthis is no key\n---\nPrompt")
    done = toolyard("agent", *arguments, **api.environment)
    assert done.status == 2
    assert message in done.err
    assert done.out == ""


def test_a_missing_key_of_the_model_is_named(toolyard: Toolyard, api: Api) -> None:
    done = toolyard("agent", "x", **api.environment | {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
    assert done.status == 2
    assert "OPENAI_API_KEY" in done.err
    nothing = toolyard("agent", "x", **api.environment | {"TOOLYARD_MODEL": ""})
    assert (nothing.status, "there is no model" in nothing.err) == (2, True)


def test_the_agents_are_listed_with_what_is_ignored(toolyard: Toolyard) -> None:
    folder = toolyard.folder / ".claude" / "agents"
    folder.mkdir(parents=True)
    toolyard.write(
        ".claude/agents/helper.md",
        "---\nname: helper\ndescription: Helps\ntools: Read, demo/add\ncolor: red\n---\nHelp.",
    )
    listed = toolyard("agent", "--list")
    for name in ("main", "report-creation-expert", "helper"):
        assert name in listed.out
    assert "ignored: color, Read" in listed.err


def test_chat_answers_line_by_line(toolyard: Toolyard, api: Api) -> None:
    api.turns = ["Hello.", "You said hi."]
    done = toolyard("chat", stdin="hi\n/nonsense\nwhat did I say?\n/exit\nnot read\n", **api.environment)
    assert done.status == 0
    assert done.out.split("\n")[:2] == ["Hello.", "You said hi."]
    assert "no command '/nonsense'" in done.err
    assert "toolyard chat --resume" in done.err


def test_in_a_chat_ctrl_c_ends_the_turn_and_not_the_chat(toolyard: Toolyard, api: Api) -> None:
    api.turns = [Hanging(), "Still here."]
    with toolyard.terminal("chat", **api.environment) as terminal:
        terminal.expect("> ")
        terminal.type("wait\n")
        assert api.reached.acquire(timeout=PATIENCE)
        terminal.interrupt(signal.SIGINT)
        terminal.expect("the turn was ended")
        terminal.type("are you there?\n")
        terminal.expect("Still here.")
        terminal.type("/exit\n")
        assert terminal.end() == 0


def test_a_tool_may_ask_the_person_at_the_terminal(toolyard: Toolyard, api: Api) -> None:
    api.turns = [call("mcp__demo__ask_name"), lambda request: f"I heard: {request.tool_results[-1]}"]
    with toolyard.terminal("agent", "Ask for a name", **api.environment) as terminal:
        terminal.expect("Your name:")
        terminal.type("Ada\n")
        terminal.expect("Manner")
        terminal.type("\n")
        assert terminal.end() == 0
        assert "Ada" in terminal.seen.partition("I heard:")[2]


def test_what_models_and_tools_name_cannot_control_the_terminal(toolyard: Toolyard, api: Api) -> None:
    """The words of the model's API end a sub-agent; a tool makes a file with a name of its choice."""
    (toolyard.folder / "agents").mkdir()
    toolyard.write("agents/other.md", "---\nname: other\ndescription: other\n---\nOther.")
    api.turns = [
        [
            ToolUse("delegate", {"agent": "other", "task": "go"}),
            call("mcp__local_toolkit__write_local_file", path="\x1b]0;x\x07.txt", content="x"),
        ],
        Failing(400, message="no \x1b]0;x\x07 such"),
        "done",
    ]
    done = toolyard("agent", "go", "--agents", "agents", **api.environment)
    assert (done.status, done.out) == (0, "done\n")
    assert "no \\x1b]0;x\\x07 such" in done.err
    assert "\x1b" not in done.err


def test_a_size_that_a_page_makes_up_does_not_end_the_run(toolyard: Toolyard, api: Api) -> None:
    api.turns = [call("mcp__demo__echo", text=f'"truncated":true,"approx_size_bytes":{"9" * 400}'), "done"]
    done = toolyard("agent", "go", **api.environment)
    assert (done.status, done.out) == (0, "done\n")
