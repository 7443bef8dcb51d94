"""Servers that are processes of ours: their era, their sessions, their questions, and their death."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.serving import PATIENCE, LegacyClient, initialize
from toolyard.config import ServerConfig, Stdio
from toolyard.upstream.stdio import connector
from toolyard.wire.call import Principal

ROOT = Path(__file__).parents[2]
ELICITATION = {"elicitation": {}}
FORM = {"elicitation": {"form": {}}}


class Journal:
    """What the processes of one program have read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def read(self, method: str) -> list[dict[str, Any]]:
        return [line["read"] for line in self.lines() if line["read"].get("method") == method]

    def calls(self, tool: str) -> int:
        return sum(item["params"]["name"] == tool for item in self.read("tools/call"))

    @property
    def processes(self) -> list[int]:
        return [line["pid"] for line in self.lines() if "process" in line["read"]]

    async def until(self, check: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not check():  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.01)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def program(journal: Journal, *habits: str, **options: Any) -> ServerConfig:
    args = ("-m", "tests.app.program", str(journal.path), *habits)
    where = Stdio(command=sys.executable, args=args, cwd=str(ROOT))
    limits: dict[str, Any] = {"timeout": 10, "connect_timeout": 8}
    return ServerConfig(name="up", where=where, **(limits | options))


def bare(journal: Journal, *habits: str, identify: Any = None, **options: Any) -> Any:
    return yard(program(journal, *habits, **options), view="bare", server="up", identify=identify)


async def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Eras


@pytest.mark.parametrize(("era", "version"), [("modern", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_era_of_a_program_is_found_out(journal: Journal, era: str, version: str):
    async with bare(journal, era) as front:
        assert await front.says("echo", {"text": "hello"}) == "hello"
        await front.until_health(lambda health: health["servers"]["up"]["version"] == version)
    # Nobody knows who will call when the lists are read, and most programs have the older era alone.
    assert len(journal.read("server/discover")) == 1
    assert len(journal.read("initialize")) == 1
    assert len(journal.processes) == 1


async def test_a_program_that_ignores_what_it_does_not_know_is_initialized_after_a_while(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connector, "PROBE_SECONDS", 0.3)
    async with bare(journal, "deaf") as front:
        assert await front.says("echo", {"text": "hello"}) == "hello"
    assert journal.read("initialize")


async def test_the_era_of_a_program_is_remembered_over_a_restart(journal: Journal, tmp_path: Path):
    for _ in range(2):
        async with yard(program(journal), state=str(tmp_path / "state")) as front:
            assert await front.says("mcp__up__echo", {"text": "hello"}) == "hello"
    assert len(journal.processes) == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("habit", ["banner", "noisy"])
async def test_a_program_that_prints_more_than_messages_is_understood(journal: Journal, era: str, habit: str):
    async with bare(journal, era, habit) as front:
        assert await front.says("echo", {"text": "hello"}) == "hello"
        assert await front.says("echo", {"text": "again"}) == "again"
        answers = await asyncio.gather(*(front.says("echo", {"text": str(n)}) for n in range(5)))
        assert answers == ["0", "1", "2", "3", "4"]
    assert len(journal.processes) == 1


# Sessions


async def test_a_session_declares_what_its_client_can_be_asked_and_others_have_one_of_their_own(
    journal: Journal,
):
    async with bare(journal, "legacy") as front:
        plain = await front.legacy()
        plain_process = (await plain.call("who")).result["content"][0]["text"]
        askable = await front.legacy(ELICITATION)
        askable_process = (await askable.call("who")).result["content"][0]["text"]
        assert plain_process != askable_process
        another = await front.legacy()
        assert (await another.call("who")).result["content"][0]["text"] == plain_process
    declared = [item["params"]["capabilities"] for item in journal.read("initialize")]
    assert declared == [{}, ELICITATION]


async def test_what_a_client_cannot_be_asked_is_not_declared(journal: Journal):
    many = {"elicitation": {}, "roots": {"listChanged": True}, "experimental": {"x": {}}, "tasks": {}}
    async with bare(journal, "legacy") as front:
        session = await front.legacy(many)
        await session.call("who")
    (declared,) = [item["params"]["capabilities"] for item in journal.read("initialize")][-1:]
    assert declared == {"elicitation": {}, "roots": {"listChanged": True}}


async def test_a_modern_program_serves_every_client_by_one_process(journal: Journal):
    async with bare(journal, "modern") as front:
        await (await front.legacy()).call("who")
        await (await front.legacy(ELICITATION)).call("who")
        await front.call("who", capabilities=ELICITATION)
    assert len(journal.processes) == 1


async def test_a_change_of_roots_is_told_to_the_session_of_who_has_them(journal: Journal):
    async with bare(journal, "legacy") as front:
        await (await front.legacy()).call("who")
        session = await front.legacy({"roots": {"listChanged": True}})
        process = (await session.call("who")).result["content"][0]["text"]
        await session.notify("notifications/roots/list_changed")
        told = "notifications/roots/list_changed"
        await journal.until(lambda: journal.read(told))
        (line,) = [line for line in journal.lines() if line["read"].get("method") == told]
        assert str(line["pid"]) == process


# Questions


def by_tenant(headers: Any) -> Any:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"nobody").decode())


class Tenant(LegacyClient):
    """A legacy client that says who it is."""

    tenant = ""

    @property
    def headers(self) -> dict[str, str]:
        return super().headers | {"X-Tenant": self.tenant}


async def tenant(front: Yard, name: str) -> Tenant:
    headers, message = initialize(capabilities=ELICITATION)
    answer = await front.client.post(headers | {"X-Tenant": name}, message)
    session = Tenant(front.client, answer.result["protocolVersion"], answer.headers["mcp-session-id"])
    session.tenant = name
    await session.notify("notifications/initialized")
    return session


async def test_questions_reach_the_one_who_called_though_another_calls_at_the_same_time(journal: Journal):
    async with bare(journal, "legacy", identify=by_tenant) as front:
        anna, bert = await tenant(front, "anna"), await tenant(front, "bert")
        lines = {
            anna: await anna.open_call("ask", text="Anna, sure?"),
            bert: await bert.open_call("ask", text="Bert, sure?"),
        }
        for session, line in lines.items():
            question = await line.next_message()
            assert question["method"] == "elicitation/create"
            assert question["params"]["message"].lower().startswith(session.tenant)
            content = {"said": session.tenant}
            await session.respond(question["id"], {"action": "accept", "content": content})
            answer = await line.next_message()
            assert session.tenant in answer["result"]["content"][0]["text"]


async def test_a_question_to_a_client_that_cannot_be_asked_is_refused_and_the_call_goes_on(journal: Journal):
    async with bare(journal, "legacy", timeout=3) as front:
        session = await front.legacy()
        said = (await session.call("ask")).result["content"][0]["text"]
        assert "code" in json.loads(said)


# Answers


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_answer_of_several_mebibytes_is_passed_on_as_it_was(journal: Journal, era: str):
    async with bare(journal, era) as front:
        said = await front.says("big", {"size": 3 * 2**20})
        assert said == "é" + "x" * 3 * 2**20 + "\u2028"
        session = await front.legacy()
        assert (await session.call("big", size=3 * 2**20)).result["content"][0]["text"] == said


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_answer_over_the_limit_is_refused_by_name_and_the_next_one_is_read(
    journal: Journal, era: str
):
    async with bare(journal, era, max_result=2**20) as front:
        error = (await front.call("big", {"size": 3 * 2**20})).error
        assert "'up'" in error["message"]
        assert "1 MiB" in error["message"]
        assert await front.says("echo", {"text": "small"}) == "small"
    assert len(journal.processes) == 1


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_answer_that_makes_no_sense_ends_its_own_call_at_once_and_no_other(
    journal: Journal, era: str
):
    async with bare(journal, era, timeout=3600) as front:
        await front.tools()
        holding = asyncio.create_task(front.call("hold"))
        await journal.until(lambda: journal.calls("hold"))
        assert "'up'" in (await front.call("odd")).error["message"]
        assert not holding.done()
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_answer_that_comes_after_its_time_is_nobody_elses(journal: Journal, era: str):
    async with bare(journal, era, timeout=0.5) as front:
        assert "0.5 s" in (await front.call("late")).error["message"]
        assert await front.says("echo", {"text": "mine"}) == "mine"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_progress_reaches_its_own_call_though_two_clients_use_one_token(journal: Journal, era: str):
    async with bare(journal, era) as front:
        calls = [front.call("steps", {"text": words}, progress="same") for words in ("one", "two", "three")]
        for words, answer in zip(("one", "two", "three"), await asyncio.gather(*calls), strict=True):
            told, last = [event.json for event in answer.events if event.is_message]
            assert told["params"]["progressToken"] == "same"
            assert told["params"]["message"] == words
            assert last["result"]["content"][0]["text"] == words
    assert len(journal.processes) == 1


# Ends


async def test_a_call_that_is_given_up_is_cancelled_in_the_program(journal: Journal):
    async with bare(journal, "legacy", timeout=0.5) as front:
        assert "0.5 s" in (await front.call("hold")).error["message"]
        await journal.until(lambda: journal.read("notifications/cancelled"))
        (call,) = journal.read("tools/call")
        assert journal.read("notifications/cancelled")[0]["params"]["requestId"] == call["id"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_whose_program_dies_is_lost_when_it_may_not_run_twice(journal: Journal, era: str):
    async with bare(journal, era) as front:
        await front.says("echo")
        error = (await front.call("die")).error
        assert "'up'" in error["message"]
        assert "status 3" in error["message"] or "code 3" in error["message"], error
        assert await front.says("echo", {"text": "alive again"}) == "alive again"
    assert journal.calls("die") == 1
    assert len(journal.processes) == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_whose_program_dies_is_made_again_when_it_may_run_twice(journal: Journal, era: str):
    async with bare(journal, era) as front:
        await front.tools()
        assert await front.says("die_reading") == "alive"
    assert journal.calls("die_reading") == 2


async def test_a_call_whose_program_dies_is_made_again_before_anybody_lists(journal: Journal):
    async with bare(journal, "modern") as front:
        assert await front.says("die_reading") == "alive"


async def test_a_program_ends_with_the_gateway(journal: Journal):
    async with bare(journal) as front:
        await front.says("echo")
        await (await front.legacy(ELICITATION)).call("echo")
    assert len(journal.processes) == 2
    assert not [pid for pid in journal.processes if await alive(pid)]


async def test_a_program_whose_list_is_known_is_not_started_before_it_is_needed(
    journal: Journal, tmp_path: Path
):
    state = str(tmp_path / "state")
    async with yard(program(journal), state=state) as front:
        listed = await front.tools()
    async with yard(program(journal), state=state) as front:
        assert await front.tools() == listed
        assert len(journal.processes) == 1
        assert await front.says("mcp__up__echo", {"text": "now"}) == "now"
    assert len(journal.processes) == 2


async def test_an_eager_program_is_started_with_the_gateway(journal: Journal, tmp_path: Path):
    state = str(tmp_path / "state")
    for _ in range(2):
        async with yard(program(journal, start="eager"), state=state) as front:
            await front.until_health(lambda health: health["servers"]["up"]["tools"])
            await journal.until(lambda: len(journal.read("tools/list")) == len(journal.processes))
    assert len(journal.processes) == 2


async def test_a_program_that_cannot_be_started_is_named_with_the_command():
    where = Stdio(command="no-such-program-anywhere")
    async with yard(ServerConfig(name="up", where=where), list_wait=2.0) as front:
        assert await front.tools() == []
        assert "no-such-program-anywhere" in (await front.server())["reason"]


async def test_a_program_that_ends_at_once_is_named_with_its_last_words():
    where = Stdio(command=sys.executable, args=("-c", "import sys; sys.exit('the key is missing')"))
    async with yard(ServerConfig(name="up", where=where), list_wait=3600.0) as front:
        assert await front.tools() == []
        assert "the key is missing" in (await front.server())["reason"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_program_that_ends_after_its_first_words_is_not_started_without_a_pause(
    journal: Journal, era: str
):
    async with bare(journal, era, "fleeting", timeout=1.5) as front:
        assert "'up'" in (await front.call("echo")).error["message"]
        assert len(journal.processes) < 20


async def test_what_a_program_prints_on_standard_error_is_in_the_log(
    journal: Journal, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    warned = 'echo a word of warning >&2; exec "$0" -m tests.app.program "$1"'
    where = Stdio(command="/bin/sh", args=("-c", warned, sys.executable, str(journal.path)), cwd=str(ROOT))
    async with yard(ServerConfig(name="up", where=where)) as front:
        assert await front.says("mcp__up__echo", {"text": "hello"}) == "hello"
        await journal.until(lambda: "a word of warning" in caplog.text)
    assert any(record.name == "toolyard.upstream.up" for record in caplog.records)
