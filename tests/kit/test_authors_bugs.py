"""Whatever an author's function does, its caller gets an answer and the server goes on."""

import asyncio
import contextlib
import threading

import pytest
from msgspec import Raw

from tests.kit.calls import soon
from toolyard.kit import Context, Server, ToolResult


class Panic(BaseException):
    """As extensions written in other languages raise them."""


@pytest.fixture
def server() -> Server:
    return Server("bugs")


@pytest.mark.parametrize(
    "error", [StopIteration, KeyboardInterrupt, Panic, GeneratorExit, StopAsyncIteration]
)
async def test_a_def_tool_may_raise_anything(server: Server, error: type[BaseException]):
    @server.tool
    def broken() -> str:
        raise error

    async with server.connect() as client:
        result = await soon(client.call_tool("broken"))
    assert result["isError"]
    assert "'broken' failed unexpectedly" in result["content"][0]["text"]


@pytest.mark.parametrize("error", [Panic, SystemExit, StopIteration, asyncio.CancelledError])
async def test_so_may_an_async_one(server: Server, error: type[BaseException]):
    @server.tool
    async def broken() -> str:
        raise error

    async with server.connect() as client:
        assert (await soon(client.call_tool("broken")))["isError"]


async def test_a_task_whose_tool_panics_is_over(server: Server):
    @server.tool(long=True)
    async def broken() -> str:
        raise Panic

    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with server.connect(capabilities=tasks) as client:
        task = await client.call_tool("broken")
        while task["status"] == "working":
            await asyncio.sleep(0)
            task = await client.request("tasks/get", {"taskId": task["taskId"]})
    assert task["status"] == "completed"
    assert task["result"]["isError"]


async def test_json_the_author_had_already_comes_in_one_line(server: Server):
    @server.tool
    async def passed_on() -> ToolResult:
        return ToolResult(structured=Raw(b'{\n "a": 1\n}'))

    async with server.connect() as client:
        result = await client.call_tool("passed_on")
    assert result["structuredContent"] == {"a": 1}
    assert result["content"] == [{"type": "text", "text": '{"a":1}'}]


async def test_what_is_no_json_is_not_passed_on(server: Server):
    @server.tool
    async def passed_on() -> ToolResult:
        return ToolResult(structured=Raw(b'{"a": '))

    async with server.connect() as client:
        assert (await client.call_tool("passed_on"))["isError"]


async def test_forty_functions_may_block_at_once(server: Server):
    together = threading.Barrier(40, timeout=10)

    @server.tool
    def block() -> str:
        together.wait()
        return "through"

    async with server.connect() as client:
        results = await soon(asyncio.gather(*(client.call_tool("block") for _ in range(40))))
    assert [result["content"][0]["text"] for result in results] == ["through"] * 40


async def test_waiting_on_the_loop_is_refused_and_does_not_stop_the_server(server: Server):
    @server.tool
    async def slip(ctx: Context) -> str:
        ctx.wait(ctx.report_progress(1))
        return "never"

    async with server.connect() as client:
        assert (await soon(client.call_tool("slip")))["isError"]


async def test_closing_does_not_wait_for_a_task_that_ignores_it(server: Server):
    let_go = asyncio.Event()
    started = asyncio.Event()

    @server.tool(long=True)
    async def stubborn() -> str:
        started.set()
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()
        return "done"

    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with server.connect(capabilities=tasks) as client:
        await client.call_tool("stubborn")
        await soon(started.wait())
        await soon(server.close())
    let_go.set()
