"""Which era a server at an address speaks: found out, remembered, and found out anew when it changed."""

import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.app.speaker import LEGACY, Exchange, Speaker, free_port, speaking
from tests.app.yard import at, yard

ECHO = "mcp__up__echo"


async def test_a_modern_server_is_asked_once_and_never_initialized():
    speaker = Speaker("modern")
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"
        assert await front.says(ECHO, {"text": "again"}) == "again"
        assert (await front.server())["version"] == "2026-07-28"
    assert len(speaker.heard("server/discover")) == 1
    assert not speaker.openings


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415, 500, 501])
async def test_a_server_that_refuses_the_modern_question_in_plain_words_is_spoken_to_in_the_legacy_way(
    status: int,
):
    speaker = Speaker("legacy")

    async def refuse(exchange: Exchange) -> bool:
        if exchange.is_modern:
            await exchange.plain(status, "what?")
        return exchange.is_modern

    speaker.before = refuse
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"
        assert (await front.server())["version"] == LEGACY
    assert len(speaker.heard("server/discover")) == 1


@pytest.mark.parametrize(
    ("code", "status"), [(-32601, 200), (-32601, 404), (-32022, 400), (-32600, 400), (-32000, 400)]
)
async def test_a_server_that_refuses_the_modern_question_in_json_is_spoken_to_in_the_legacy_way(
    code: int, status: int
):
    speaker = Speaker("legacy")

    async def refuse(exchange: Exchange) -> bool:
        if exchange.is_modern:
            await exchange.error(code, "not that", status)
        return exchange.is_modern

    speaker.before = refuse
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"
        assert (await front.server())["version"] == LEGACY


async def test_a_server_that_answers_the_modern_question_with_a_web_page_is_spoken_to_in_the_legacy_way():
    speaker = Speaker("legacy")

    async def refuse(exchange: Exchange) -> bool:
        if exchange.is_modern:
            await exchange.whole(200, "text/html", b"<html>Welcome</html>")
        return exchange.is_modern

    speaker.before = refuse
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"


async def test_the_era_of_a_legacy_server_is_remembered_over_a_restart(tmp_path: Path):
    speaker = Speaker("legacy")
    async with speaking(speaker) as url:
        for _ in range(2):
            async with yard(at(url), state=str(tmp_path)) as front:
                assert await front.says(ECHO, {"text": "hello"}) == "hello"
                await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
    assert len(speaker.heard("server/discover")) == 1


@pytest.mark.parametrize(("first", "second"), [("legacy", "modern"), ("modern", "legacy")])
async def test_a_server_replaced_by_one_of_the_other_era_is_spoken_to_in_its_own_way(first: str, second: str):
    port = free_port()
    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(AsyncExitStack())
        await old.enter_async_context(speaking(Speaker(first), port))
        front = await stack.enter_async_context(yard(at(f"http://127.0.0.1:{port}/mcp")))
        assert await front.says(ECHO, {"text": "old"}) == "old"
        await old.aclose()
        await stack.enter_async_context(speaking(Speaker(second), port))
        assert await front.says(ECHO, {"text": "new"}) == "new"


async def test_a_server_that_speaks_an_unknown_revision_is_named_with_it():
    speaker = Speaker("legacy")

    async def initialize(exchange: Exchange) -> None:
        await exchange.result({"protocolVersion": "1999-01-01", "capabilities": {}})

    speaker.on["initialize"] = initialize
    async with speaking(speaker) as url, yard(at(url), list_wait=1.0) as front:
        assert await front.tools() == []
        assert "1999-01-01" in (await front.server())["reason"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_wants_other_credentials_is_named_and_not_asked_again_by_a_call(status: int):
    speaker = Speaker("modern")
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"

        async def refuse(exchange: Exchange) -> None:
            await exchange.plain(status, "no")

        speaker.on["tools/call"] = refuse
        answer = await front.call(ECHO)
        assert "'up'" in answer.error["message"]
        assert str(status) in answer.error["message"]
        assert "headers" in answer.error["message"]
    assert speaker.calls("echo") == 2


async def test_the_headers_of_the_configuration_are_sent_with_every_request_and_shown_nowhere(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level("DEBUG")
    speaker = Speaker("legacy")
    headers = {"Authorization": "Bearer sesame-open", "X-Team": "yard"}
    async with speaking(speaker) as url, yard(at(url, headers=headers)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"

        async def refuse(exchange: Exchange) -> None:
            await exchange.plain(403, "no")

        speaker.on["tools/call"] = refuse
        said = [(await front.call(ECHO)).body.decode(), json.dumps(await front.health())]
    assert all(item.headers["authorization"] == "Bearer sesame-open" for item in speaker.seen)
    assert all(item.headers["x-team"] == "yard" for item in speaker.seen)
    assert "sesame" not in "".join([*said, caplog.text])
