"""Servers of the Suna fork's form: a session for each conversation, begun by a POST, its id in a header."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.app.speaker import Exchange, speaking, text
from tests.app.yard import Yard, yard
from tests.dispatch.fork import HEADER, Fork
from tests.serving import Answer
from tests.upstream.test_http_sessions import OldServer
from toolyard.config import Http, ServerConfig
from toolyard.wire.call import Principal

SEND = "mcp__up__send"
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@asynccontextmanager
async def forked(fork: Fork, **options: Any) -> AsyncIterator[Yard]:
    async with speaking(fork) as url:
        session_url = url.replace("/mcp", "/session")
        where = Http(url=url, session_url=session_url, headers={"x-api-key": "key-of-the-project"})
        limits: dict[str, Any] = {"timeout": 10}
        server = ServerConfig(name="up", where=where, **(limits | options))
        async with yard(server, identify=identify) as front:
            yield front


def identify(headers: Any) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"acme").decode())


async def send(front: Yard, number: int = 1, thread: str = "t", tenant: str = "acme") -> Answer:
    told = {"x-toolyard-thread": thread, "x-tenant": tenant}
    return await front.call(SEND, {"text": str(number)}, headers=told)


@ERAS
async def test_each_conversation_has_a_session_of_its_own_and_lists_need_none(era: str):
    fork = Fork(era)
    async with forked(fork) as front:
        for number, (thread, tenant) in enumerate(
            [("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("", "y")]
        ):
            assert (await send(front, number, thread, tenant)).result["content"][0]["text"] == str(number)
    used = [id for id, _ in fork.executed]
    assert used[0] == used[3]
    assert len(set(used)) == len(fork.begun) == 4
    assert not any(HEADER in item.headers for item in fork.heard("tools/list"))
    assert all(item.headers["x-api-key"] == "key-of-the-project" for item in fork.seen)


MANNERS = [
    "401",
    "410",
    "403 in words",
    "400 in words",
    "a JSON-RPC error",
    "a JSON-RPC error under 401",
    "an error result",
]


@ERAS
@pytest.mark.parametrize("manner", MANNERS)
async def test_a_session_that_is_over_is_renewed_and_the_call_is_done_once(era: str, manner: str):
    fork = Fork(era, manner)
    async with forked(fork) as front:
        await send(front, 1)
        fork.live.clear()
        result = (await send(front, 2)).result
        assert result["content"][0]["text"] == "2"
        assert not result.get("isError")
    assert len(fork.begun) == 2
    assert [arguments["text"] for _, arguments in fork.executed] == ["1", "2"]
    assert fork.calls_heard() == 3


@ERAS
async def test_twenty_calls_refused_together_share_one_new_session(era: str):
    fork = Fork(era, "410")
    async with forked(fork) as front:
        await send(front, 0)
        fork.live.clear()
        answers = await asyncio.gather(*(send(front, number) for number in range(1, 21)))
        assert sorted(int(answer.result["content"][0]["text"]) for answer in answers) == list(range(1, 21))
    assert len(fork.begun) == 2
    assert len(fork.executed) == 21


async def test_a_call_refused_in_the_new_session_too_is_not_tried_a_third_time():
    fork = Fork(manner="401")
    async with forked(fork) as front:
        await send(front, 1)
        fork.live = frozenset()  # type: ignore[assignment]  nothing lives any more
        fork.gives = False
        assert "401" in (await send(front, 2)).error["message"]
    assert fork.calls_heard() == 3
    assert len(fork.executed) == 1


OTHERS_SESSIONS = (
    "Clicked 'Pay', then the browser session was closed",
    "Order 17 is placed. Your login session at the shop has expired since.",
    "The browser session has expired",
)


@ERAS
@pytest.mark.parametrize("fate", ["broken off", "500", "an error among others", *OTHERS_SESSIONS])
async def test_what_may_have_had_an_effect_is_never_repeated(era: str, fate: str):
    fork = Fork(era)

    async def call(exchange: Exchange) -> None:
        if fate == "broken off":
            await exchange.break_off()
        elif fate == "500":
            await exchange.plain(500, "Session expired while the mail was being sent")
        elif fate in OTHERS_SESSIONS and exchange.arguments["text"] == "2":
            await exchange.result(text(fate, isError=True))
        elif fate in OTHERS_SESSIONS:
            await exchange.error(-32000, fate)
        else:
            blocks = [{"type": "text", "text": part} for part in ("Session expired", "2 of 3 mails sent")]
            await exchange.result({"content": blocks, "isError": True})

    async with forked(fork) as front:
        await send(front, 1)
        fork.on["tools/call"] = call
        for number in (2, 3):
            answer = (await send(front, number)).json
            assert "error" in answer or answer["result"]["isError"]
    assert fork.calls_heard() == 3
    assert len(fork.begun) == 1


async def test_without_a_session_to_be_had_the_call_goes_without_one():
    fork = Fork()
    fork.gives = False
    fork.live.add("")  # it takes calls that name no session
    async with forked(fork) as front:
        assert (await send(front, 1)).result["content"][0]["text"] == "1"
        assert (await send(front, 2)).result["content"][0]["text"] == "2"
    assert not any(HEADER in item.headers for item in fork.seen)
    # Once more, because the connection broke; then not for every call.
    assert len([item for item in fork.seen if item.path == "/session"]) == 2


@ERAS
async def test_a_server_that_wants_a_session_even_for_its_lists_gets_one(era: str):
    fork = Fork(era)
    fork.guards_lists = True
    async with forked(fork) as front:
        assert await front.tools() == [SEND]
    assert HEADER in fork.heard("tools/list")[-1].headers


class OldFork(OldServer):
    """The same over the transport of 2024-11-05."""

    def __init__(self) -> None:
        super().__init__()
        self.live: set[str] = set()
        self.begun: list[str] = []

    async def _take(self, exchange: Exchange) -> None:
        if exchange.path == "/session":
            self.begun.append(f"sess-{len(self.begun)}")
            self.live.add(self.begun[-1])
            await exchange.json({"id": self.begun[-1], "ttl": 60})
        elif exchange.method == "tools/call" and exchange.headers.get(HEADER) not in self.live:
            await exchange.plain(401, "Unauthorized")
        else:
            await super()._take(exchange)


async def test_a_server_of_the_oldest_transport_gets_its_sessions_too():
    server = OldFork()
    async with speaking(server) as url:
        where = Http(url=url, transport="sse", session_url=url.replace("/mcp", "/session"))
        async with yard(ServerConfig(name="up", where=where, timeout=10)) as front:
            assert await front.says("mcp__up__echo", {"text": "first"}) == "first"
            server.live.clear()
            assert await front.says("mcp__up__echo", {"text": "second"}) == "second"
    assert len(server.begun) == 2
    asked = [item["params"] for item in server.posted if item["method"] == "tools/call"]
    assert [params["arguments"]["text"] for params in asked] == ["first", "second"]


async def test_where_no_session_can_be_begun_the_log_says_why_and_not_with_which_key(
    caplog: pytest.LogCaptureFixture,
):
    fork = Fork()
    fork.refuses_to_begin = "key-of-the-project is not allowed here"
    fork.live.add("")
    async with forked(fork) as front:
        assert (await send(front, 1)).result["content"][0]["text"] == "1"
        assert "key-of-the-project" not in json.dumps(await front.health())
    assert "*** is not allowed here" in caplog.text
    assert "key-of-the-project" not in caplog.text
