"""`connect`: the same conversation over every edge, in both eras, directly and through the gateway."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.interaction import mounted
from tests.interaction.clients import Client, Habits, HttpClient, InProcessClient, StdioClient, soon
from tests.interaction.shop import Shop
from tests.serving import serving
from tests.through import LegacyOnly, gateway_to
from toolyard.config import Http, InProcess
from toolyard.edge.stdio import serve
from toolyard.kit import Server

Connect = Callable[..., AbstractAsyncContextManager[Client]]
"""`connect(server, elicit=…, tasks=True, …)`: the keywords are those of `Habits`."""


@asynccontextmanager
async def in_process(server: Server, habits: Habits) -> AsyncIterator[Client]:
    client = InProcessClient(habits, server)
    async with client.connected():
        await client.shake_hands()
        yield client
    await server.service.close()


@asynccontextmanager
async def http(server: Server, habits: Habits) -> AsyncIterator[Client]:
    app = server.asgi()
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with serving(app) as served, aiohttp.ClientSession(timeout=timeout) as session:
        client = HttpClient(habits, session, served.url, app.close)
        await client.shake_hands()
        yield client
        await client.end()


@asynccontextmanager
async def stdio(server: Server, habits: Habits) -> AsyncIterator[Client]:
    (server_in, client_out), (client_in, server_out) = os.pipe(), os.pipe()
    running = asyncio.create_task(serve(server.service, server_in, server_out))
    reader, writer = await _streams(client_in, client_out)
    client = StdioClient(habits, reader, writer)
    try:
        await client.shake_hands()
        yield client
    finally:
        writer.close()
        try:
            await soon(running)
        finally:
            os.close(server_in)
            os.close(server_out)
            await client.end()


async def _streams(source: int, sink: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(source, "rb", buffering=0))
    transport, flow = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(sink, "wb", buffering=0)
    )
    return reader, asyncio.StreamWriter(transport, flow, reader, loop)


@asynccontextmanager
async def through_gateway(server: Server, habits: Habits, where: Http | InProcess) -> AsyncIterator[Client]:
    """An HTTP client, the gateway's bare view of one upstream, and the server behind it."""
    mounted.server = server
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with (
        gateway_to(where, server.page_size) as (served, app),
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        client = HttpClient(habits, session, served.url, app.close)
        await client.shake_hands()
        yield client
        await client.end()


@asynccontextmanager
async def to_modern(server: Server, habits: Habits) -> AsyncIterator[Client]:
    async with (
        serving(server.asgi()) as served,
        through_gateway(server, habits, Http(url=served.url)) as client,
    ):
        yield client


@asynccontextmanager
async def to_legacy(server: Server, habits: Habits) -> AsyncIterator[Client]:
    app = LegacyOnly(server.asgi())
    async with serving(app) as served, through_gateway(server, habits, Http(url=served.url)) as client:
        client.manner = "legacy"
        yield client


@asynccontextmanager
async def to_module(server: Server, habits: Habits) -> AsyncIterator[Client]:
    where = InProcess(module="tests.interaction.mounted:server")
    async with through_gateway(server, habits, where) as client:
        yield client


DIRECTLY = {"in-process": in_process, "http": http, "stdio": stdio}
THROUGH = {"gateway-to-modern": to_modern, "gateway-to-legacy": to_legacy, "gateway-to-module": to_module}
EDGES = DIRECTLY | THROUGH


def _connect(edge: str, era: str) -> Connect:
    def connect(server: Server, **habits: Any) -> AbstractAsyncContextManager[Client]:
        return EDGES[edge](server, Habits(era, **habits))

    return connect


@pytest.fixture(params=[f"{edge} {era}" for edge in EDGES for era in ("legacy", "modern")])
def connect(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """Every edge in both eras."""
    return _connect(*request.param.split())


@pytest.fixture(params=EDGES)
def connect_modern(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """Every edge in the modern era, for what the legacy one does not have."""
    return _connect(request.param, "modern")


@pytest.fixture(params=EDGES)
def connect_legacy(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """Every edge in the legacy era, for what the modern one does not have."""
    return _connect(request.param, "legacy")


@pytest.fixture(params=DIRECTLY)
def connect_directly(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """The modern era without a gateway, for what a gateway says in its own words."""
    return _connect(request.param, "modern")


@pytest.fixture(params=[edge for edge in EDGES if edge != "gateway-to-legacy"])
def connect_tasks(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """Where there are tasks: the modern era to the end."""
    return _connect(request.param, "modern")


@pytest.fixture(params=[*DIRECTLY, "gateway-to-module"])
def connect_process(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """Where the server ends with what the client speaks to."""
    return _connect(request.param, "modern")


@pytest.fixture(params=[edge for edge in EDGES if edge != "gateway-to-modern"])
def connect_legacy_server(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """The legacy era to the end: a tool behind a modern upstream does not wait for its questions."""
    return _connect(request.param, "legacy")


@pytest.fixture(params=["http", "stdio"])
def connect_wire(request: pytest.FixtureRequest, nothing_left_behind: None) -> Connect:
    """The modern edges that have messages of their own to look at."""
    return _connect(request.param, "modern")


@pytest.fixture
async def shop(nothing_left_behind: None) -> Shop:
    return Shop()


@pytest.fixture
async def nothing_left_behind() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks left behind: {left}"
