"""A stand-in for Lambda's Runtime API that shows what a runtime sends at the moment it sends it.

AWS's emulator gathers a streamed reply before it hands it on, so streaming can only be seen here.
"""

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.aws.events import PRELUDE_END, Answered, answer_of
from tests.aws.proxy import Streamed
from tests.aws.rie import PATIENCE, bare_environment

_BASE = "/2018-06-01/runtime"
_HTTP = "application/vnd.awslambda.http-integration-response"


@dataclass
class Invocation:
    """One event that a runtime was given, and what has come back."""

    event: Any
    limit_s: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    headers: dict[str, str] = field(default_factory=dict[str, str])
    pieces: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue[bytes])
    """An empty one is the end."""
    trailers: dict[str, str] = field(default_factory=dict[str, str])
    error: Any = None

    @property
    def streams(self) -> bool:
        return self.headers.get("lambda-runtime-function-response-mode") == "streaming"

    async def rest(self) -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(PATIENCE):
                piece = await self.pieces.get()
            if not piece:
                return
            yield piece

    async def reply(self) -> Answered | Streamed:
        """The reply as a Function URL hands it on: at once, when it streams."""
        async with asyncio.timeout(PATIENCE):
            await self.answered.wait()
        if self.error is not None:
            return Answered(502, [], b'{"Message":"Internal Server Error"}')
        if not self.streams:
            return answer_of(b"".join([piece async for piece in self.rest()]))
        assert self.headers["content-type"] == _HTTP, self.headers
        return await self._streamed()

    async def _streamed(self) -> Streamed:
        pieces = self.rest()
        begun = b""
        while PRELUDE_END not in begun:
            piece = await anext(pieces, None)
            assert piece is not None, f"the reply ended inside its prelude: {begun!r}"
            begun += piece
        prelude, _, first = begun.partition(PRELUDE_END)
        said = json.loads(prelude)
        return Streamed(said["statusCode"], list(said.get("headers", {}).items()), _and_then(first, pieces))


async def _and_then(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece


class RuntimeApi:
    """The API that one runtime talks to."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Invocation] = asyncio.Queue()
        self._open: dict[str, Invocation] = {}
        self._conversations: set[asyncio.Task[Any] | None] = set()
        self.idle = asyncio.Event()
        """Set while the runtime asks for the next event."""
        self.init_error: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def give(self, event: Any, limit_s: float) -> Invocation:
        invocation = Invocation(event, limit_s)
        self._waiting.put_nowait(invocation)
        return invocation

    def close(self) -> None:
        for conversation in self._conversations:
            assert conversation is not None
            conversation.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._conversations.add(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
                method, path, _ = first.split(" ")
                pairs = (line.partition(":") for line in lines)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                writer.write(await self._answer(method, path, headers, reader))
                await writer.drain()
        writer.close()

    async def _answer(
        self, method: str, path: str, headers: dict[str, str], reader: asyncio.StreamReader
    ) -> bytes:
        match method, *path.removeprefix(_BASE).strip("/").split("/"):
            case "GET", "invocation", "next":
                return await self._next()
            case "POST", "invocation", id, "response" if id in self._open:
                invocation = self._open[id]
                invocation.headers = headers
                invocation.answered.set()
                await _receive(reader, headers, invocation)
                del self._open[id]
            case "POST", "invocation", id, "error" if id in self._open:
                invocation = self._open.pop(id)
                invocation.error = await _whole(reader, headers)
                invocation.answered.set()
            case "POST", "init", "error":
                self.init_error.set_result(await _whole(reader, headers))
            case _:
                return _http(404, {}, b'{"errorMessage":"no such page"}')
        return _http(202, {}, b'{"status":"OK"}')

    async def _next(self) -> bytes:
        self.idle.set()
        invocation = await self._waiting.get()
        self.idle.clear()
        self._open[invocation.id] = invocation
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.id,
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + invocation.limit_s) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:012345678912:function:tests",
            "Lambda-Runtime-Trace-Id": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0",
        }
        return _http(200, headers, json.dumps(invocation.event).encode())


class Runtime:
    """A runtime process at such an API: an instance that streams."""

    def __init__(
        self, api: RuntimeApi, process: asyncio.subprocess.Process, log: Path, timeout: float
    ) -> None:
        self.api = api
        self.process = process
        self._log = log
        self._limit_s = timeout

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    async def invoke(self, event: dict[str, Any]) -> Answered | Streamed:
        return await self.api.give(event, self._limit_s).reply()


@asynccontextmanager
async def running(
    folder: Path, log: Path, variables: Mapping[str, str], *, command: Sequence[str], limit_s: float = 30.0
) -> AsyncIterator[Runtime]:
    """Starts a runtime in a function's folder; `limit_s` is how long it may take."""
    api = RuntimeApi()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    port = server.sockets[0].getsockname()[1]
    environment = {
        **bare_environment(folder),
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}",
        "_HANDLER": "function.handler",
        "AWS_LAMBDA_FUNCTION_NAME": "tests",
        **variables,
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield Runtime(api, process, log, limit_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        api.close()
        server.close()


async def _receive(reader: asyncio.StreamReader, headers: dict[str, str], invocation: Invocation) -> None:
    """A reply, piece by piece; one that breaks off ends where it broke."""
    try:
        async for piece in _pieces(reader, headers, invocation.trailers):
            invocation.pieces.put_nowait(piece)
    finally:
        invocation.pieces.put_nowait(b"")


async def _pieces(
    reader: asyncio.StreamReader, headers: dict[str, str], trailers: dict[str, str]
) -> AsyncIterator[bytes]:
    if headers.get("transfer-encoding") != "chunked":
        if length := int(headers.get("content-length", "0")):
            yield await reader.readexactly(length)
        return
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield (await reader.readexactly(size + 2))[:-2]
    while line := (await reader.readuntil(b"\r\n")).decode("latin-1").rstrip("\r\n"):
        name, _, value = line.partition(":")
        trailers[name.lower()] = value.strip()


async def _whole(reader: asyncio.StreamReader, headers: dict[str, str]) -> Any:
    return json.loads(b"".join([piece async for piece in _pieces(reader, headers, {})]))


def _http(status: int, headers: dict[str, str], body: bytes) -> bytes:
    said = {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"HTTP/1.1 {status} OK", *(f"{name}: {value}" for name, value in said.items()), "", ""]
    return "\r\n".join(lines).encode() + body
