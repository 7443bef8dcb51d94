"""`era = "caller"`: a server of both eras is spoken to in that of whoever calls, any other in its own."""

import pytest

from tests.app.speaker import LEGACY, Exchange, Speaker, speaking, text
from tests.app.yard import at, yard

ECHO = "mcp__up__echo"
ASKABLE = {"elicitation": {}}


class Both(Speaker):
    """Answers each request in its own era."""

    async def _answer(self, exchange: Exchange) -> None:
        self.era = "modern" if exchange.is_modern else "legacy"
        await super()._answer(exchange)


async def test_each_caller_reaches_a_server_of_both_eras_in_its_own():
    speaker = Both()
    async with speaking(speaker) as url, yard(at(url, era="caller")) as front:
        assert await front.says(ECHO, {"text": "modern"}) == "modern"
        session = await front.legacy(ASKABLE)
        assert (await session.call(ECHO, text="legacy")).result["content"][0]["text"] == "legacy"
        assert [item.is_modern for item in speaker.heard("tools/call")] == [True, False]
        assert [opening["capabilities"] for opening in speaker.openings] == [ASKABLE]
        assert (await front.server())["version"] == "2026-07-28"
        await session.end()
        await speaker.until(lambda: not speaker.sessions)


async def test_a_connection_that_a_legacy_server_lets_go_is_let_go_for_its_legacy_caller():
    speaker = Both()

    async def let_go(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.write(b"id: 1\nretry: 10\ndata:\n\n")
        await exchange.end()

    async def take_up(exchange: Exchange) -> None:
        if exchange.headers.get("last-event-id") != "1":
            await speaker.listen(exchange)
            return
        called = speaker.heard("tools/call")[-1]
        await exchange.stream()
        await exchange.event(called.reply(text("later")))
        await exchange.end()

    speaker.on |= {"tools/call": let_go, "GET": take_up}
    async with speaking(speaker) as url, yard(at(url, era="caller")) as front:
        session = await front.legacy(ASKABLE)
        line = await session.open_call(ECHO)
        *_, last = [event async for event in line.events()]
        assert (last.data, last.retry) == ("", 10)
        again = await session.listen(last.id)
        assert (await again.next_message())["result"]["content"][0]["text"] == "later"


async def test_a_server_of_the_modern_era_alone_is_there_for_legacy_callers_too():
    speaker = Speaker("modern")
    async with speaking(speaker) as url, yard(at(url, era="caller")) as front:
        session = await front.legacy(ASKABLE)
        for words in ("one", "two"):
            assert (await session.call(ECHO, text=words)).result["content"][0]["text"] == words
    assert len(speaker.heard("initialize")) == 1  # asked once, and remembered
    assert all(item.is_modern for item in speaker.heard("tools/call"))


@pytest.mark.parametrize("legacy", [True, False])
async def test_a_server_of_the_legacy_era_alone_has_a_session_for_each_legacy_client(legacy: bool):
    speaker = Speaker("legacy")
    async with speaking(speaker) as url, yard(at(url, era="caller")) as front:
        assert await front.says(ECHO, {"text": "modern"}) == "modern"
        if legacy:
            session = await front.legacy()
            assert (await session.call(ECHO, text="legacy")).result["content"][0]["text"] == "legacy"
        assert (await front.server())["version"] == LEGACY
    assert len(speaker.openings) == 1 + legacy
