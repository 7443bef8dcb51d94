"""Servers that send without end: each is cut off, with a sentence that says of what there was too much."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.waiting import PATIENCE
from toolyard.upstream.connection import ClientProfile
from toolyard.upstream.errors import InvalidReplyError, UpstreamError
from toolyard.upstream.http.client import HttpClient, PooledHttpClient, UpstreamEndpoint
from toolyard.upstream.http.direct import DirectHttpClient
from toolyard.upstream.http.legacy import LegacyHttpConnection

MIB = 2**20
SENT = 64 * MIB
TAKEN = 16 * MIB
"""What the system's own buffers may hold of a connection that nobody reads any more, and then some."""
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    """Answers each request with `start`, and goes on with `more` until the client hangs up."""

    def __init__(self, start: bytes, more: bytes = b"") -> None:
        self.start, self.more = start, more
        self.sent = 0
        self.requests = 0
        self.connections = 0
        self.ended = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
                self.requests += 1
                writer.write(self.start)
                while self.more and self.sent < SENT:
                    writer.write(self.more)
                    await writer.drain()
                    self.sent += len(self.more)
        writer.close()
        self.ended.set()


@pytest.fixture(params=[PooledHttpClient, DirectHttpClient])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[HttpClient]:
    found: HttpClient = request.param()
    yield found
    await found.close()


@asynccontextmanager
async def upstream(server: Server, client: HttpClient) -> AsyncIterator[UpstreamEndpoint]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    try:
        yield UpstreamEndpoint("up", client, url, {}, 10.0, 2**30)
    finally:
        listening.close()
        for writer in server.writers:
            writer.close()


async def ask(address: UpstreamEndpoint) -> bytes:
    async with asyncio.timeout(PATIENCE):
        reply = await address.send("POST", address.headers, b"{}")
        body = await reply.body()
        reply.release()
        assert isinstance(body, bytes)
        return body


def interim(status: int) -> bytes:
    return b"HTTP/1.1 %d Wait\r\nLink: </a>\r\n\r\n" % status * 2000


ENDLESS = {
    "replies 100": (b"", interim(100), "more than 20 interim replies (status 100)"),
    "replies 102": (b"", interim(102), "more than 20 interim replies (status 102)"),
    "replies 103": (b"", interim(103), "more than 20 interim replies (status 103)"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n" * 8192, "Too many headers"),
    "one header": (b"HTTP/1.1 200 OK\r\nx-a: ", b"b" * 65536, "bytes when reading"),
    "a reason": (b"HTTP/1.1 200 ", b"b" * 65536, "bytes when reading"),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"x-a: b\r\n" * 8192, ""),
    "one trailer": (CHUNKED + b"2\r\n{}\r\n0\r\nx-a: ", b"b" * 65536, ""),
    "a chunk extension": (CHUNKED + b"1;x=", b"b" * 65536, "no end of a reply's head"),
    "chunk extensions": (CHUNKED, b"1;%s\r\n \r\n" % (b"b" * 8192), "no end of a reply's head"),
    "a chunk's size": (CHUNKED, b"0" * 65536, ""),
    "empty lines": (b"", b"\r\n" * 32768, "no end of a reply's head"),
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_what_has_no_end_is_cut_off_with_a_reason(client: HttpClient, kind: str):
    start, more, reason = ENDLESS[kind]
    server = Server(start, more)
    async with upstream(server, client) as address:
        with pytest.raises(UpstreamError) as failed:
            await ask(address)
        await server.ended.wait()
        # aiohttp has limits of its own, and its own words for them.
        assert (reason in failed.value.reason) or isinstance(client, DirectHttpClient)
        if isinstance(client, DirectHttpClient) and "replies" not in kind:
            assert "no end of a reply's head" in failed.value.reason
        assert server.sent < TAKEN
        # Another server, or this one when it has come to its senses, is reached as ever.
        server.start, server.more = OK, b""
        assert await ask(address) == b"{}"


async def test_endless_interim_replies_are_no_answer_and_not_asked_for_again(client: HttpClient):
    server = Server(b"", interim(103))
    async with upstream(server, client) as address:
        with pytest.raises(InvalidReplyError, match="it sent more than 20 interim replies"):
            await ask(address)
        assert server.requests == 1


@pytest.mark.parametrize("status", [100, 102, 103])
async def test_some_interim_replies_are_passed_over(client: HttpClient, status: int):
    server = Server(interim(status)[: len(interim(status)) // 100] + OK)
    async with upstream(server, client) as address:
        assert [await ask(address) for _ in range(3)] == [b"{}"] * 3
        assert server.connections == 1


async def test_chunks_of_a_byte_are_no_excess(client: HttpClient):
    size = 400_000
    server = Server(CHUNKED + b"1\r\n \r\n" * size + b"2\r\n{}\r\n0\r\n\r\n")
    async with upstream(server, client) as address:
        assert await ask(address) == b" " * size + b"{}"


@pytest.mark.parametrize("more", [OK, b"HTTP/1.1 103 Wait\r\n\r\n", b"what nobody asked for"])
async def test_what_a_server_says_unasked_never_answers_the_next_request(client: HttpClient, more: bytes):
    server = Server(OK)
    async with upstream(server, client) as address:
        assert await ask(address) == b"{}"
        writer = server.writers[0]
        writer.write(more.replace(b"{}", b"[]"))
        await writer.drain()
        await server.ended.wait()
        assert await ask(address) == b"{}"
        assert (server.requests, server.connections) == (2, 2)


async def test_a_second_answer_to_one_request_ends_the_connection(client: HttpClient):
    server = Server(OK + OK.replace(b"{}", b"[]"))
    async with upstream(server, client) as address:
        assert await ask(address) == b"{}"
        assert await ask(address) == b"{}"
        assert server.connections == 2


async def test_a_session_that_is_named_twice_is_none(client: HttpClient):
    body = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    server = Server(head + b"Mcp-Session-Id: mine\r\nMcp-Session-Id: yours\r\n\r\n" + body)
    async with upstream(server, client) as address:
        with pytest.raises(InvalidReplyError, match="'Mcp-Session-Id' more than once"):
            await LegacyHttpConnection(address).open(ClientProfile())
