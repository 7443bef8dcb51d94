"""Tools about what a call says before it ends: logs, progress, a cut stream, changed lists."""

import asyncio
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt

# The suite asks for a pause between two messages, so that a client sees them come one by one.
PAUSE_S = 0.05


def add_stream_tools(server: MCPServer[Any]) -> None:
    @server.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        """Sends three log messages while it runs."""
        await ctx.info("Tool execution started")
        await asyncio.sleep(PAUSE_S)
        await ctx.info("Tool processing data")
        await asyncio.sleep(PAUSE_S)
        await ctx.info("Tool execution completed")
        return "Tool with logging executed successfully"

    @server.tool()
    async def test_logging_tool(ctx: Context) -> str:
        """Logs one message, which only a request with a log level may receive."""
        await ctx.info("Logged while the tool ran")
        return "Logged one message"

    @server.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        """Reports progress three times."""
        await ctx.report_progress(0, 100)
        await asyncio.sleep(PAUSE_S)
        await ctx.report_progress(50, 100)
        await asyncio.sleep(PAUSE_S)
        await ctx.report_progress(100, 100)
        return "Tool with progress executed successfully"

    @server.tool()
    async def test_reconnection(ctx: Context) -> str:
        """Ends its stream before the result, which the client fetches by reconnecting."""
        await ctx.close_sse_stream()
        await asyncio.sleep(2 * PAUSE_S)
        return "Reconnection test completed successfully"

    add_change_tools(server)


def add_change_tools(server: MCPServer[Any]) -> None:
    """What `server-stateless` calls to make a list change while it listens."""
    present: set[str] = set()

    def comes_and_goes() -> str:
        """Comes and goes."""
        return "Here for now."

    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Adds a tool to the list, or takes it away again."""
        if "tool" in present:
            server.remove_tool("test_dynamic_tool")
        else:
            server.add_tool(comes_and_goes, name="test_dynamic_tool")
        present.symmetric_difference_update({"tool"})
        await ctx.notify_tools_changed()
        return "The list of tools changed"

    @server.tool()
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Adds a prompt to the list, or takes it away again."""
        if "prompt" in present:
            server.remove_prompt("test_dynamic_prompt")
        else:
            server.add_prompt(Prompt.from_function(comes_and_goes, name="test_dynamic_prompt"))
        present.symmetric_difference_update({"prompt"})
        await ctx.notify_prompts_changed()
        return "The list of prompts changed"
