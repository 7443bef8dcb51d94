"""Clients that send too much, or too slowly, do not hold what others need."""

import asyncio

from tests.serving import serving
from tests.waiting import PATIENCE
from toolyard.edge.http.server import MAX_HEAD_BYTES
from toolyard.kit import Pace, Server


def server() -> Server:
    made = Server("slow")

    @made.tool
    async def echo(text: str) -> str:
        return text

    return made


async def _status(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return (await reader.readline()).split(b" ", 1)[1].strip()


async def test_a_head_without_an_end_is_cut_off():
    async with serving(server().asgi()) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"POST /mcp HTTP/1.1\r\nX-A: " + b"a" * (MAX_HEAD_BYTES + 65536))
        assert await _status(reader) == b"431 Request Header Fields Too Large"
        writer.close()


async def test_many_small_headers_without_an_end_are_cut_off_too():
    async with serving(server().asgi()) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"POST /mcp HTTP/1.1\r\n" + b"X-A: a\r\n" * (MAX_HEAD_BYTES // 6))
        assert await _status(reader) == b"431 Request Header Fields Too Large"
        writer.close()


async def test_a_body_that_never_ends_is_given_up():
    async with serving(server().asgi(pace=Pace(read_body=0.05))) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b'Content-Length: 99\r\n\r\n{"jsonrpc"')
        assert await _status(reader) == b"408 Request Timeout"
        writer.close()
