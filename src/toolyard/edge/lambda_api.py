"""Lambda's Runtime API, as its client: the next event, and the answer to it, whole or as it comes.

A few lines of HTTP/1.1 on a socket: importing `http.client` costs 40 ms of CPU at every cold start, and
asyncio's streams keep a buffer in which the last event would stay.
"""

import asyncio
import binascii
import socket
from typing import Any

import msgspec
from msgspec import Struct

from .asgi import Headers
from .lambda_events import joined

BASE = "/2018-06-01/runtime"
STREAM_BYTES = 200 * 1024 * 1024
"""What AWS takes of one streamed answer."""
_PIECE = 64 * 1024
_MAX_HEAD = 256 * 1024
_HTTP = "application/vnd.awslambda.http-integration-response"
_END_OF_PRELUDE = b"\0" * 8
_ERROR_TYPE, _ERROR_BODY = "Lambda-Runtime-Function-Error-Type", "Lambda-Runtime-Function-Error-Body"


class ApiFailure(Exception):
    """The Runtime API answered what it never should, or hung up."""


class Invoked(Struct, frozen=True):
    id: str
    deadline_ms: int
    event: bytes


class Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


class RuntimeApi:
    """One connection, made anew when it was closed."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._host, self._port = host, int(port or 80)
        self._socket: socket.socket | None = None

    async def next(self) -> Invoked:
        """Waits, for hours if need be."""
        answer = await self._request("GET", "/invocation/next")
        if answer.status != 200:
            raise ApiFailure(f"no event, but status {answer.status}")
        headers = answer.headers
        id = headers["lambda-runtime-aws-request-id"]
        return Invoked(id, int(headers.get("lambda-runtime-deadline-ms", "0")), answer.body)

    async def respond(self, id: str, reply: bytes) -> None:
        await self._request("POST", f"/invocation/{id}/response", reply)

    async def fail(self, id: str, error: dict[str, Any]) -> None:
        await self._fail(f"/invocation/{id}/error", error)

    async def fail_init(self, error: dict[str, Any]) -> None:
        await self._fail("/init/error", error)

    async def _fail(self, path: str, error: dict[str, Any]) -> None:
        head = f"{_ERROR_TYPE}: {error['errorType']}\r\n"
        await self._request("POST", path, msgspec.json.encode(error), head)

    async def _request(self, method: str, path: str, body: bytes = b"", head: str = "") -> Answer:
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        await self.send(self.head(method, path, head + length) + body)
        return await self.answer()

    def head(self, method: str, path: str, headers: str) -> bytes:
        return f"{method} {BASE}{path} HTTP/1.1\r\nHost: {self._host}\r\n{headers}\r\n".encode("latin-1")

    async def send(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._socket is None:
                self._socket = socket.socket()
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socket.setblocking(False)
                await loop.sock_connect(self._socket, (self._host, self._port))
            await loop.sock_sendall(self._socket, data)
        except BaseException as error:  # a deadline too: who knows how much of it was sent
            self.close()
            if isinstance(error, OSError):
                raise ApiFailure("the Runtime API takes nothing any more") from None
            raise

    @property
    def connection(self) -> socket.socket | None:
        """What is open now: the pieces of one request have to go the same way."""
        return self._socket

    async def answer(self) -> Answer:
        """The answer to what was sent."""
        head, rest = await self._until(b"\r\n\r\n", b"")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await self._chunks(rest)
        else:
            body, _ = await self._exactly(int(headers.get("content-length", "0")), rest)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(int(first.split(" ", 2)[1]), headers, body)

    async def _chunks(self, rest: bytes) -> bytes:
        found: list[bytes] = []
        while True:
            size, rest = await self._until(b"\r\n", rest)
            length = int(size.partition(b";")[0], 16)
            if not length:
                await self._pass_trailers(rest)
                return b"".join(found)
            chunk, rest = await self._exactly(length + 2, rest)
            found.append(chunk[:-2])

    async def _pass_trailers(self, rest: bytes) -> None:
        """Up to the empty line that ends the answer, else the next one would begin with a trailer."""
        line = b"-"
        while line:
            line, rest = await self._until(b"\r\n", rest)

    async def _until(self, end: bytes, have: bytes) -> tuple[bytes, bytes]:
        """What comes before `end`, and what of the rest is here already."""
        while end not in have:
            if len(have) > _MAX_HEAD:
                self.close()
                raise ApiFailure(f"the Runtime API sent a line or a head of more than {_MAX_HEAD} bytes")
            have += await self._receive()
        before, _, after = have.partition(end)
        return before, after

    async def _exactly(self, size: int, have: bytes) -> tuple[bytes, bytes]:
        pieces, got = [have], len(have)
        while got < size:
            pieces.append(await self._receive())
            got += len(pieces[-1])
        whole = b"".join(pieces)
        return whole[:size], whole[size:]

    async def _receive(self) -> bytes:
        assert self._socket is not None
        try:
            piece = await asyncio.get_running_loop().sock_recv(self._socket, _PIECE)
        except OSError:
            piece = b""
        if not piece:
            self.close()
            raise ApiFailure("the Runtime API closed the connection")
        return piece

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Streaming:
    """An answer that is sent as it comes: an `Outlet`."""

    def __init__(self, api: RuntimeApi, id: str) -> None:
        self._api = api
        self._id = id
        self._connection: socket.socket | None = None
        self.room = STREAM_BYTES
        self.started = False

    def weight(self, chunk: bytes) -> int:
        return len(chunk)

    async def start(self, status: int, headers: Headers) -> None:
        self.started = True
        head = (
            f"Content-Type: {_HTTP}\r\nLambda-Runtime-Function-Response-Mode: streaming\r\n"
            f"Transfer-Encoding: chunked\r\nTrailer: {_ERROR_TYPE}, {_ERROR_BODY}\r\n"
        )
        prelude = msgspec.json.encode({"statusCode": status, "headers": joined(headers), "cookies": []})
        post = self._api.head("POST", f"/invocation/{self._id}/response", head)
        await self._api.send(post + _chunk(prelude + _END_OF_PRELUDE))
        self._connection = self._api.connection

    async def write(self, chunk: bytes) -> None:
        if chunk:
            self.room -= len(chunk)
            await self._send(_chunk(chunk))

    async def _send(self, data: bytes) -> None:
        if self._connection is None or self._api.connection is not self._connection:
            raise ApiFailure("the connection was lost in the middle of an answer")
        await self._api.send(data)

    async def end(self) -> None:
        await self._send(b"0\r\n\r\n")
        await self._api.answer()

    async def break_off(self, error: dict[str, Any]) -> None:
        """It cannot go on: what was sent stays sent, and AWS is told why there is no more."""
        body = binascii.b2a_base64(msgspec.json.encode(error), newline=False).decode()
        trailers = f"{_ERROR_TYPE}: {error['errorType']}\r\n{_ERROR_BODY}: {body}\r\n"
        await self._send(f"0\r\n{trailers}\r\n".encode("latin-1"))
        await self._api.answer()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
