"""Time limits, how many calls at a time, and the breaker."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.app.speaker import Exchange, Speaker, free_port, speaking, text, tool
from tests.app.yard import at, yard
from tests.serving import PATIENCE
from toolyard.config import Http, ServerConfig
from toolyard.dispatch import mount
from toolyard.dispatch.mount import Breaker
from toolyard.upstream.errors import UpstreamDownError

ECHO = "mcp__up__echo"
ELICITATION = {"elicitation": {}}
QUESTION = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}


def holding(speaker: Speaker) -> list[Exchange]:
    """Have its calls wait until their client hangs up; those that did."""
    left: list[Exchange] = []

    async def hold(exchange: Exchange) -> None:
        if await speaker.held(exchange):
            left.append(exchange)

    speaker.on["tools/call"] = hold
    return left


# Time


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_takes_too_long_fails_with_the_name_of_its_server_and_the_limit(era: str):
    speaker = Speaker(era)
    left = holding(speaker)
    async with speaking(speaker) as url, yard(at(url, timeout=0.3)) as front:
        error = (await front.call(ECHO)).error
        assert "'up'" in error["message"]
        assert "0.3 s" in error["message"]
        assert error["data"]["server"] == "up"
        await speaker.until(lambda: left)
        if era == "legacy":
            cancelled = await speaker.until_heard("notifications/cancelled")
            assert cancelled.params["requestId"] == left[0].id
    assert speaker.calls("echo") == 1


async def test_the_time_limit_stands_still_while_a_legacy_user_is_asked():
    speaker = Speaker("legacy")

    async def ask(exchange: Exchange) -> None:
        await exchange.stream()
        answer = await speaker.ask(exchange, "elicitation/create", QUESTION)
        await exchange.event(exchange.reply(text(answer["result"]["action"])))
        await exchange.end()

    speaker.on["tools/call"] = ask
    async with speaking(speaker) as url, yard(at(url, timeout=2.0)) as front:
        session = await front.legacy(ELICITATION)
        line = await session.open_call(ECHO)
        question = await line.next_message()
        # A user takes longer than the limit. Nothing happens meanwhile that could be waited for.
        await asyncio.sleep(2.5)
        await session.respond(question["id"], {"action": "accept"})
        assert (await line.next_message())["result"]["content"][0]["text"] == "accept"


async def test_the_time_limit_goes_on_when_the_user_has_answered():
    speaker = Speaker("legacy")

    async def ask(exchange: Exchange) -> None:
        await exchange.stream()
        await speaker.ask(exchange, "elicitation/create", QUESTION)
        await speaker.held(exchange)

    speaker.on["tools/call"] = ask
    async with speaking(speaker) as url, yard(at(url, timeout=0.5)) as front:
        session = await front.legacy(ELICITATION)
        line = await session.open_call(ECHO)
        question = await line.next_message()
        await session.respond(question["id"], {"action": "accept"})
        assert "0.5 s" in (await line.next_message())["error"]["message"]


# How many at a time


async def test_no_more_calls_than_agreed_are_under_way_and_the_others_wait_their_turn():
    speaker = Speaker("modern")
    go_on = asyncio.Semaphore(0)
    most = running = 0

    async def call(exchange: Exchange) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await go_on.acquire()
        running -= 1
        await exchange.result(text("done"))

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, concurrency=2)) as front:
        await front.tools()
        calls = [asyncio.create_task(front.says(ECHO)) for _ in range(7)]
        await speaker.until_heard("tools/call", 2)
        for done in range(7):
            go_on.release()
            await speaker.until_heard("tools/call", min(7, done + 3))
        assert await asyncio.gather(*calls) == ["done"] * 7
    assert most == 2


async def test_the_queue_of_a_busy_server_has_an_end():
    speaker = Speaker("modern")
    go_on = asyncio.Event()

    async def call(exchange: Exchange) -> None:
        await go_on.wait()
        await exchange.result(text("done"))

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, concurrency=1, retries=0)) as front:
        await front.tools()
        room = 1 + mount.WAITING_PER_SLOT
        calls = [asyncio.create_task(front.call(ECHO)) for _ in range(room + 1)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        assert len(done) == 1
        refused = done.pop().result()
        assert "too many calls" in refused.error["message"]
        assert "'up'" in refused.error["message"]
        go_on.set()
        answers = await asyncio.gather(*waiting)
        assert all(answer.result for answer in answers)


async def test_a_call_that_gives_up_waiting_leaves_its_place_to_others():
    speaker = Speaker("modern")
    left = holding(speaker)
    async with speaking(speaker) as url, yard(at(url, concurrency=1, timeout=0.4)) as front:
        await front.tools()
        answers = await asyncio.gather(*(front.call(ECHO) for _ in range(3)))
        assert ["0.4 s" in answer.error["message"] for answer in answers] == [True] * 3, answers
        await speaker.until(lambda: left)
        del speaker.on["tools/call"]
        assert (await front.server())["in_flight"] == 0
        assert await front.says(ECHO, {"text": "free"}) == "free"


async def test_a_call_whose_user_is_asked_lends_its_slot_and_has_it_back_before_others_begin():
    speaker = Speaker("legacy")
    go_on = asyncio.Event()
    seen: list[str] = []

    async def call(exchange: Exchange) -> None:
        said = exchange.params["arguments"]["text"]
        seen.append(said)
        await exchange.stream()
        if said == "ask":
            await speaker.ask(exchange, "elicitation/create", QUESTION)
            seen.append("answered")
        if said == "hold":
            await go_on.wait()
        await exchange.event(exchange.reply(text(said)))
        await exchange.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, concurrency=1, timeout=5.0)) as front:
        session = await front.legacy(ELICITATION)
        asking = await session.open_call(ECHO, text="ask")
        question = await asking.next_message()
        assert await front.says(ECHO, {"text": "meanwhile"}) == "meanwhile"
        holding = asyncio.create_task(front.says(ECHO, {"text": "hold"}))
        await speaker.until(lambda: "hold" in seen)
        late = asyncio.create_task(front.says(ECHO, {"text": "late"}))
        assert (await front.server())["in_flight"] == 2
        await session.respond(question["id"], {"action": "accept"})
        assert "answered" not in seen
        go_on.set()
        assert (await asking.next_message())["result"]["content"][0]["text"] == "ask"
        assert await asyncio.gather(holding, late) == ["hold", "late"]
    assert seen == ["ask", "meanwhile", "hold", "answered", "late"]


async def test_a_call_that_ends_while_its_user_is_asked_takes_no_slot_back():
    speaker = Speaker("legacy")

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        if exchange.params["arguments"]["text"] == "ask":
            await speaker.ask(exchange, "elicitation/create", QUESTION)
        await exchange.event(exchange.reply(text("done")))
        await exchange.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, concurrency=1, timeout=5.0)) as front:
        session = await front.legacy(ELICITATION)
        for _ in range(3):
            line = await session.open_call(ECHO, id="asking", text="ask")
            question = await line.next_message()
            await session.notify("notifications/cancelled", {"requestId": "asking"})
            await speaker.until_heard("notifications/cancelled")
            await session.respond(question["id"], {"action": "accept"})
        assert [await front.says(ECHO, {"text": "other"}) for _ in range(3)] == ["done"] * 3
        assert (await front.server())["in_flight"] == 0


# The breaker


async def test_after_some_failures_calls_are_refused_at_once_until_a_probe_finds_it_well(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(mount, "GRACE_SECONDS", 0.0)
    speaker = Speaker("modern")
    well = True

    async def fail(exchange: Exchange) -> bool:
        if not well:
            await exchange.break_off()
        return not well

    speaker.before = fail
    async with speaking(speaker) as url, yard(at(url, retries=0)) as front:
        assert await front.says(ECHO, {"text": "well"}) == "well"
        well = False
        for _ in range(mount.THRESHOLD):
            assert "error" in (await front.call(ECHO)).json
        before = speaker.calls("echo")
        refused = (await front.call(ECHO)).error["message"]
        assert "'up'" in refused
        assert "is down" in refused
        assert "the gateway keeps trying" in refused
        assert speaker.calls("echo") == before
        health = await front.health()
        assert health["status"] == "degraded"
        assert health["servers"]["up"]["state"] == "down"
        well = True
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
        assert await front.says(ECHO, {"text": "back"}) == "back"


async def test_errors_that_a_server_says_itself_do_not_count_against_it():
    speaker = Speaker("modern")

    async def refuse(exchange: Exchange) -> None:
        await exchange.error(-32602, "not these arguments", 400)

    speaker.on["tools/call"] = refuse
    async with speaking(speaker) as url, yard(at(url)) as front:
        for _ in range(mount.THRESHOLD + 2):
            error = (await front.call(ECHO)).error
            assert (error["code"], error["message"]) == (-32602, "not these arguments")
        assert (await front.health())["status"] == "ok"


async def test_a_call_to_one_that_was_well_a_moment_ago_waits_while_it_restarts():
    port = free_port()
    async with yard(at(f"http://127.0.0.1:{port}/mcp"), list_wait=0.1) as front:
        async with speaking(Speaker("modern"), port):
            await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
            assert await front.says(ECHO, {"text": "before"}) == "before"
        call = asyncio.create_task(front.says(ECHO, {"text": "meanwhile"}))
        await front.until_health(lambda health: health["servers"]["up"]["in_flight"] == 1)
        async with speaking(Speaker("modern"), port):
            assert await asyncio.wait_for(call, PATIENCE) == "meanwhile"


async def test_a_call_to_one_that_was_never_there_fails_with_the_reason_within_its_time():
    server = at(f"http://127.0.0.1:{free_port()}/mcp", timeout=3)
    async with yard(server, list_wait=1.0) as front:
        refused = (await front.call(ECHO)).error
        assert "it is down, so 'mcp__up__echo' is not known: cannot be reached" in refused["message"]
        assert refused["data"]["server"] == "up"
        answer = await front.call("echo", path="/mcp/up")
        assert "'up'" in answer.error["message"]
        assert "onnect" in answer.error["message"]


def reporting_breaker() -> tuple[Breaker, list[tuple[str, bool]]]:
    """A breaker, and what it reports."""
    told: list[tuple[str, bool]] = []
    return Breaker("up", lambda reason, opened: told.append((reason, opened))), told


def test_a_breaker_opens_after_failures_in_a_row_only():
    tested, told = reporting_breaker()
    for _ in range(3):
        for _ in range(mount.THRESHOLD - 1):
            tested.failed("broken")
        tested.answered()
    assert not tested.is_open
    assert len(told) == 3 * (mount.THRESHOLD - 1)
    assert not any(opened for _, opened in told)
    tested.check()


def test_a_breaker_gives_one_that_was_well_a_grace_and_then_opens(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr("toolyard.dispatch.mount.time.monotonic", lambda: now)
    tested, told = reporting_breaker()
    tested.well()
    for _ in range(2 * mount.THRESHOLD):
        tested.failed("restarting")
    assert not tested.is_open
    now += mount.GRACE_SECONDS
    tested.failed("gone")
    assert told[-1] == ("gone", True)
    with pytest.raises(UpstreamDownError, match="'up': it is down: gone"):
        tested.check()
    tested.answered()
    assert tested.is_open, "an answer that was on its way for long says nothing about now"
    tested.well()
    tested.check()


def test_a_breaker_gives_one_that_was_never_well_no_grace():
    tested = Breaker("up")
    tested.unwell("not there")
    assert tested.is_open


def test_a_server_has_a_breaker_of_its_own():
    first = mount.Mount(ServerConfig(name="a", where=Http(url="http://a")), None, "http")  # type: ignore[arg-type]
    second = mount.Mount(ServerConfig(name="b", where=Http(url="http://b")), None, "http")  # type: ignore[arg-type]
    first.breaker.unwell("gone")
    assert first.breaker.is_open
    assert not second.breaker.is_open


async def test_tools_of_one_that_is_down_stay_listed_and_those_of_others_work():
    port = free_port()
    good = Speaker("modern", [tool("fine")])
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(speaking(good))
        bad = await stack.enter_async_context(AsyncExitStack())
        await bad.enter_async_context(speaking(Speaker("modern"), port))
        servers = at(f"http://127.0.0.1:{port}/mcp", "bad"), at(url, "good")
        front = await stack.enter_async_context(yard(*servers))
        assert await front.tools() == ["mcp__bad__echo", "mcp__good__fine"]
        await bad.aclose()
        await front.until_health(lambda health: "reason" in health["servers"]["bad"])
        assert await front.tools() == ["mcp__bad__echo", "mcp__good__fine"]
        assert await front.says("mcp__good__fine", {"text": "well"}) == "well"
