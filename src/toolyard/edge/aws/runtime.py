"""`python -m toolyard.edge.aws.runtime`: takes events from Lambda's Runtime API, one after the other.

Replaces AWS's own loop for Python, which cannot stream and holds an event until the next one comes. With
TOOLYARD_STREAM=0 replies are sent whole. Speaks HTTP/1.1 on a socket: importing `http.client` costs 40 ms
of CPU at every cold start, and asyncio's streams would keep the last event in their buffer.
"""

import asyncio
import binascii
import gc
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..request import Headers
from .events import BufferedResponse, ResponseWriter, joined_headers, kind_of

BASE = "/2018-06-01/runtime"
STREAM_BYTES = 200 * 1024 * 1024
"""What AWS takes of one streamed answer."""
_PIECE = 64 * 1024
_MAX_HEAD = 256 * 1024
_HTTP = "application/vnd.awslambda.http-integration-response"
_END_OF_PRELUDE = b"\0" * 8
_ERROR_TYPE, _ERROR_BODY = "Lambda-Runtime-Function-Error-Type", "Lambda-Runtime-Function-Error-Body"


class RuntimeApiError(Exception):
    """The Runtime API answered what it never should, or hung up."""


class InvokedEvent(Struct, frozen=True):
    id: str
    deadline_ms: int
    event: bytes


class RuntimeApiResponse(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


class RuntimeApi:
    """One connection, made anew when it was closed."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._host, self._port = host, int(port or 80)
        self._socket: socket.socket | None = None

    async def next(self) -> InvokedEvent:
        """Waits, for hours if need be."""
        answer = await self._request("GET", "/invocation/next")
        if answer.status != 200:
            raise RuntimeApiError(f"no event, but status {answer.status}")
        headers = answer.headers
        id = headers["lambda-runtime-aws-request-id"]
        return InvokedEvent(id, int(headers.get("lambda-runtime-deadline-ms", "0")), answer.body)

    async def respond(self, id: str, reply: bytes) -> None:
        await self._request("POST", f"/invocation/{id}/response", reply)

    async def fail(self, id: str, error: dict[str, Any]) -> None:
        await self._fail(f"/invocation/{id}/error", error)

    async def fail_init(self, error: dict[str, Any]) -> None:
        await self._fail("/init/error", error)

    async def _fail(self, path: str, error: dict[str, Any]) -> None:
        head = f"{_ERROR_TYPE}: {error['errorType']}\r\n"
        await self._request("POST", path, msgspec.json.encode(error), head)

    async def _request(self, method: str, path: str, body: bytes = b"", head: str = "") -> RuntimeApiResponse:
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
                raise RuntimeApiError("cannot write to the Runtime API") from None
            raise

    @property
    def connection(self) -> socket.socket | None:
        """What is open now: the pieces of one request have to go the same way."""
        return self._socket

    async def answer(self) -> RuntimeApiResponse:
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
        return RuntimeApiResponse(int(first.split(" ", 2)[1]), headers, body)

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
                raise RuntimeApiError(f"the Runtime API sent a line or a head of more than {_MAX_HEAD} bytes")
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
            raise RuntimeApiError("the Runtime API closed the connection")
        return piece

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class StreamedResponse:
    """An answer that is sent as it comes: an `Outlet`."""

    def __init__(self, api: RuntimeApi, id: str) -> None:
        self._api = api
        self._id = id
        self._connection: socket.socket | None = None
        self.remaining = STREAM_BYTES
        self.started = False

    def size_of(self, chunk: bytes) -> int:
        return len(chunk)

    async def start(self, status: int, headers: Headers) -> None:
        self.started = True
        head = (
            f"Content-Type: {_HTTP}\r\nLambda-Runtime-Function-Response-Mode: streaming\r\n"
            f"Transfer-Encoding: chunked\r\nTrailer: {_ERROR_TYPE}, {_ERROR_BODY}\r\n"
        )
        prelude = msgspec.json.encode(
            {"statusCode": status, "headers": joined_headers(headers), "cookies": []}
        )
        post = self._api.head("POST", f"/invocation/{self._id}/response", head)
        await self._api.send(post + _chunk(prelude + _END_OF_PRELUDE))
        self._connection = self._api.connection

    async def write(self, chunk: bytes) -> None:
        if chunk:
            self.remaining -= len(chunk)
            await self._send(_chunk(chunk))

    async def _send(self, data: bytes) -> None:
        if self._connection is None or self._api.connection is not self._connection:
            raise RuntimeApiError("the connection was lost in the middle of an answer")
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


logger = logging.getLogger("toolyard.function")

API_VARIABLE, HANDLER_VARIABLE = "AWS_LAMBDA_RUNTIME_API", "_HANDLER"
FOLDER_VARIABLE, STREAM_VARIABLE = "LAMBDA_TASK_ROOT", "TOOLYARD_STREAM"


class Handler(Protocol):
    """What `toolyard.app.aws_lambda.function` makes."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    async def answer(self, event: Any, context: Any, outlet: ResponseWriter) -> None: ...


AnswerEvent = Callable[[RuntimeApi, Handler, InvokedEvent], Awaitable[None]]
"""Answers one event, in one of the two ways."""


class InvocationContext:
    """What the handler is told of an invocation."""

    def __init__(self, request_id: str, deadline_ms: int) -> None:
        self.aws_request_id = request_id
        self._deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self._deadline_ms - int(time.time() * 1000))


def main() -> None:
    api = RuntimeApi(os.environ[API_VARIABLE])
    try:
        handler = _handler(os.environ.get(HANDLER_VARIABLE, "function.handler"))
    except BaseException as error:  # whatever it was, AWS is to show it
        traceback.print_exc()
        asyncio.run(api.fail_init(error_report(error)))
        sys.exit(1)
    try:
        handler.loop.run_until_complete(_serve(api, handler, os.environ.get(STREAM_VARIABLE) != "0"))
    except RuntimeApiError as error:
        sys.exit(f"the Runtime API is gone: {error}")


def _handler(name: str) -> Handler:
    """`module.attribute`, as AWS names handlers."""
    sys.path.insert(0, os.environ.get(FOLDER_VARIABLE) or os.getcwd())
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module.replace("/", ".")), attribute)
    if not hasattr(found, "answer"):
        raise TypeError(f"{name!r} is no handler that streams; make it with toolyard.app.aws_lambda.function")
    return found


async def _serve(api: RuntimeApi, handler: Handler, streams: bool) -> None:
    answer = _streamed if streams else _whole
    while True:
        # In a call of its own: when it returns, nothing here holds on to the event.
        await _answered(answer, api, handler, await api.next())


async def _answered(answer: AnswerEvent, api: RuntimeApi, handler: Handler, invoked: InvokedEvent) -> None:
    try:
        await answer(api, handler, invoked)
        return
    except RuntimeApiError as error:  # such as when its caller has hung up: others will come
        logger.error("an answer was lost: %s", error)
    gc.collect()  # the error and the frames it came through hold each other, and one of them the event


async def _streamed(api: RuntimeApi, handler: Handler, invoked: InvokedEvent) -> None:
    outlet = StreamedResponse(api, invoked.id)
    try:
        event = msgspec.json.decode(invoked.event)
        await handler.answer(event, InvocationContext(invoked.id, invoked.deadline_ms), outlet)
        await outlet.end()
    except RuntimeApiError:
        raise
    except Exception as error:
        logger.error("an invocation failed", exc_info=error)
        await (
            outlet.break_off(error_report(error))
            if outlet.started
            else api.fail(invoked.id, error_report(error))
        )


async def _whole(api: RuntimeApi, handler: Handler, invoked: InvokedEvent) -> None:
    try:
        event = msgspec.json.decode(invoked.event)
        outlet = BufferedResponse(kind_of(event))
        await handler.answer(event, InvocationContext(invoked.id, invoked.deadline_ms), outlet)
        reply = msgspec.json.encode(outlet.reply())
    except Exception as error:
        logger.error("an invocation failed", exc_info=error)
        await api.fail(invoked.id, error_report(error))
    else:
        await api.respond(invoked.id, reply)


def error_report(error: BaseException) -> dict[str, Any]:
    """An error in the form that the Runtime API takes. Its words are for AWS's console, not for callers."""
    lines = traceback.format_tb(error.__traceback__)
    return {"errorType": type(error).__name__, "errorMessage": str(error), "stackTrace": lines}


if __name__ == "__main__":
    main()
