"""The server over HTTP on loopback, and the `mcp` client that talks with it and brings a key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.serving import serving
from toolyard.kit import Server
from toolyard.kit.loading import load

ERAS = ["legacy", "2026-07-28"]
HEADER = "x-tiflux-api-key"


class Talk:
    """Calls by name; the client has held structured content against the listed schema."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def data(self, tool: str, /, **arguments: Any) -> Any:
        """The object that it gave."""
        return (await self._good(tool, arguments))["data"]

    async def items(self, tool: str, /, **arguments: Any) -> list[Any]:
        return (await self._good(tool, arguments))["items"]

    async def message(self, tool: str, /, **arguments: Any) -> str:
        """What it said; the API gave nothing but a sentence, or nothing at all."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, said(result)
        return said(result)

    async def refusal(self, tool: str, /, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        assert result.is_error, said(result)
        return said(result)

    async def _good(self, tool: str, arguments: dict[str, Any]) -> Any:
        result = await self.call(tool, **arguments)
        assert not result.is_error, said(result)
        return result.structured_content


def said(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


def made(tiflux: TifluxEmulator, **settings: Any) -> Server:
    return load("toolyard.servers.tiflux", options={"api_base_url": tiflux.url} | settings)


@asynccontextmanager
async def talking(url: str, key: str, era: str = "2026-07-28", header: str = HEADER) -> AsyncIterator[Talk]:
    async with create_mcp_http_client({header: key}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="legacy" if era == "legacy" else "auto") as client:
            yield Talk(client)


@asynccontextmanager
async def at(
    tiflux: TifluxEmulator, era: str = "2026-07-28", key: str = API_KEY, **settings: Any
) -> AsyncIterator[Talk]:
    """A server without a key of its own in front of the emulated TiFlux, and somebody who brings one."""
    server = made(tiflux, **settings)
    async with serving(server.asgi()) as edge, talking(edge.url, key, era) as talk:
        yield talk
    await server.close()
