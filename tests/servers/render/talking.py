"""The server over HTTP on loopback, and the `mcp` client that talks with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client

from tests.emulators.render import API_KEY, RenderEmulator
from tests.serving import serving
from toolyard.kit.loader import load

ERAS = ["legacy", "2026-07-28"]


class Said:
    """A reply to a tool call; the client has held its structured content against the listed schema."""

    def __init__(self, result: types.CallToolResult) -> None:
        self.failed = bool(result.is_error)
        self.text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        self.structured: Any = result.structured_content

    @property
    def messages(self) -> list[str]:
        assert not self.failed, self.text
        return [entry["message"] for entry in self.structured["entries"]]


class Talk:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def call(self, tool: str, **arguments: Any) -> Said:
        return Said(await self.client.call_tool(tool, arguments, progress_callback=self._on_progress))

    async def logs(self, **arguments: Any) -> Said:
        return await self.call("search_logs", **arguments)

    async def errors(self, **arguments: Any) -> Said:
        return await self.call("find_errors", **arguments)

    async def status(self) -> dict[str, dict[str, Any]]:
        said = await self.call("service_status")
        assert not said.failed, said.text
        return {service["name"]: service for service in said.structured["services"]}

    async def refusal(self, **arguments: Any) -> str:
        said = await self.logs(**arguments)
        assert said.failed, said.text
        assert said.structured is None
        return said.text

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


@asynccontextmanager
async def talking(era: str = "2026-07-28", **settings: Any) -> AsyncIterator[Talk]:
    server = load("toolyard.servers.render", options=settings)
    async with (
        serving(server.asgi()) as edge,
        Client(edge.url, mode="auto" if era != "legacy" else "legacy") as client,
    ):
        yield Talk(client)
    await server.close()


@asynccontextmanager
async def at(render: RenderEmulator, era: str = "2026-07-28", **settings: Any) -> AsyncIterator[Talk]:
    """A server that asks the emulated Render, and gives up or forgets nothing while a test runs."""
    calm = {"timeout": 300.0, "patience": 600.0, "cache_seconds": 3600.0}
    async with talking(era, **{"url": render.url, "api_key": API_KEY} | calm | settings) as talk:
        yield talk
