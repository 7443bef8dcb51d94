"""The memory server, in process for each database, and over HTTP with the official client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client import ClientRequestContext

import toolyard
from tests.serving import serving
from toolyard.client import Elicitation
from toolyard.kit import Identity, Principal, Server
from toolyard.kit.loader import load

ERAS = ["legacy", "2026-07-28"]
MODULE = "toolyard.servers.memory"


@dataclass
class Said:
    """A reply to a tool call."""

    text: str
    structured: Any
    failed: bool


class User:
    """One user's calls in process. Without `answer` nobody can be asked."""

    def __init__(self, server: Server, identity: Identity, answer: dict[str, Any] | None = None) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []
        self._answer = answer
        self._server = server
        self._identity = identity

    def _on_elicit(self, form: Elicitation) -> dict[str, Any]:
        self.asked.append(form.message)
        return self._answer or {}

    async def call(self, tool: str, **arguments: Any) -> Said:
        client = toolyard.Client(
            self._server,
            identity=self._identity,
            on_elicit=self._on_elicit if self._answer else None,
            on_notification=lambda method, _params: self.told.append(method),
        )
        async with client:
            result = await client.call_tool(tool, arguments)
        return Said(result.text, result.structured, result.is_error)

    async def save(self, path: str, content: str) -> Any:
        return (await self.good("save_memory", path=f"/memories/{path}", content=content)).structured

    async def view(self, path: str) -> str:
        return (await self.good("view_memories", path=f"/memories/{path}")).structured["content"]

    async def found(self, query: str, mode: str = "both", limit: int = 10) -> list[str]:
        """Paths below /memories, the best first."""
        said = await self.good("search_memories", query=query, mode=mode, limit=limit)
        return [one["path"].removeprefix("/memories/") for one in said.structured["results"]]

    async def good(self, tool: str, **arguments: Any) -> Said:
        said = await self.call(tool, **arguments)
        assert not said.failed, said.text
        return said

    async def refused(self, tool: str, **arguments: Any) -> str:
        said = await self.call(tool, **arguments)
        assert said.failed, said.structured
        return said.text


class Yard:
    """Servers over one database."""

    def __init__(self, url: str, tenant: str) -> None:
        self.url = url
        self.tenant = tenant
        self._servers: list[Server] = []

    def server(self, **settings: Any) -> Server:
        server = load(MODULE, options={"url": self.url, **settings})
        self._servers.append(server)
        return server

    def user(self, name: str = "ana", *, tenant: str = "", answer: Any = None, **settings: Any) -> User:
        """With a server of their own."""
        identity = Identity(Principal(tenant=self.tenant + tenant, agent=name))
        return User(self.server(**settings), identity, answer)

    async def close(self) -> None:
        for server in self._servers:
            await server.close()


@dataclass
class Talk:
    """The official client; it holds structured content against the listed schema."""

    client: Client
    answers: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)

    async def call(self, tool: str, **arguments: Any) -> Said:
        result = await self.client.call_tool(tool, arguments)
        text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        return Said(text, result.structured_content, bool(result.is_error))

    async def read(self, uri: str) -> str:
        (contents,) = (await self.client.read_resource(uri)).contents
        assert isinstance(contents, types.TextResourceContents)
        return contents.text

    async def complete(self, value: str) -> list[str]:
        ref = types.ResourceTemplateReference(uri="memory:///memories/{+path}")
        return (await self.client.complete(ref, {"name": "path", "value": value})).completion.values

    async def prompt(self, name: str, **arguments: str) -> str:
        (message,) = (await self.client.get_prompt(name, arguments)).messages
        assert isinstance(message.content, types.TextContent)
        return message.content.text


@asynccontextmanager
async def talking(era: str, *, asks: bool = True, **settings: Any) -> AsyncIterator[Talk]:
    server = load(MODULE, options={"url": "memory:", **settings})
    talk: Talk

    async def on_elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        talk.asked.append(params.message)
        return types.ElicitResult(**talk.answers.pop(0))

    async with serving(server.asgi()) as http:
        callback = on_elicit if asks else None
        async with Client(http.url, mode=era, elicitation_callback=callback) as client:
            await client.list_tools()  # from here on it checks what it is given
            talk = Talk(client)
            yield talk
