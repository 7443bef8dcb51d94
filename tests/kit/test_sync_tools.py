"""`def` functions run in a thread: the loop goes on, they can wait for what is async, and be told to stop."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.kit.calls import NAME, TASKS, Inbox, Steps, accept, soon, text_of
from toolyard import Client
from toolyard.kit import Cancelled, Context, Server, ToolError


class Thread:
    """Follows and leads a function in a thread, from the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.go = threading.Event()
        self.seen: list[Any] = []

    def tell(self, event: asyncio.Event) -> None:
        self._loop.call_soon_threadsafe(event.set)


@pytest.fixture
async def thread() -> AsyncIterator[Thread]:
    thread = Thread()
    yield thread
    thread.go.set()  # a failed test must not leave it waiting


async def test_a_def_tool_runs_beside_the_loop(server: Server, thread: Thread) -> None:
    @server.tool
    def block() -> bool:
        thread.tell(thread.started)
        return thread.go.wait(10)

    @server.tool
    async def release() -> None:
        thread.go.set()

    async with Client(server) as client:
        blocked = asyncio.create_task(client.call_tool("block"))
        await soon(thread.started.wait())
        await client.call_tool("release")
        assert (await soon(blocked)).structured == {"result": True}


async def test_prompts_resources_and_completions_may_be_def_too(server: Server) -> None:
    main = threading.get_ident()

    @server.prompt
    def hello() -> str:
        return str(threading.get_ident() != main)

    @server.resource("a://b")
    def read() -> str:
        return str(threading.get_ident() != main)

    @server.completion(prompt="hello", argument="name")
    def names(value: str, context: dict[str, str]) -> list[str]:
        return [str(threading.get_ident() != main)]

    async with Client(server) as client:
        prompt = (await client.get_prompt("hello")).raw
        (contents,) = (await client.read_resource("a://b")).raw["contents"]
        request = {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": ""}}
        completion = await client.request("completion/complete", request)
    assert prompt["messages"][0]["content"]["text"] == "True"
    assert contents["text"] == "True"
    assert completion["completion"]["values"] == ["True"]


async def test_a_def_tool_waits_for_what_is_async(server: Server, era: Any) -> None:
    @server.tool
    def greet(ctx: Context) -> str:
        ctx.wait(ctx.report_progress(1, message="asking"))
        answer = ctx.wait(ctx.elicit("Your name?", NAME))
        return f"Hello {answer.content['name']}"

    inbox = Inbox()
    async with Client(
        server, era=era, on_elicit=lambda _: accept(name="Ada"), on_notification=inbox
    ) as client:
        assert text_of((await client.call_tool("greet")).raw) == "Hello Ada"
    assert inbox.of("notifications/progress")[0]["message"] == "asking"


async def test_an_error_of_what_it_waits_for_is_raised_in_the_thread(server: Server) -> None:
    @server.tool
    def careful(ctx: Context) -> str:
        try:
            ctx.wait(ctx.elicit("Your name?", NAME))
        except ToolError as error:
            return f"went on: {error}"
        return "answered"

    async with Client(server, era="legacy") as client:
        assert text_of((await client.call_tool("careful")).raw).startswith("went on: The client must declare")


async def test_a_def_tool_sees_that_its_caller_has_gone(server: Server, thread: Thread) -> None:
    @server.tool
    def work(ctx: Context) -> str:
        thread.seen.append(ctx.cancelled)
        thread.tell(thread.started)
        try:
            while not thread.go.wait(0.002):
                ctx.raise_if_cancelled()
        except Cancelled:
            thread.seen.append(ctx.cancelled)
            thread.tell(thread.ended)
        return "stopped"

    async with Client(server) as client:
        call = asyncio.create_task(client.call_tool("work"))
        await soon(thread.started.wait())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await soon(thread.ended.wait())
    assert thread.seen == [False, True]


async def test_a_def_tool_that_waits_comes_back_when_its_call_is_cancelled(
    server: Server, thread: Thread
) -> None:
    asked = asyncio.Event()

    @server.tool
    def greet(ctx: Context) -> str:
        try:
            ctx.wait(ctx.elicit("Your name?", NAME))
        except Cancelled:
            thread.seen.append("cancelled")
        finally:
            thread.tell(thread.ended)
        return "unheard"

    async def never(_: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with Client(server, era="legacy", on_elicit=never) as client:
        call = asyncio.create_task(client.call_tool("greet"))
        await soon(asked.wait())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await soon(thread.ended.wait())
    assert thread.seen == ["cancelled"]


async def test_a_def_tool_in_a_task_comes_back_when_the_task_is_cancelled(
    server: Server, thread: Thread
) -> None:
    @server.tool(long=True)
    def greet(ctx: Context) -> str:
        try:
            return ctx.wait(ctx.elicit("Your name?", NAME)).action
        finally:
            thread.tell(thread.ended)

    client = Steps(server, TASKS | {"elicitation": {}})
    task = await client.call("greet")
    async with client.listening(taskIds=[task["taskId"]]):
        await client.inbox.until("notifications/tasks", status="input_required")
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        await soon(thread.ended.wait())
