"""A gateway in this process, served on loopback, and a client in front of it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.app.speaker import on_port
from tests.serving import PATIENCE, Answer, Client, LegacyClient, Line, http, modern
from toolyard.app import Gateway, asgi
from toolyard.app.upstreams import UpstreamTap
from toolyard.config import Config, GatewayConfig, Http, ResultsConfig, ServerConfig

KEY = b"for the yards of the tests, thirty-two"


def at(url: str, name: str = "up", **options: Any) -> ServerConfig:
    """A server at an address, with time limits for tests."""
    headers = options.pop("headers", {})
    place = {name: options.pop(name) for name in ("transport", "era") if name in options}
    where = Http(url=url, headers=headers, **place)
    limits: dict[str, Any] = {"timeout": 10, "connect_timeout": 5}
    return ServerConfig(name=name, where=where, **(limits | options))


AS_THEY_ARE = ResultsConfig(shape=False)
"""Most tests are about what passes through."""


class Yard:
    def __init__(self, gateway: Gateway, client: Client) -> None:
        self.gateway = gateway
        self.client = client

    async def modern(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        path: str = "/mcp",
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> Answer:
        told, message = modern(method, params, **options)
        return await self.client.post(told | (headers or {}), message, path)

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Answer:
        params = {"name": tool, "arguments": arguments or {}, **options.pop("more", {})}
        return await self.modern("tools/call", params, **options)

    async def says(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
        """The text of a result."""
        return (await self.call(tool, arguments, **options)).result["content"][0]["text"]

    async def tools(self, path: str = "/mcp", **options: Any) -> list[str]:
        """The names of all, page by page."""
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await self.modern("tools/list", cursor, path, **options)).result
            found += [item["name"] for item in page["tools"]]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    async def health(self) -> Any:
        answer = await self.client.raw(http("GET", "/health", host=f"127.0.0.1:{self.client.port}"))
        return answer.json

    async def server(self, name: str = "up") -> Any:
        return (await self.health())["servers"][name]

    async def until_health(self, check: Callable[[Any], Any]) -> Any:
        """Look at /health, as a monitor would, until it shows something."""
        async with asyncio.timeout(PATIENCE):
            while not check(health := await self.health()):  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(0.02)
        return health

    async def legacy(self, capabilities: dict[str, Any] | None = None) -> LegacyClient:
        return await LegacyClient.start(self.client, capabilities=capabilities)

    async def listen(self, path: str = "/mcp", headers: dict[str, str] | None = None, **wanted: Any) -> Line:
        """A modern subscription, already acknowledged."""
        told, message = modern("subscriptions/listen", {"notifications": wanted}, id=77)
        line = await self.client.open(told | (headers or {}), message, path=path)
        assert (await line.next_message())["method"] == "notifications/subscriptions/acknowledged"
        return line


@asynccontextmanager
async def yard(
    *servers: ServerConfig,
    state: str | None = None,
    identify: Any = None,
    results: ResultsConfig = AS_THEY_ARE,
    tables: dict[str, Any] = {},  # noqa: B006 (never changed)
    key: bytes | None = KEY,
    tap: UpstreamTap | None = None,
    **settings: Any,
) -> AsyncIterator[Yard]:
    """`tables` are others of the configuration.

    Nothing of it is left when it is over: no task, and no connection that somebody holds.
    """
    before = asyncio.all_tasks()
    with tempfile.TemporaryDirectory() as folder:
        usual: dict[str, Any] = {"view": "all", "state_dir": state or folder}
        gateway = GatewayConfig(**usual | settings)
        built = Gateway(Config(servers=servers, gateway=gateway, results=results, **tables), key, tap=tap)
        async with on_port(asgi(built, identify=identify)) as port:
            client = Client(port)
            try:
                yield Yard(built, client)
            finally:
                client.close()
        await asyncio.sleep(0)  # those that were cancelled last notice it now
        left = {task for task in asyncio.all_tasks() - before if not _is_uvicorns(task)}
        assert not left, f"tasks left behind: {left}"


def _is_uvicorns(task: "asyncio.Task[Any]") -> bool:
    """A request of an upstream's server, which notices a little later than we that its client is gone."""
    return "run_asgi" in repr(task.get_coro()) or "serving" in repr(task.get_coro())
