"""The local_toolkit server: in process as several users, and over HTTP with the official client."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from msgspec import Struct

import toolyard
from tests.serving import serving
from toolyard.kit import Identity, Principal, Server
from toolyard.kit.loader import load

ERAS = ["legacy", "2026-07-28"]
MODULE = "toolyard.servers.local_toolkit"


class Said(Struct):
    """A reply to a tool call."""

    text: str
    structured: Any
    failed: bool


class User:
    """Calls in process, as one caller in one conversation."""

    def __init__(self, server: Server, identity: Identity) -> None:
        self._server = server
        self._identity = identity

    def client(self, **options: Any) -> toolyard.Client:
        return toolyard.Client(self._server, identity=self._identity, **options)

    async def call(self, tool: str, **arguments: Any) -> Said:
        async with self.client() as client:
            result = await client.call_tool(tool, arguments)
        return Said(result.text, result.structured, result.is_error)

    async def good(self, tool: str, **arguments: Any) -> Said:
        said = await self.call(tool, **arguments)
        assert not said.failed, said.text
        return said

    async def refused(self, tool: str, **arguments: Any) -> str:
        said = await self.call(tool, **arguments)
        assert said.failed, said.structured
        return said.text

    async def write(self, path: str, content: str) -> Any:
        return (await self.good("write_local_file", path=path, content=content)).structured

    async def names(self, path: str = ".") -> list[str]:
        return json.loads((await self.good("list_directory", path=path)).text)

    async def read(self, uri: str) -> Any:
        async with self.client() as client:
            (contents,) = (await client.read_resource(uri)).contents
        return contents


class Bench:
    """Servers over one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: list[Server] = []

    def server(self, **settings: Any) -> Server:
        server = load(MODULE, options={"workspace": str(self.folder), **settings})
        self._servers.append(server)
        return server

    def user(self, server: Server | None = None, name: str = "", thread: str = "", **settings: Any) -> User:
        """Without a name: the local user, whose workspace is the folder itself."""
        principal = Principal(tenant="acme", subject=name) if name else Principal()
        return User(server or self.server(**settings), Identity(principal, thread))

    async def close(self) -> None:
        for server in self._servers:
            await server.close()


class Talk:
    """The official client; it holds structured content against the listed schema."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Said:
        result = await self.client.call_tool(tool, arguments)
        text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        return Said(text, result.structured_content, bool(result.is_error))


@asynccontextmanager
async def talking(era: str, folder: Path, **settings: Any) -> AsyncIterator[Talk]:
    server = load(MODULE, options={"workspace": str(folder), **settings})
    async with serving(server.asgi()) as http, Client(http.url, mode=era) as client:
        await client.list_tools()  # from here on it checks what it is given
        yield Talk(client)
    await server.close()
