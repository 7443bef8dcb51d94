"""The gateway as a process: how it starts, ends and is killed, and what is left of it then."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.faults.talk import Talk
from tests.faults.yard import Gateway, becomes_true, running
from tests.gateway.yard import NAMES, Yard, echo, text_of
from tests.waiting import PATIENCE


async def all_answer(gateway: Gateway) -> None:
    for name in NAMES:
        assert text_of(await gateway.talk.call(echo(name), text="hello")) == "hello"


async def test_every_upstream_answers_under_its_name(yard: Yard):
    gateway = await yard.start()
    assert {echo(name) for name in NAMES} <= set(await gateway.tools())
    await all_answer(gateway)


@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_is_called_before_anybody_lists(yard: Yard, name: str):
    gateway = await yard.start_unseen()
    assert text_of(await gateway.talk.call(echo(name), text="early")) == "early"


async def test_one_upstream_has_a_door_of_its_own_with_its_own_names(yard: Yard):
    gateway = await yard.start()
    assert await gateway.tools("/mcp/web_legacy") == ["echo", "write"]
    assert text_of(await Talk(gateway.port, "/mcp/pipe_modern").call("echo", text="bare")) == "bare"


async def test_stopping_it_ends_its_programs(yard: Yard, tmp_path: Path):
    gateway = await yard.start()
    await all_answer(gateway)
    assert len(running(tmp_path, "over_stdio")) == 2
    status, _ = await gateway.stop()
    assert status == 0, gateway.log
    assert not running(tmp_path, "over_stdio")


async def test_stopping_it_ends_programs_that_do_not_want_to_and_their_children(yard: Yard, tmp_path: Path):
    gateway = await yard.start()
    await all_answer(gateway)
    yard.all_become("hang")
    call = asyncio.create_task(gateway.talk.call(echo("pipe_legacy"), text="wake up"))
    assert await becomes_true(lambda: running(tmp_path, "signal.pause"))
    status, _ = await gateway.stop()
    assert status == 0, gateway.log
    assert await becomes_true(lambda: not running(tmp_path, "over_stdio"))
    assert await becomes_true(lambda: not running(tmp_path, "signal.pause"))
    await asyncio.gather(call, return_exceptions=True)


async def test_killing_it_ends_its_programs_too(yard: Yard, tmp_path: Path):
    gateway = await yard.start()
    await all_answer(gateway)
    await gateway.kill()
    assert await becomes_true(lambda: not running(tmp_path, "over_stdio"))


async def test_killing_it_ends_programs_that_hang_and_their_children(yard: Yard, tmp_path: Path):
    gateway = await yard.start()
    await all_answer(gateway)
    yard.all_become("hang")
    call = asyncio.create_task(gateway.talk.call(echo("pipe_modern"), text="wake up"))
    assert await becomes_true(lambda: running(tmp_path, "signal.pause"))
    await gateway.kill()
    assert await becomes_true(lambda: not running(tmp_path, "over_stdio"))
    assert await becomes_true(lambda: not running(tmp_path, "signal.pause"))
    await asyncio.gather(call, return_exceptions=True)


async def test_after_a_restart_the_list_is_there_at_once_though_nobody_answers(yard: Yard):
    gateway = await yard.start()
    listed = await gateway.tools()
    await gateway.stop()
    yard.all_become("hang")
    again = await yard.start_unseen(list_wait=3600.0)
    assert await again.tools() == listed


async def test_lists_do_not_wait_for_ever_for_servers_that_hang_from_the_start(yard: Yard):
    yard.mood("web_legacy").become("hang")
    yard.mood("pipe_modern").become("hang")
    gateway = await yard.start_unseen(list_wait=1.0)
    async with asyncio.timeout(PATIENCE):
        while not {echo("web_modern"), echo("pipe_legacy")} <= set(await gateway.tools()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    health = json.dumps(await gateway.health())
    assert "web_legacy" in health
    assert "pipe_modern" in health


@pytest.mark.parametrize("name", NAMES)
async def test_a_server_that_is_not_there_at_first_is_listed_when_it_is(yard: Yard, name: str):
    yard.mood(name).become("dead")
    gateway = await yard.start(list_wait=1.0)
    assert echo(name) not in await gateway.tools()
    yard.mood(name).become("well")
    async with asyncio.timeout(PATIENCE):
        while echo(name) not in await gateway.tools():  # noqa: ASYNC110  it is another process
            await asyncio.sleep(0.1)
    assert text_of(await gateway.talk.call(echo(name), text="late")) == "late"
