"""The server in front of the emulated TiFlux, and somebody who talks with it and brings a key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jsonschema_rs import validator_for

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from toolyard import Client
from toolyard.kit import Server
from toolyard.kit.loader import load

HEADER = "x-tiflux-api-key"


class Talk:
    """Calls by name. What a tool gives is held against the output schema that it lists."""

    def __init__(self, client: Client, tools: list[dict[str, Any]]) -> None:
        self._client = client
        self._schemas = {tool["name"]: tool["outputSchema"] for tool in tools}

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Its structured content."""
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result.text
        validator_for(self._schemas[tool]).validate(result.structured)
        return result.structured

    async def data(self, tool: str, /, **arguments: Any) -> Any:
        """The object that it gave."""
        return (await self.call(tool, **arguments))["data"]

    async def items(self, tool: str, /, **arguments: Any) -> list[Any]:
        return (await self.call(tool, **arguments))["items"]

    async def refusal(self, tool: str, /, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments)
        assert result.is_error, result.text
        return result.text


def made(tiflux: TifluxEmulator, **settings: Any) -> Server:
    return load("toolyard.servers.tiflux", options={"api_base_url": tiflux.url} | settings)


@asynccontextmanager
async def at(tiflux: TifluxEmulator, key: str = API_KEY, **settings: Any) -> AsyncIterator[Talk]:
    """A server without a key of its own."""
    server = made(tiflux, **settings)
    async with Client(server, keys={HEADER: key}) as client:
        yield Talk(client, await client.list_all("tools/list"))
    await server.close()
