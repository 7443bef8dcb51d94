"""The server `sql` over HTTP on loopback, and the official client, which checks what it gets."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client

from tests.app.speaker import on_port
from toolyard.servers.sql import Settings, build

ERAS = ["auto", "legacy"]


class Talk:
    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self._name = name
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def call(self, **arguments: Any) -> Any:
        """The result of the tool; the client has held it against the listed schema."""
        return await self.client.call_tool(self._name, arguments, progress_callback=self._hear)

    async def rows(self, **arguments: Any) -> Any:
        found = await self.call(**arguments)
        assert not found.is_error, found.content[0].text
        return found.structured_content

    async def refusal(self, **arguments: Any) -> str:
        found = await self.call(**arguments)
        assert found.is_error, found.structured_content
        assert found.structured_content is None
        return found.content[0].text

    async def _hear(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


@asynccontextmanager
async def talking(mode: str = "auto", tool: str = "", **settings: Any) -> AsyncGenerator[Talk]:
    made = Settings(**settings)
    server = build(made)
    name = tool or ("query_sql" if made.locale == "en" else "consultar_sql")
    async with (
        on_port(server.asgi()) as port,
        Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client,
    ):
        await client.list_tools()
        yield Talk(client, name)
