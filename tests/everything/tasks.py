"""Tools that become tasks for clients that declare the tasks extension, and one that never does."""

import asyncio
from typing import Annotated

import msgspec

from tests.everything.asking import NAME, form
from toolyard.kit import Context, Elicit, Long, Server, ToolError
from toolyard.wire.errors import McpError

CONFIRM = form(confirm={"type": "boolean"})


def add_task_tools(server: Server) -> None:
    @server.tool
    def greet(name: str) -> str:
        """Greets at once."""
        return f"Hello, {name}!"

    @server.tool(long=True)
    async def slow_compute(seconds: Annotated[float, msgspec.Meta(ge=0)], label: str = "") -> str:
        """Takes as many seconds as it is told."""
        await asyncio.sleep(seconds)
        return f"Computed {label!r} in {seconds:g} s"

    @server.tool(long=Long(required=True))
    async def failing_job() -> str:
        """Runs for a second and reports an error of its own."""
        await asyncio.sleep(1)
        raise ToolError("The job failed on purpose")

    @server.tool(long=True)
    async def protocol_error_job() -> str:
        """Ends in an error of the protocol."""
        raise McpError(-32603, "The job broke on purpose")

    @server.tool(long=True)
    async def confirm_delete(filename: str, ctx: Context) -> str:
        """Asks before it deletes (nothing)."""
        answer = await ctx.elicit(f"Delete {filename}?", CONFIRM, key="confirm")
        deleted = answer.accepted and answer.content["confirm"]
        return f"{'Deleted' if deleted else 'Kept'} {filename}"

    @server.tool(long=True)
    async def multi_input(ctx: Context) -> str:
        """Asks two questions at the same time."""
        answers = await ctx.ask(
            user_name=Elicit("What is your name?", NAME), confirm=Elicit("Please confirm", CONFIRM)
        )
        return f"Answered: {', '.join(f'{key} {answer.action}' for key, answer in answers.items())}"

    @server.tool(long=Long(required=True, detach="by_hand"))
    async def test_tool_with_task(ctx: Context) -> str:
        """Asks for a name in the call itself, then goes on as a task."""
        answer = await ctx.elicit("What is your name?", NAME, key="user_name")
        await ctx.detach()
        return f"Hello, {answer.content['name']}!" if answer.accepted else "Hello, whoever you are!"
