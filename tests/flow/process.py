"""The gateway as a user starts it, a Composio on loopback behind it, and an agent's client in front of it."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.emulators.composio import ComposioEmulator
from tests.faults.yard import Gateway

SIGNING = "one key for all gateways of these tests"


def configured(composio: ComposioEmulator | None, folder: Path, tables: str = "") -> str:
    config = f'[gateway]\nstate_dir = "{folder / "kept"}"\n{tables}\n'
    config += '[servers.demo]\nmodule = "toolyard.servers.demo:server"\n'
    if composio is not None:
        config += f'[servers.composio]\ntype = "composio"\nbase_url = "{composio.url}"\n'
    return config


@asynccontextmanager
async def started(folder: Path, config: str) -> AsyncIterator[Gateway]:
    os.makedirs(folder, exist_ok=True)
    environment = {"COMPOSIO_API_KEY": "ak_emulated_project_key", "TOOLYARD_KEY": SIGNING}
    gateway = await Gateway.start(folder, config, **environment)
    try:
        yield gateway
    finally:
        await gateway.kill()


class Agent:
    """What an agent does with the meta tools."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def does(self, meta: str, /, **arguments: Any) -> Any:
        """A call that works; its structured content."""
        result = await self.client.call_tool(meta, arguments)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return result.structured_content

    async def says(self, tool: str, /, **arguments: Any) -> Any:
        """A call that works; the JSON of its text, which is all that some dialects give."""
        result = await self.client.call_tool(tool, arguments)
        text = "".join(getattr(block, "text", "") for block in result.content)
        assert not result.is_error, text
        return json.loads(text)

    async def search(self, use_case: str, **more: Any) -> Any:
        given = {"queries": [{"use_case": use_case}], **more}
        found = (await self.client.call_tool("search_tools", given)).meta["toolyard/search"]
        (entry,) = found["results"]
        assert entry["query"]["use_case"] == use_case
        return found

    async def calls(self, tool: str, /, **arguments: Any) -> Any:
        return await self.does("call_tool", tool=tool, arguments=arguments)

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]


@asynccontextmanager
async def agent(gateway: Gateway, mode: str = "auto", **headers: str) -> AsyncIterator[Agent]:
    async with create_mcp_http_client(headers) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{gateway.port}/mcp", http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            yield Agent(client)


async def authorise(link: str) -> None:
    """The user opens the link in a browser and agrees."""
    async with aiohttp.ClientSession() as browser, browser.get(link) as page:
        assert page.status == 200


def found_tools(found: Any) -> list[str]:
    return [tool["tool"] for tool in found["results"][0]["results"]]
