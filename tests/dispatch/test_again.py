"""What is tried again, and what never is: counted where the calls arrive."""

import asyncio

import pytest

from tests.app.speaker import IDEMPOTENT, READ_ONLY, Exchange, Speaker, free_port, speaking, text, tool
from tests.app.yard import Yard, at, yard
from tests.serving import PATIENCE, http

TOOLS = [tool("read", **READ_ONLY), tool("put", **IDEMPOTENT), tool("write")]


def breaking(speaker: Speaker, times: int) -> None:
    """The first calls of each tool begin an answer and break off."""

    async def call(exchange: Exchange) -> None:
        if speaker.calls(exchange.name) <= times:
            await exchange.break_off()
        else:
            await exchange.result(text("done"))

    speaker.on["tools/call"] = call


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", ["read", "put"])
async def test_a_tool_that_may_run_twice_is_called_again_when_the_connection_breaks(name: str, era: str):
    speaker = Speaker(era, TOOLS)
    breaking(speaker, 1)
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(f"mcp__up__{name}") == "done"
    assert speaker.calls(name) == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_tool_that_may_not_is_called_once_and_the_error_says_what_happened(era: str):
    speaker = Speaker(era, TOOLS)
    breaking(speaker, 1)
    async with speaking(speaker) as url, yard(at(url)) as front:
        error = (await front.call("mcp__up__write")).error
        assert "'up'" in error["message"]
        assert "broke" in error["message"]
        assert await front.says("mcp__up__write") == "done"
    assert speaker.calls("write") == 2


@pytest.mark.parametrize("hints", [{"readOnlyHint": "yes"}, {"readOnlyHint": False}, {}, None])
async def test_only_a_plain_yes_makes_a_tool_one_that_may_run_twice(hints: object):
    speaker = Speaker("modern", [tool("odd", annotations=hints)])
    breaking(speaker, 1)
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert "error" in (await front.call("mcp__up__odd")).json
    assert speaker.calls("odd") == 1


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_it_is_tried_again_as_often_as_configured(retries: int):
    speaker = Speaker("modern", TOOLS)
    breaking(speaker, 100)
    async with speaking(speaker) as url, yard(at(url, retries=retries)) as front:
        assert "error" in (await front.call("mcp__up__read")).json
    assert speaker.calls("read") == 1 + retries


async def test_it_is_not_tried_again_when_no_time_is_left():
    speaker = Speaker("modern", TOOLS)
    go_on = asyncio.Event()

    async def call(exchange: Exchange) -> None:
        await go_on.wait()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, timeout=0.3, retries=5)) as front:
        answer = await front.call("mcp__up__read")
        go_on.set()
        assert "0.3 s" in answer.error["message"]
    assert speaker.calls("read") == 1


async def test_a_call_that_never_left_is_made_when_its_server_is_back_whatever_the_tool():
    port = free_port()
    speaker = Speaker("modern", TOOLS)
    async with yard(at(f"http://127.0.0.1:{port}/mcp"), list_wait=0.1) as front:
        async with speaking(Speaker("modern", TOOLS), port):
            await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
        call = asyncio.create_task(front.says("mcp__up__write", {"text": "once"}))
        await front.until_health(lambda health: health["servers"]["up"]["in_flight"] == 1)
        async with speaking(speaker, port):
            assert await asyncio.wait_for(call, PATIENCE) == "once"
    assert speaker.calls("write") == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_call_turned_away_for_now_is_made_again_whatever_the_tool(status: int):
    speaker = Speaker("modern", TOOLS)

    async def call(exchange: Exchange) -> None:
        if speaker.calls("write") == 1:
            await exchange.plain(status, "later", retry_after="0")
        else:
            await exchange.result(text("done"))

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says("mcp__up__write") == "done"
    assert speaker.calls("write") == 2


@pytest.mark.parametrize("status", [401, 403, 410])
async def test_a_refusal_is_not_tried_again_even_for_a_tool_that_may_run_twice(status: int):
    speaker = Speaker("modern", TOOLS)

    async def call(exchange: Exchange) -> None:
        await exchange.plain(status, "no")

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, timeout=2)) as front:
        assert str(status) in (await front.call("mcp__up__read")).error["message"]
    assert speaker.calls("read") == 1


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415])
async def test_a_refusal_in_the_way_of_another_era_is_tried_once_more_after_asking_for_the_era(status: int):
    speaker = Speaker("modern", TOOLS)

    async def call(exchange: Exchange) -> None:
        await exchange.plain(status, "what?")

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, timeout=3)) as front:
        assert str(status) in (await front.call("mcp__up__write")).error["message"]
    assert speaker.calls("write") == 2
    assert len(speaker.heard("server/discover")) <= 3


@pytest.mark.parametrize(("name", "times"), [("read", 2), ("write", 1)])
async def test_a_server_error_is_tried_again_only_for_a_tool_that_may_run_twice(name: str, times: int):
    speaker = Speaker("modern", TOOLS)

    async def call(exchange: Exchange) -> None:
        if speaker.calls(name) == 1:
            await exchange.plain(500, "oh")
        else:
            await exchange.result(text("done"))

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.call(f"mcp__up__{name}")
    assert speaker.calls(name) == times


async def test_reads_of_resources_and_prompts_are_tried_again():
    speaker = Speaker("modern")
    speaker.capabilities |= {"resources": {}, "prompts": {}}
    results = {
        "resources/list": {"resources": [{"uri": "a://1", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": []},
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "resources/read": {"contents": [{"uri": "a://1", "text": "one"}]},
        "prompts/get": {"messages": []},
    }

    async def answer(exchange: Exchange) -> None:
        if exchange.method in ("resources/read", "prompts/get") and len(speaker.heard(exchange.method)) == 1:
            await exchange.break_off()
        else:
            await exchange.result(results[exchange.method])

    speaker.on = dict.fromkeys(results, answer)
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.tools()
        read = await front.modern("resources/read", {"uri": "a://1"})
        assert read.result["contents"][0]["text"] == "one"
        assert (await front.modern("prompts/get", {"name": "mcp__up__greet"})).result["messages"] == []
    assert len(speaker.heard("resources/read")) == len(speaker.heard("prompts/get")) == 2


async def test_what_was_tried_again_is_counted():
    speaker = Speaker("modern", TOOLS)
    breaking(speaker, 1)
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.says("mcp__up__read")
        page = await metrics(front)
    (line,) = [line for line in page.splitlines() if "retries" in line and not line.startswith("#")]
    assert 'server="up"' in line
    assert line.endswith(" 1")


async def metrics(front: Yard) -> str:
    asked = http("GET", "/metrics", host=f"127.0.0.1:{front.client.port}")
    return (await front.client.raw(asked)).body.decode()
