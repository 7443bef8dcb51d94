"""Servers as strangers write them, on FastMCP and on the `mcp` SDK: they ask, log, report and change.

`python -m tests.clients.others fastmcp` (or `sdk`) serves one on stdio. Both have the same tools by name, and
each does them in the way that its library recommends.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import fastmcp
import mcp_types as types
from fastmcp import FastMCP
from mcp.server import mcpserver
from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel

from tests.clients.yard import ENVIRONMENT as OURS
from tests.connections.foreign import starlette
from tests.stores import free_port

ENVIRONMENT = OURS | {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_LOG_ENABLED": "false"}
SHELF = "shelf://all"


class Name(BaseModel):
    name: str


def late() -> str:
    """Was not there at first."""
    return "better late"


def who() -> types.InputRequiredResult:
    """End the call with a question, as the modern era has it."""
    params = types.ElicitRequestFormParams(message="Who comes?", requested_schema=Name.model_json_schema())
    return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=params)})


def booked(answers: types.InputResponses) -> str:
    answer = answers["who"]
    assert isinstance(answer, types.ElicitResult)
    return f"Booked: {answer.action}, {answer.content}"


def on_fastmcp() -> FastMCP:
    server, shelf = FastMCP("others", version="1", instructions="Ask before you book."), ["rose"]

    @server.tool(annotations={"readOnlyHint": True}, tags={"manners"})
    async def greet(ctx: fastmcp.Context) -> str:
        """Ask in the middle of the call."""
        answer = await ctx.elicit("What is your name?", Name)
        return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action

    @server.tool
    async def book(ctx: fastmcp.Context) -> str | types.InputRequiredResult:
        """Ask by ending the call."""
        return booked(ctx.input_responses) if ctx.input_responses else who()

    @server.tool
    async def walk(ctx: fastmcp.Context) -> dict[str, int]:
        """Log and report."""
        await ctx.debug("a detail")
        await ctx.info("left", logger_name="feet", extra={"cm": 70})
        await ctx.report_progress(1, 2, "left")
        await ctx.warning("right")
        await ctx.report_progress(2, 2)
        return {"steps": 2}

    @server.tool
    async def learn(ctx: fastmcp.Context) -> str:
        """Add a tool, and to a resource."""
        server.add_tool(late)
        shelf.append("lily")
        await ctx.send_notification(types.ToolListChangedNotification())
        return "learnt"

    @server.tool
    async def boom() -> str:
        """Fail."""
        raise ValueError("boom")

    @server.resource(SHELF)
    async def everything() -> str:
        return ", ".join(shelf)

    return server


async def ask_for_a_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


def on_the_sdk() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer(
        "others", version="1", instructions="Ask before you book.", log_level="ERROR"
    )
    shelf = ["rose"]

    @server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
    async def greet(answer: Annotated[Name, Resolve(ask_for_a_name)]) -> str:
        """Ask as the era of the client has it."""
        return f"Hello {answer.name}"

    @server.tool()
    async def book(ctx: mcpserver.Context) -> str | types.InputRequiredResult:
        """Ask by ending the call."""
        return booked(ctx.input_responses) if ctx.input_responses else who()

    @server.tool()
    async def walk(ctx: mcpserver.Context) -> dict[str, int]:
        """Log and report."""
        await ctx.debug("a detail")
        await ctx.info({"msg": "left"}, logger_name="feet")
        await ctx.report_progress(1, 2, "left")
        await ctx.warning("right")
        await ctx.report_progress(2, 2)
        return {"steps": 2}

    @server.tool()
    async def learn(ctx: mcpserver.Context) -> str:
        """Add a tool, and to a resource."""
        server.add_tool(late)
        shelf.append("lily")
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "learnt"

    @server.tool()
    async def boom() -> str:
        """Fail."""
        raise ValueError("boom")

    @server.resource(SHELF)
    async def everything() -> str:
        return ", ".join(shelf)

    return server


@asynccontextmanager
async def over_http(library: str) -> AsyncIterator[str]:
    app = on_fastmcp().http_app() if library == "fastmcp" else on_the_sdk().streamable_http_app()
    port = free_port()
    async with starlette(app, port):
        yield f"http://127.0.0.1:{port}/mcp"


def program(library: str) -> list[str]:
    return [sys.executable, "-m", "tests.clients.others", library]


if __name__ == "__main__":
    if sys.argv[1] == "fastmcp":
        on_fastmcp().run("stdio", show_banner=False)
    else:
        on_the_sdk().run("stdio")
