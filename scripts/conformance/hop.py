"""`python -m scripts.conformance.hop PORT TARGET`: a loopback hop that adds a credential to every request.

The suite cannot send one. The value of `Authorization` comes from the variable HOP_AUTHORIZATION. The hop
changes the heads of requests and nothing else: bodies and answers pass as their bytes arrive, so that streams
stay streams, and when one side closes its connection, the other side's is closed.
"""

import asyncio
import os
import sys
from contextlib import suppress

PIECE = 65536


class Hop:
    def __init__(self, target: int, authorization: str) -> None:
        self._target = target
        self._line = f"Authorization: {authorization}\r\n".encode()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=2**20)
        except OSError:
            writer.close()
            return
        ways = [
            asyncio.create_task(self._requests(reader, to_writer)),
            asyncio.create_task(_copy(to_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            to_writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, _, rest = head.partition(b"\r\n")
                writer.write(first + b"\r\n" + self._line + rest)
                await _copy_body(head.lower(), reader, writer)
                await writer.drain()


async def _copy_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    headers = {name: value.strip() for name, _, value in lines}
    if headers.get(b"transfer-encoding", b"").endswith(b"chunked"):
        size = -1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            writer.write(line + await reader.readexactly(size + 2))
        return
    left = int(headers.get(b"content-length", b"0"))
    while left:
        piece = await reader.read(min(left, PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        writer.write(piece)
        await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()


async def serve(port: int, target: int, authorization: str) -> None:
    hop = Hop(target, authorization)
    async with await asyncio.start_server(hop.connected, "127.0.0.1", port, limit=2**20) as server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), os.environ["HOP_AUTHORIZATION"]))
