"""The HTTP client without aiohttp, on the event loops that an application may have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.upstream.loops import on_both_loops
from toolyard.upstream.errors import NotReachedError
from toolyard.upstream.http.client import UpstreamEndpoint
from toolyard.upstream.http.direct import DirectHttpClient

BODY = b"[%s]" % (b"1," * 2**20 + b"1")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[int, list[int]]]:
    """The port, on the IPv4 loopback only, and the number of requests of each connection."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(connections)
        connections.append(0)
        while await reader.read(65536):
            connections[number] += 1
            writer.write(HEAD + BODY)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1], connections
    finally:
        listening.close()


def reached(client: DirectHttpClient, url: str) -> UpstreamEndpoint:
    return UpstreamEndpoint("up", client, url, {}, 10.0, 2**30)


@on_both_loops
async def test_requests_share_a_connection_to_a_host_with_several_addresses():
    client = DirectHttpClient()
    async with serving() as (port, connections):
        address = reached(client, f"http://localhost:{port}/mcp")
        for _ in range(2):
            reply = await address.send("POST", address.headers, b"{}")
            body = await reply.body()
            assert (body if isinstance(body, bytes) else body.read(0, body.size)) == BODY
            reply.release()
        assert connections == [2]
        await client.close()


@on_both_loops
async def test_an_address_where_nobody_listens_is_not_reached():
    client = DirectHttpClient()
    async with serving() as (port, _):
        pass
    with pytest.raises(NotReachedError, match=r"cannot be reached \(Connection refused\)"):
        await reached(client, f"http://localhost:{port}/mcp").send("POST", {}, b"{}")
    await client.close()
