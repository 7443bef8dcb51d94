"""A caller of a gateway who tries to connect a server, and what came of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.connections.yard import a_browser, config_of, connect, replica
from toolyard import Client
from toolyard.app.gateway import Gateway
from toolyard.config.server_auth import OAuthAuth

TOOL = "mcp__guarded__whoami"
HERE = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Attempt:
    connected: bool
    said: str
    """What the caller read, or the text of the page that the browser ended at."""
    status: int = 0
    """Of that page; 0 if the caller got no link."""


class Caller:
    """The local user in front of a gateway."""

    def __init__(self, gateway: Gateway, url: str, client: Client) -> None:
        self.gateway = gateway
        self.base = url.removesuffix("/mcp")
        self.client = client

    async def ask(self, action: str = "status", **more: Any) -> dict[str, Any]:
        arguments = {"action": action, "names": ["guarded"], **more}
        found: Any = (await self.client.call_tool("manage_connections", arguments)).structured
        return found["connections"][0]

    async def link(self) -> str:
        found = await self.ask("link")
        assert "link" in found, found
        return found["link"]

    async def is_connected(self) -> bool:
        return (await self.ask())["message"] != "not connected"

    async def call(self) -> tuple[bool, str]:
        result = await self.client.call_tool("call_tool", {"tool": TOOL, "arguments": {}})
        return bool(result.is_error), result.text

    async def connect(self) -> None:
        """The whole way, with a server that is honest for once."""
        assert (await connect(await self.link()))[0] == 200
        assert (await self.ask("wait", seconds=20))["status"] == "active"

    async def attempt(self) -> Attempt:
        found = await self.ask("link")
        if "link" not in found:
            return Attempt(await self.is_connected(), found["message"])
        status, page = await connect(found["link"])
        return Attempt(await self.is_connected(), page, status)


@asynccontextmanager
async def caller_of(url: str, folder: Path, auth: OAuthAuth | None = None) -> AsyncIterator[Caller]:
    async with replica(config_of(url, folder, auth)) as (gateway, at), Client(at) as client:
        yield Caller(gateway, at, client)


async def pointers(caller: Caller) -> list[str]:
    """The logins under way that the gateway's state store knows of."""
    return await caller.gateway.storage.vault.store.keys("oauth/login/")


async def press(link: str) -> tuple[int, str]:
    """The button of a page, in a browser of its own; returns where it leads."""
    async with a_browser() as browser, browser.post(link, headers=HERE, allow_redirects=False) as page:
        return page.status, page.headers.get("Location", "")
