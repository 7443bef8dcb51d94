"""An HTTP server in front of functions, which is what a Function URL is: requests become events, in turn for
each of several instances, because an instance serves one request at a time.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.aws.events import MAX_EVENT, Answered, Asked, event_of
from tests.serving import Client, serving
from toolyard.edge.request import Receive, Scope, Send


@dataclass(frozen=True)
class Streamed:
    """A reply whose body comes piece by piece."""

    status: int
    headers: list[tuple[str, str]]
    pieces: AsyncIterator[bytes]


class Instance(Protocol):
    """One running copy of a function."""

    async def invoke(self, event: dict[str, Any]) -> Answered | Streamed: ...


class Proxy:
    """The Function URL of some instances."""

    path = "/mcp"

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._free: asyncio.Queue[Instance] = asyncio.Queue()
        for instance in instances:
            self._free.put_nowait(instance)
        self.served_by: list[Instance] = []
        """Which instance had each of the requests, in their order."""

    async def close(self) -> None:
        """The instances belong to whoever started them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        body = await _body(receive)
        if len(body) > MAX_EVENT:
            await _answer(send, Answered(413, [], b'{"Message":"Request Entity Too Large"}'))
            return
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        path = scope["raw_path"].decode("latin-1")
        event = event_of(Asked(scope["method"], path, scope["query_string"].decode("latin-1"), headers, body))
        # Whoever waited longest is next, so that requests that follow each other go to different instances.
        instance = await self._free.get()
        try:
            self.served_by.append(instance)
            reply = await instance.invoke(event)
            await (_stream(send, reply) if isinstance(reply, Streamed) else _answer(send, reply))
        finally:
            self._free.put_nowait(instance)


@asynccontextmanager
async def at_a_url(*instances: Instance) -> AsyncIterator[Client]:
    """The instances behind one address of loopback."""
    async with serving(Proxy(instances)) as client:  # pyright: ignore[reportArgumentType]
        yield client


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        event = await receive()
        pieces.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(pieces)


async def _start(send: Send, status: int, headers: list[tuple[str, str]]) -> None:
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _answer(send: Send, reply: Answered) -> None:
    # The length is HTTP's and not the function's to say.
    headers = [(name, value) for name, value in reply.headers if name.lower() != "content-length"]
    if reply.status != 204:
        headers.append(("content-length", str(len(reply.body))))
    await _start(send, reply.status, headers)
    await send({"type": "http.response.body", "body": reply.body})


async def _stream(send: Send, reply: Streamed) -> None:
    await _start(send, reply.status, reply.headers)
    async for piece in reply.pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
