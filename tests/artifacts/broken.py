"""A store that is broken in one way: it answers every request alike, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HANGS = b""
SAYS_500 = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
SAYS_403 = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
TALKS_NONSENSE = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<what?>"
SAYS_NO_BUCKET = (
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 77\r\n\r\n"
    b"<Error><Code>NoSuchBucket</Code><Message>There is no bucket</Message></Error>"
)
CUTS = b"HTT"
_TEXT = b'{"message":"\xff\xfe","statusCode":"\xc2\xb2"}'
HALF_LETTERS = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(_TEXT), _TEXT)
_DIGITS = b'{"message":"","statusCode":"%s"}' % (b"9" * 5000)
MANY_DIGITS = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(_DIGITS), _DIGITS)


class Broken:
    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        """Connections that were made."""


@asynccontextmanager
async def broken(answer: bytes) -> AsyncIterator[Broken]:
    told = Broken()
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.asked += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                if answer is HANGS:
                    await over.wait()
                    return
                writer.write(answer)
                await writer.drain()
                if answer is CUTS:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield told
    finally:
        over.set()
        server.close()
