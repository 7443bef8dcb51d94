"""What is left of a gateway that was closed: nothing."""

import asyncio
import gc
import os
import sys
from pathlib import Path

import pytest

from tests.app.speaker import Exchange, Speaker, free_port, speaking
from tests.app.yard import KEY, at, yard
from tests.serving import PATIENCE, modern
from toolyard.app import Gateway
from toolyard.config import Config, GatewayConfig, ServerConfig, Stdio

ROOT = Path(__file__).parents[2]


def descriptors() -> set[str]:
    gc.collect()
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the one that lists them
            continue
    return found


def children() -> set[int]:
    task = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for each in task.iterdir() for pid in (each / "children").read_text().split()}


def program(folder: Path, name: str = "pipe") -> ServerConfig:
    args = ("-m", "tests.app.program", str(folder / "journal"))
    return ServerConfig(name=name, where=Stdio(command=sys.executable, args=args, cwd=str(ROOT)))


async def use(*servers: ServerConfig) -> None:
    async with yard(*servers, list_wait=2.0) as front:
        for tool in ("mcp__a__echo", "mcp__b__echo", "mcp__pipe__echo"):
            assert await front.says(tool, {"text": tool}) == tool
        await front.listen(toolsListChanged=True)
        await (await front.legacy({"elicitation": {}})).call("mcp__pipe__echo")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at /proc")
async def test_nothing_is_left_of_a_gateway_that_was_used(tmp_path: Path):
    legacy, modern_one = Speaker("legacy"), Speaker("modern")
    async with speaking(legacy) as a, speaking(modern_one) as b:
        dead = at(f"http://127.0.0.1:{free_port()}/mcp", "dead")
        servers = (at(a, "a"), at(b, "b"), program(tmp_path), dead)
        # What is there once for the whole process is there after the first; the second leaves nothing.
        await use(*servers)
        processes, files, tasks = children(), descriptors(), asyncio.all_tasks()
        await use(*servers)
        assert children() <= processes
        await legacy.until(lambda: not legacy.listeners)
        await modern_one.until(lambda: not modern_one.listeners)
        assert not {task for task in asyncio.all_tasks() - tasks if "run_asgi" not in repr(task)}
        # Sockets of the servers in this process close when they notice; all else is closed by now.
        assert not {name for name in descriptors() - files if not name.startswith("socket")}


async def test_what_was_read_last_is_on_disk_when_the_gateway_has_closed(tmp_path: Path):
    async with speaking(Speaker("modern")) as url:
        for number in range(5):
            folder = tmp_path / str(number)
            settings = GatewayConfig(view="all", state_dir=str(folder))
            gateway = Gateway(Config(servers=(at(url),), gateway=settings), KEY)
            await gateway.start()
            await gateway.catalogue.wait_settled(PATIENCE)
            await gateway.close()
            assert list((folder / "catalogue").glob("*.json"))


async def test_closing_does_not_wait_for_calls_under_way():
    speaker = Speaker("modern")

    async def hold(exchange: Exchange) -> None:
        await speaker.held(exchange)

    speaker.on["tools/call"] = hold
    async with speaking(speaker) as url:
        async with yard(at(url)) as front:
            await front.tools()
            calling = asyncio.create_task(front.call("mcp__up__echo"))
            await speaker.until_heard("tools/call")
        # Here it is closed, and the call it had under way has not been answered, nor ever will be.
        await asyncio.gather(calling, return_exceptions=True)


async def test_a_gateway_that_was_never_used_closes_too(tmp_path: Path):
    before = asyncio.all_tasks()
    config = Config(servers=(program(tmp_path),), gateway=GatewayConfig(view="all", state_dir=str(tmp_path)))
    never_started = Gateway(config, KEY)
    await never_started.close()
    just_started = Gateway(config, KEY)
    await just_started.start()
    await just_started.close()
    assert asyncio.all_tasks() == before


async def test_a_gateway_without_servers_serves_nothing_and_says_so():
    async with yard() as front:
        assert await front.tools() == []
        health = await front.health()
        assert health["status"] == "ok"
        assert health["servers"] == {}
        headers, message = modern("server/discover")
        assert (await front.client.post(headers, message)).result["capabilities"] == {
            "tools": {"listChanged": True}
        }


async def test_closing_while_a_server_is_being_reached_leaves_nothing():
    speaker = Speaker("modern")

    async def hold(exchange: Exchange) -> bool:
        await speaker.held(exchange)
        return True

    speaker.before = hold
    async with speaking(speaker) as url, yard(at(url)):
        await speaker.until_heard("server/discover")
