"""An HTTP API on loopback of which a test decides every byte, and that remembers what it was asked."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass
class Asked:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def plain_path(self) -> str:
        return unquote(self.path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Raw:
    """Bytes to answer with, and what happens then."""

    data: bytes
    close: bool = False
    never: bool = False
    """Say nothing more, and keep the connection."""
    breaks: bool = False
    """Break the connection instead of closing it, when what was sent has been read."""
    apart: bool = False
    """Send every byte by itself."""


Answer = Raw | Callable[[Asked], Raw]


def reply(body: Any = None, status: int = 200, kind: str = "application/json", **headers: str) -> Raw:
    """A proper response; what is not bytes is written as JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Said"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if data:
        lines.append(f"Content-Type: {kind}")
    if status != 204:
        lines.append(f"Content-Length: {len(data)}")
    return Raw("\r\n".join([*lines, "", ""]).encode() + data)


NEVER = Raw(b"", never=True)
HANG_UP = Raw(b"", close=True)


@dataclass
class Loopback:
    port: int = 0
    asked: list[Asked] = field(default_factory=list[Asked])
    answers: dict[str, list[Answer]] = field(default_factory=dict[str, list[Answer]])
    connections: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closed a connection."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def on(self, route: str, *answers: Answer) -> None:
        """`GET /things`: what it answers, one after the other; the last one from then on."""
        self.answers[route] = list(answers)

    def _answer(self, asked: Asked) -> Raw:
        known = self.answers.get(f"{asked.method} {asked.path}")
        if known is None:
            return reply({"error": f"nothing at {asked.method} {asked.path}"}, 404)
        answer = known.pop(0) if len(known) > 1 else known[0]
        return answer if isinstance(answer, Raw) else answer(asked)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                asked = await _read(reader, number)
                self.asked.append(asked)
                self.arrived.set()
                answer = self._answer(asked)
                for piece in [bytes([byte]) for byte in answer.data] if answer.apart else [answer.data]:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if answer.breaks:
                    await _broken(writer)
                if answer.never:
                    await reader.read()
                if answer.close or answer.never:
                    break
        self.hung_up.set()
        writer.close()


async def _broken(writer: asyncio.StreamWriter) -> None:
    for _ in range(20):  # turns of the loop in which the other side reads
        await asyncio.sleep(0)
    at_once = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()


async def _read(reader: asyncio.StreamReader, number: int) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        before = headers.get(name.lower())
        headers[name.lower()] = value.strip() if before is None else f"{before}, {value.strip()}"
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body, number)


@asynccontextmanager
async def loopback() -> AsyncIterator[Loopback]:
    api = Loopback()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    api.port = server.sockets[0].getsockname()[1]
    try:
        yield api
    finally:
        server.close()
        for writer in api.writers:
            writer.close()
        await server.wait_closed()
