"""A server with much to say, written with the kit: in this process, or over HTTP in either era."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.app.yard import at
from tests.results.shelf import records
from tests.serving import serving
from tests.through import LegacyOnly
from toolyard.config import InProcess, ServerConfig
from toolyard.kit import Context, Image, Long, Server, ToolError

server = Server("stock")


@server.tool(read_only=True)
async def things(count: int = 300) -> list[dict[str, Any]]:
    """List the things that are in stock."""
    return records(count)


@server.tool
async def words(lines: int = 900) -> str:
    """Say something at length."""
    return "\n".join(f"line {at}" for at in range(lines))


@server.tool
async def letters(lines: int = 1500) -> str:
    """Say something in letters of one to four bytes."""
    return "aé€😀\n" * lines


@server.tool
async def picture():
    """A picture and many words."""
    return [Image(b"\x89PNG" * 5000, "image/png"), "words " * 2000]


@server.tool
async def fails() -> str:
    """Goes wrong."""
    raise ToolError("\n".join(f"reason {at}" for at in range(30)))


@server.tool
async def cyclic() -> dict[str, Any]:
    """Gives what contains itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@server.tool
async def odd() -> dict[Any, Any]:
    """Gives what has no letters for keys, and numbers that are none."""
    return {**{at: at for at in range(30)}, None: float("nan"), 1.5: float("inf")}


@server.tool
async def picky(_fields: str = "") -> str:
    """Has a parameter that is called like ours."""
    return f"given {_fields!r}"


@server.tool(long=Long(detach="at_once"))
async def report(ctx: Context, lines: int = 900) -> str:
    """Takes its time."""
    return "\n".join(f"line {at}" for at in range(lines))


@asynccontextmanager
async def mounted(way: str, **options: Any) -> AsyncIterator[ServerConfig]:
    """The entry of a configuration, and what it leads to."""
    if way == "inprocess":
        yield ServerConfig(name="up", where=InProcess(module="tests.results.stock:server"), **options)
        return
    app: Any = server.asgi()
    async with serving(app if way == "modern" else LegacyOnly(app)) as client:
        yield at(f"http://127.0.0.1:{client.port}/mcp", **options)
