"""The server over HTTP on loopback, and the `mcp` client that talks with it."""

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client

from tests.serving import serving
from toolyard.kit.loader import load

ERAS = ["legacy", "2026-07-28"]


class Said:
    """A reply to a tool call; the client has held its structured content against the listed schema."""

    def __init__(self, result: types.CallToolResult) -> None:
        self.failed = bool(result.is_error)
        self.text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        self.structured: Any = result.structured_content
        self.images = [block for block in result.content if isinstance(block, types.ImageContent)]

    @property
    def png(self) -> bytes:
        (image,) = self.images
        assert image.mime_type == "image/png"
        return base64.b64decode(image.data)


class Talk:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Said:
        return Said(await self.client.call_tool(tool, arguments))

    async def describe(self, table: str = "") -> Said:
        return await self.call("describe_table", table=table)

    async def values(self, table: str, column: str) -> Said:
        return await self.call("list_column_values", table=table, column=column)

    async def draw(self, *tables: str, image: bool = False) -> Said:
        return await self.call("draw_relationships", tables=list(tables), image=image)

    async def names(self) -> list[str]:
        return [table["name"] for table in (await self.describe()).structured["tables"]]

    async def read(self, uri: str) -> Sequence[Any]:
        return (await self.client.read_resource(uri)).contents

    async def complete(self, value: str) -> list[str]:
        ref = types.ResourceTemplateReference(uri="schema://tables/{name}")
        return (await self.client.complete(ref, {"name": "name", "value": value})).completion.values


@asynccontextmanager
async def talking(era: str = ERAS[1], **settings: Any) -> AsyncIterator[Talk]:
    server = load("toolyard.servers.schema", options=settings)
    async with serving(server.asgi()) as http, Client(http.url, mode=era) as client:
        await client.list_tools()  # from here on it checks what it is given
        yield Talk(client)
