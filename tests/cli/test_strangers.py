"""`toolyard call` and `list` against servers that mean no good: an error and status 2, and that soon."""

import time
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from tests.cli.running import Outcome, Toolyard
from tests.cli.stranger import (
    Message,
    Say,
    answer,
    event,
    fine,
    head,
    legacy,
    modern,
    stranger,
    stream,
    streamed,
)

TIMEOUT = 0.5


@pytest.mark.parametrize("version", ["2025-11-25\r\nX-Evil: 1", "漢", ["x"], "1999-01-01"])
def test_a_version_that_is_none_is_not_sent_back(toolyard: Toolyard, version: Any):
    def initialize(message: Message) -> list[bytes]:
        return answer(message, {"protocolVersion": version})

    with stranger(legacy, initialize=initialize) as url:
        outcome = toolyard("list", "--url", url)
    assert (outcome.status, outcome.out) == (2, "")
    first, second = outcome.err.splitlines()
    assert first == f"error: the server speaks version {str(version)!r} of MCP, which is none we know"
    assert second == "hint: this command speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"


def test_a_session_id_that_no_header_can_carry_is_an_error(toolyard: Toolyard):
    def initialize(message: Message) -> list[bytes]:
        return answer(message, {"protocolVersion": "2025-11-25"}, "Mcp-Session-Id: a\x01b")

    with stranger(legacy, initialize=initialize) as url:
        outcome = toolyard("list", "--url", url)
    error = rf"error: {url} wants to have 'a\x01b' back as Mcp-Session-Id, which cannot be sent"
    assert outcome == Outcome(2, "", error + "\n")


def test_a_session_that_is_named_twice_is_an_error(toolyard: Toolyard):
    def initialize(message: Message) -> list[bytes]:
        opened = {"protocolVersion": "2025-11-25"}
        return answer(message, opened, "Mcp-Session-Id: mine", "Mcp-Session-Id: yours")

    with stranger(legacy, initialize=initialize) as url:
        outcome = toolyard("list", "--url", url)
    error = f"error: {url} sent the header 'Mcp-Session-Id' more than once\n"
    assert outcome == Outcome(2, "", error)


@pytest.mark.parametrize("status", [100, 102, 103])
def test_interim_replies_are_passed_over_and_not_without_end(toolyard: Toolyard, status: int):
    interim = b"HTTP/1.1 %d Wait\r\nLink: </a>\r\n\r\n" % status

    with stranger(modern, tools_call=lambda message: [interim * 20, *fine(message)]) as url:
        assert toolyard("call", "t", "--url", url) == Outcome(0, "fine\n", "")
    with stranger(modern, tools_call=lambda _: repeat(interim)) as url:
        outcome = toolyard("call", "t", "--url", url)
    assert outcome.status == 2
    error = f"error: {url} sent more than 20 interim replies (status {status}) and no real one"
    assert outcome.err.splitlines()[0] == error


def test_an_event_id_of_any_letters_comes_back_in_utf_8(toolyard: Toolyard):
    asked: list[Message] = []

    def cut(message: Message) -> list[bytes]:
        asked.append(message)
        return stream("id: é漢\nretry: 1\ndata:".encode())

    def rest(message: Message) -> list[bytes]:
        assert message["id"] == "é漢"
        return streamed(asked[0])

    with stranger(legacy, tools_call=cut, GET=rest) as url:
        assert toolyard("call", "t", "--url", url) == Outcome(0, "fine\n", "")


@pytest.mark.parametrize("digits", [400, 5000])
def test_an_endless_wait_before_the_rest_is_not_kept(toolyard: Toolyard, digits: int):
    asked: list[Message] = []

    def cut(message: Message) -> list[bytes]:
        asked.append(message)
        return stream(b"id: 1\nretry: " + b"9" * digits + b"\ndata:")

    with stranger(legacy, tools_call=cut, GET=lambda _: streamed(asked[0])) as url:
        assert toolyard("call", "t", "--url", url) == Outcome(0, "fine\n", "")


def test_questions_without_an_end_are_left(toolyard: Toolyard):
    def ask(message: Message) -> Iterator[bytes]:
        question = {"method": "elicitation/create", "params": {}}
        yield from stream(*(event({"id": id} | question) for id in range(101)))
        yield from repeat(b": it has not answered yet\n\n")

    with stranger(legacy, tools_call=ask) as url:
        outcome = toolyard("call", "t", "--url", url)
    assert outcome.status == 2
    assert outcome.err.splitlines()[-1] == "error: 'tools/call' asked for input 100 times and did not finish"


@pytest.mark.parametrize("number", ["9" * 400, "1e308"])
def test_progress_may_be_any_number(toolyard: Toolyard, number: str):
    notice = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%s,"total":1}}'

    def call(message: Message) -> list[bytes]:
        result = {"resultType": "complete", "content": []}
        return stream(notice % number.encode(), event({"id": message["id"], "result": result}))

    with stranger(modern, tools_call=call) as url:
        assert toolyard("call", "t", "--url", url).status == 0
        with toolyard.terminal("call", "t", "--url", url) as terminal:
            assert terminal.end() == 0
    assert "Traceback" not in terminal.seen


CHAIN = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3000)}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"properties": {"a": {"type": {"x": 1}}}}, "a: any?"),
        ({"properties": {"a": {"type": ["string", {"y": 1}, ["z"]]}}}, "a: string?"),
        ({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": CHAIN}, "a: any?"),
    ],
)
def test_a_schema_of_any_shape_can_be_listed_and_called(toolyard: Toolyard, schema: Message, shown: str):
    def tools(message: Message) -> list[bytes]:
        return answer(message, {"tools": [{"name": "t", "inputSchema": schema}]})

    with stranger(modern, tools_list=tools) as url:
        assert shown in toolyard("list", "--long", "--url", url).out
        assert toolyard("call", "t", "a=x", "--url", url) == Outcome(0, "fine\n", "")


def trickling_json(message: Message) -> Iterator[bytes]:
    yield head("application/json")
    yield from repeat(b" ")


def trickling_event(message: Message) -> Iterator[bytes]:
    yield head("text/event-stream")
    yield from repeat(b"data: 1\n")


@pytest.mark.parametrize("say", [trickling_json, trickling_event])
def test_a_server_that_talks_without_an_end_is_given_up_like_a_silent_one(toolyard: Toolyard, say: Say):
    with stranger(say) as url:
        outcome = toolyard("list", "--url", url, "--timeout", f"{TIMEOUT}")
    assert outcome.status == 2
    assert outcome.err.splitlines() == [
        f"error: {url} gave no answer within {TIMEOUT} seconds",
        "hint: --timeout SECONDS waits longer",
    ]


def test_a_server_that_shows_that_it_is_there_may_take_longer(toolyard: Toolyard):
    patience = 2.0  # between two pings, and those come as fast as a busy machine sends them

    def call(message: Message) -> Iterator[bytes]:
        yield head("text/event-stream")
        end = time.monotonic() + 2 * patience
        while time.monotonic() < end:
            yield b": ping\r\n\r\n"
        yield (
            event({"id": message["id"], "result": {"content": [{"type": "text", "text": "late"}]}}) + b"\n\n"
        )

    with stranger(modern, tools_call=call) as url:
        assert toolyard("call", "t", "--url", url, "--timeout", f"{patience}") == Outcome(0, "late\n", "")
