"""Stored conversations of a test: how they get in, and how a user asks for them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client

import toolyard
from tests.serving import serving
from toolyard.kit import Identity, Principal, Server
from toolyard.kit.loader import load
from toolyard.servers.sessions.formats.files import ImportTally
from toolyard.servers.sessions.recording import import_files, record

ERAS = ["legacy", "2026-07-28"]
MODULE = "toolyard.servers.sessions"


def session(session_id: str, *said: str, **more: Any) -> dict[str, Any]:
    """In the documented form; the user and the assistant take turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "text": text} for at, text in enumerate(said)]
    return {"format": "toolyard.sessions", "session_id": session_id, "messages": messages, **more}


def entry(kind: str, uuid: str, content: Any, session_id: str = "s1", **more: Any) -> dict[str, Any]:
    """A line of Claude Code's."""
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": session_id,
        "timestamp": "2026-11-15T23:10:37.716Z",
        "cwd": "/work",
        "isSidechain": False,
        "message": {"role": kind, "content": content},
        **more,
    }


def write_lines(path: Path, *entries: Any) -> Path:
    """Text and bytes as they are, all else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for item in entries:
            raw = item if isinstance(item, bytes) else item if isinstance(item, str) else json.dumps(item)
            file.write((raw if isinstance(raw, bytes) else raw.encode()) + b"\n")
    return path


@dataclass
class Said:
    text: str
    structured: Any
    failed: bool


class Archive:
    """One tenant's conversations in a database."""

    def __init__(self, url: str, tenant: str) -> None:
        self.url = url
        self.tenant = tenant

    @cached_property
    def server(self) -> Server:
        return load(MODULE, options={"url": self.url})

    async def record(self, *sessions: dict[str, Any], user: str = "") -> None:
        for told in sessions:
            await record(told, tenant=self.tenant, user=user, url=self.url)

    async def read(self, *paths: Path, user: str = "") -> ImportTally:
        return await import_files(paths, tenant=self.tenant, user=user, url=self.url)

    async def call(self, tool: str, user: str = "", tenant: str = "", **arguments: Any) -> Said:
        identity = Identity(Principal(tenant or self.tenant, user))
        async with toolyard.Client(self.server, identity=identity) as client:
            result = await client.call_tool(tool, arguments)
        return Said(result.text, result.structured, result.is_error)

    async def search(self, query: str, **more: Any) -> list[str]:
        """The ids of the sessions found."""
        said = await self.call("search_sessions", query=query, **more)
        assert not said.failed, said.text
        return [found["session_id"] for found in said.structured["sessions"]]

    async def excerpt(self, query: str) -> str:
        said = await self.call("search_sessions", query=query)
        return said.structured["sessions"][0]["excerpt"]

    async def recent(self, **more: Any) -> dict[str, dict[str, Any]]:
        said = await self.call("list_recent_sessions", **more)
        return {found["session_id"]: found for found in said.structured["sessions"]}

    async def transcript(self, session_id: str, user: str = "") -> str:
        async with toolyard.Client(self.server, identity=Identity(Principal(self.tenant, user))) as client:
            return (await client.read_resource(f"sessions://{session_id}")).text

    async def close(self) -> None:
        if "server" in vars(self):
            await self.server.close()


class Talk:
    """The official client; it holds structured content against the listed schema."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Said:
        result = await self.client.call_tool(tool, arguments)
        text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        return Said(text, result.structured_content, bool(result.is_error))

    async def read(self, uri: str) -> str:
        (contents,) = (await self.client.read_resource(uri)).contents
        assert isinstance(contents, types.TextResourceContents)
        return contents.text

    async def complete(self, uri: str, name: str, value: str, **context: str) -> list[str]:
        ref = types.ResourceTemplateReference(uri=uri)
        done = await self.client.complete(ref, {"name": name, "value": value}, context_arguments=context)
        return done.completion.values


@asynccontextmanager
async def talking(era: str, **settings: Any) -> AsyncIterator[Talk]:
    server = load(MODULE, options=settings)
    async with serving(server.asgi()) as http, Client(http.url, mode=era) as client:
        await client.list_tools()  # from here on it checks what it is given
        yield Talk(client)
