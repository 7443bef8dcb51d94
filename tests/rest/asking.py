"""A server made of a few rows of a table, and its answers in short."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.rest.loopback import Loopback
from toolyard import Client
from toolyard.kit import Server
from toolyard.rest.definition.model import ApiDefinition
from toolyard.rest.engine import Prepare
from toolyard.rest.server import RestSettings, build

KEY = "own-key-0123456789"
AT_ONCE = {"pause": 0.0}


def table(api: Loopback, tools: Mapping[str, Any], **more: Any) -> ApiDefinition:
    """Rows as a file would have them. Descriptions are filled in, and nobody waits before the next try."""
    rows = {name: {"description": f"What {name} does", **row} for name, row in tools.items()}
    whole = {"name": "things", "base_url": f"{api.url}/v1", "retry": AT_ONCE, **more, "tools": rows}
    return msgspec.convert(whole, ApiDefinition)


class Asking:
    """Calls tools, and tells what came of it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return (await self.client.call_tool(tool, arguments)).raw

    async def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.result(tool, **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    async def wrong(self, tool: str, **arguments: Any) -> str:
        result = await self.result(tool, **arguments)
        assert result.get("isError") is True, result
        return result["content"][0]["text"]


@asynccontextmanager
async def asking(
    rows: ApiDefinition,
    settings: RestSettings | None = None,
    prepare: Mapping[str, Prepare] | None = None,
    **options: Any,
) -> AsyncIterator[Asking]:
    server: Server = build(rows, settings or RestSettings(api_key=KEY), prepare=prepare)
    async with Client(server, **options) as client:
        yield Asking(client)
    await server.close()
