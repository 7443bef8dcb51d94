"""An upstream in trouble: who notices, who is told, and what is done again."""

import asyncio
import json

import pytest

from tests.faults.talk import Talk
from tests.gateway.yard import NAMES, Yard, echo, text_of
from tests.waiting import PATIENCE


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_may_be_repeated_survives_the_death_of_its_server(yard: Yard, name: str):
    gateway = await yard.start()
    assert text_of(await gateway.talk.call(echo(name), text="first")) == "first"
    yard.mood(name).become("dies-once")
    assert text_of(await gateway.talk.call(echo(name), text="again")) == "again"
    assert yard.journal(name).count("call echo again") == 2


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_must_not_be_repeated_fails_with_its_server_and_is_made_once(yard: Yard, name: str):
    gateway = await yard.start()
    write = f"mcp__{name}__write"
    assert text_of(await gateway.talk.call(write, text="first")) == "first"
    yard.mood(name).become("dies-once")
    answer = await gateway.talk.call(write, text="once")
    assert text_of(answer) is None
    assert name in json.dumps(answer)
    assert yard.journal(name).count("call write once") == 1
    assert text_of(await gateway.talk.call(write, text="after")) == "after"


@pytest.mark.parametrize("name", ["web_modern", "web_legacy"])
async def test_a_call_during_a_restart_waits_for_its_server(yard: Yard, name: str):
    """Also one that must not be repeated: it has not left yet."""
    gateway = await yard.start()
    write = f"mcp__{name}__write"
    assert text_of(await gateway.talk.call(write, text="first")) == "first"
    yard.mood(name).become("dead")
    await refused(gateway.talk, write)
    call = asyncio.create_task(Talk(gateway.port).call(write, text="waiting"))
    yard.mood(name).become("well")
    assert text_of(await call) == "waiting"


async def refused(talk: Talk, tool: str) -> None:
    """Until the gateway has noticed that a server is dead."""
    async with asyncio.timeout(PATIENCE):
        while text_of(await talk.call(tool, text="there?")) is not None:  # noqa: ASYNC110  another process
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", NAMES)
async def test_a_dead_server_is_named_everywhere(yard: Yard, name: str):
    gateway = await yard.start()
    assert text_of(await gateway.talk.call(echo(name), text="first")) == "first"
    yard.mood(name).become("dead")
    await refused(gateway.talk, echo(name))
    answer = await gateway.talk.call(echo(name), text="dead?")
    discovered = await gateway.talk.request("server/discover")
    for said in (answer, await gateway.health(), discovered["result"]["instructions"]):
        assert name in json.dumps(said)
    assert echo(name) in await gateway.tools()


async def test_a_module_that_cannot_be_imported_is_named_and_the_others_go_on(yard: Yard):
    yard.servers["broken"] = {"module": "tests.gateway.no_such_module:server"}
    gateway = await yard.start(list_wait=20.0)
    assert {echo(name) for name in NAMES} <= set(await gateway.tools())
    assert "no_such_module" in json.dumps(await gateway.health())
    assert "broken" in json.dumps(await gateway.health())


async def test_a_program_that_is_not_there_is_named_and_the_others_go_on(yard: Yard):
    yard.servers["nowhere"] = {"command": "no-such-program-anywhere"}
    gateway = await yard.start(list_wait=20.0)
    assert {echo(name) for name in NAMES} <= set(await gateway.tools())
    assert "no-such-program-anywhere" in json.dumps(await gateway.health())


async def test_a_variable_that_is_not_set_is_named_and_the_others_go_on(yard: Yard):
    yard.servers["secret"] = {"url": "http://127.0.0.1:9/${NO_SUCH_VARIABLE_ANYWHERE}"}
    gateway = await yard.start(list_wait=20.0)
    assert {echo(name) for name in NAMES} <= set(await gateway.tools())
    assert "NO_SUCH_VARIABLE_ANYWHERE" in json.dumps(await gateway.health())


async def test_two_servers_under_one_roof_do_not_wait_for_each_other(yard: Yard):
    gateway = await yard.start()
    for name in NAMES:
        await gateway.talk.call(echo(name), text="first")
    yard.mood("web_modern").become("hang-call")
    hanging = asyncio.create_task(Talk(gateway.port).call(echo("web_modern"), text="never"))
    for name in ("web_legacy", "pipe_modern", "pipe_legacy"):
        assert text_of(await gateway.talk.call(echo(name), text="meanwhile")) == "meanwhile"
    assert not hanging.done()
    answer = await hanging
    assert text_of(answer) is None
    assert "web_modern" in json.dumps(answer)
