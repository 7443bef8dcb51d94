"""Whatever an author's function does, its caller gets an answer and the server goes on."""

import asyncio
import contextlib
import functools
import threading
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.kit.calls import soon
from toolyard import Client
from toolyard.client import Elicitation
from toolyard.edge.stdio import Duplex
from toolyard.kit import Context, Identity, McpError, Principal, Server, Text, ToolResult


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

    async with Client(server) as client:
        result = (await soon(client.call_tool("broken"))).raw
    assert result["isError"]
    assert "'broken' failed unexpectedly" in result["content"][0]["text"]


@pytest.mark.parametrize("error", [Panic, SystemExit, StopIteration, GeneratorExit, asyncio.CancelledError])
async def test_so_may_an_async_one(server: Server, error: type[BaseException]):
    @server.tool
    async def broken() -> str:
        raise error

    async with Client(server) as client:
        assert (await soon(client.call_tool("broken"))).raw["isError"]


async def test_a_task_whose_tool_panics_is_over(server: Server):
    @server.tool(long=True)
    async def broken() -> str:
        raise Panic

    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with Client(server, capabilities=tasks) as client:
        task = await client.request("tools/call", {"name": "broken"}, tasks=True)
        while task["status"] == "working":
            await asyncio.sleep(0)
            task = await client.request("tasks/get", {"taskId": task["taskId"]})
    assert task["status"] == "completed"
    assert task["result"]["isError"]


async def test_json_the_author_had_already_comes_in_one_line(server: Server):
    @server.tool
    async def passed_on() -> ToolResult:
        return ToolResult(structured=Raw(b'{\n "a": 1\n}'))

    async with Client(server) as client:
        result = (await client.call_tool("passed_on")).raw
    assert result["structuredContent"] == {"a": 1}
    assert result["content"] == [{"type": "text", "text": '{"a":1}'}]


async def test_what_is_no_json_is_not_passed_on(server: Server):
    @server.tool
    async def passed_on() -> ToolResult:
        return ToolResult(structured=Raw(b'{"a": '))

    async with Client(server) as client:
        assert (await client.call_tool("passed_on")).raw["isError"]


async def test_forty_functions_may_block_at_once(server: Server):
    together = threading.Barrier(40, timeout=10)

    @server.tool
    def block() -> str:
        together.wait()
        return "through"

    async with Client(server) as client:
        results = await soon(asyncio.gather(*(client.call_tool("block") for _ in range(40))))
    assert [result.text for result in results] == ["through"] * 40


async def test_waiting_on_the_loop_is_refused_and_does_not_stop_the_server(server: Server):
    @server.tool
    async def slip(ctx: Context) -> str:
        ctx.wait(ctx.report_progress(1))
        return "never"

    async with Client(server) as client:
        assert (await soon(client.call_tool("slip"))).raw["isError"]


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
    async with Client(server, capabilities=tasks) as client:
        await client.request("tools/call", {"name": "stubborn"}, tasks=True)
        await soon(started.wait())
        await soon(server.close())
    let_go.set()


async def test_text_that_is_no_unicode_arrives_with_marks_in_it(server: Server):
    @server.tool
    async def names() -> list[Text | str]:
        return ["caf\udce9", Text("\ud800!")]

    @server.resource("file://name")
    async def name() -> str:
        return "caf\udce9"

    async with Client(server) as client:
        result = (await client.call_tool("names")).raw
        assert [block["text"] for block in result["content"]] == ["caf?", "?!"]
        assert (await client.read_resource("file://name")).raw["contents"][0]["text"] == "caf?"


async def test_an_async_function_behind_an_ordinary_decorator_is_awaited(server: Server):
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @server.tool
    @logged
    async def double(n: int) -> int:
        return n * 2

    async with Client(server) as client:
        assert (await client.call_tool("double", {"n": 2})).raw["structuredContent"] == {"result": 4}


@pytest.mark.parametrize("returned", ["abc", [1, 2], None, 5])
async def test_a_completion_of_the_wrong_form_is_an_error(server: Server, returned: Any):
    @server.prompt
    def greet(name: str) -> str:
        return name

    @server.completion(prompt="greet", argument="name")
    def names(value: str, context: dict[str, str]) -> Any:
        return returned

    params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}}
    async with Client(server) as client:
        with pytest.raises(McpError) as error:
            await client.request("completion/complete", params)
    assert error.value.code == -32603


async def test_a_tool_may_be_the_client_of_another_server_and_pass_its_questions_on(server: Server):
    inner = Server("inner")

    @inner.tool
    async def who(ctx: Context) -> str:
        answer = await ctx.elicit(
            "Your name?", {"type": "object", "properties": {"name": {"type": "string"}}}
        )
        return f"It is {answer.content['name']}"

    @server.tool
    async def ask_inside(ctx: Context) -> str:
        async def pass_on(question: Elicitation) -> dict[str, Any]:
            answer = await ctx.elicit(question.message, question.schema or {})
            return {"action": answer.action, "content": answer.content}

        async with Client(inner, era="legacy", on_elicit=pass_on) as client:
            return (await client.call_tool("who")).raw["content"][0]["text"]

    def answer(question: Elicitation) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": "Ada"}}

    async with Client(server, on_elicit=answer) as client:
        assert (await client.call_tool("ask_inside")).raw["content"][0]["text"] == "It is Ada"


def test_tenants_and_agents_do_not_run_into_each_other():
    assert Identity(Principal("acme/eu", "bot")).principal != Identity(Principal("acme", "eu/bot")).principal


@pytest.mark.parametrize("long", [False, True])
async def test_an_error_whose_data_cannot_be_sent_is_an_error_all_the_same(server: Server, long: bool):
    @server.tool(long=long)
    async def broken() -> str:
        raise McpError(-32000, "caf\udce9", data=object())

    sent: list[bytes] = []
    arrived = asyncio.Event()

    async def write(body: bytes) -> None:
        sent.append(body)
        arrived.set()

    duplex = Duplex(server.service, write)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "broken", "_meta": meta}}
    await duplex.receive(msgspec.json.encode(call))
    await soon(arrived.wait())
    await duplex.close(0)
    assert b'"error"' in sent[0]


def test_an_error_needs_a_number():
    with pytest.raises(TypeError, match="integer"):
        McpError("nope", "text")  # type: ignore[arg-type]
