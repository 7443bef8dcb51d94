"""A server whose answers differ from call to call, that fails, changes its lists, and talks of secrets."""

import os
from typing import Annotated

from toolyard.kit import Context, Server, ToolError

server = Server("workshop", instructions="Tell the time by the bell.")
_rings = 0


@server.tool
def ring() -> str:
    """Ring the bell, and say how often it rang."""
    global _rings
    _rings += 1
    return f"rang {_rings} times"


@server.tool
def breaks(how: str) -> str:
    """Fail."""
    raise ToolError(f"it broke {how}")


@server.tool
def says(text: str) -> str:
    """Repeat a text."""
    return text


@server.tool
def environment(name: str) -> str:
    """Show a variable of the process."""
    return os.environ.get(name, "")


@server.tool
async def build(parts: int, ctx: Context) -> str:
    """Build something out of parts, and report each."""
    for part in range(parts):
        await ctx.report_progress(part + 1, parts, f"part {part + 1}")
    return f"built of {parts}"


@server.tool
async def open_drawer(ctx: Context) -> str:
    """Open the drawer: there is another tool in it."""

    def hammer(nail: Annotated[str, "Which one"]) -> str:
        """Hit a nail."""
        return f"hit {nail}"

    server.add_tool(hammer)
    server.notify_tools_changed()
    return "open"
