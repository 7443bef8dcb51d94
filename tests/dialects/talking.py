"""A gateway that speaks dialects, over HTTP, and the `mcp` client on the other side of it.

Owns how these tests reach it and read its replies. Who calls is said in headers, as an application's own
identification would find it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.emulators.composio import ComposioEmulator
from tests.serving import PATIENCE, serving
from toolyard.app import Gateway, asgi
from toolyard.config import Composio, Config, GatewayConfig, InProcess, ServerConfig, StateConfig
from toolyard.wire.call import Principal

KEY = b"for the dialects' conversations"
OWN = ("notes", "board")


class Said:
    """A reply to a tool call: `failed`, its text, and the JSON in it."""

    def __init__(self, result: Any) -> None:
        self.failed = bool(result.is_error)
        self.text = "".join(getattr(block, "text", "") for block in result.content)
        self.structured = result.structured_content

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def data(self) -> Any:
        """What a reply in Composio's wrapping holds."""
        assert set(self.json) == {"data", "error", "successful"}, self.text
        assert self.json["successful"], self.text
        return self.json["data"]


class Talk:
    def __init__(self, client: Client) -> None:
        self.client = client

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Gives a function that waits until the client is told of other tools."""
        async with self.client.listen(tools_list_changed=True) as events:
            told = aiter(events)

            async def changed() -> None:
                async with asyncio.timeout(PATIENCE):
                    await anext(told)

            yield changed

    async def call(self, tool: str, **arguments: Any) -> Said:
        return Said(await self.client.call_tool(tool, arguments))

    async def well(self, tool: str, **arguments: Any) -> Any:
        """The JSON of a reply that is not a failure."""
        said = await self.call(tool, **arguments)
        assert not said.failed, said.text
        return said.json

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


class Place:
    """A served gateway."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/mcp"

    @asynccontextmanager
    async def talk(
        self, thread: str = "t-1", tenant: str = "acme", agent: str = "", mode: str = "auto"
    ) -> AsyncIterator[Talk]:
        headers = {"x-tenant": tenant, "x-agent": agent, "x-toolyard-thread": thread}
        headers = {name: value for name, value in headers.items() if value}
        async with create_mcp_http_client(headers) as http:
            transport = streamable_http_client(self._url, http_client=http)
            async with Client(transport, mode=mode, cache=None) as client:
                yield Talk(client)


def _identify(headers: Any) -> Principal:
    found = dict(headers)
    return Principal(found.get(b"x-tenant", b"local").decode(), found.get(b"x-agent", b"").decode())


@asynccontextmanager
async def gateway(
    *dialects: str,
    composio: ComposioEmulator | None = None,
    state: str = "",
    own: Sequence[str] = OWN,
    pinned: dict[str, tuple[str, ...]] | None = None,
    **settings: Any,
) -> AsyncGenerator[Place]:
    """`own` are servers of `tests.dialects.servers`, and `pinned` names tools of them."""
    servers = [
        ServerConfig(
            name=name,
            where=InProcess(module=f"tests.dialects.servers:{name}"),
            pinned=(pinned or {}).get(name, ()),
        )
        for name in own
    ]
    if composio is not None:
        where = Composio(api_key=composio.api_key, base_url=composio.url)
        servers.append(ServerConfig(name="composio", where=where))
    config = Config(
        servers=tuple(servers),
        gateway=GatewayConfig(**{"view": "search", "dialects": dialects} | settings),
        state=StateConfig(url=state, key="a key for credential profiles"),
    )
    app = asgi(Gateway(config, KEY), identify=_identify)
    async with serving(app) as served:
        yield Place(served.port)
