"""A request as it comes in over ASGI: read whole, named, and recorded."""

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from .asked import Reply

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PROXIED = re.compile(r"http://[^/]+")
"""How the target begins when a client takes the emulator for its HTTP proxy: see `storage`."""


class Gone(Exception):
    """The client has left before its request was whole."""


@dataclass(frozen=True)
class Record:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    """Decoded if it was JSON, else bytes; None if there was none."""
    operation: str


@dataclass(frozen=True)
class Incoming:
    method: str
    path: str
    """As it was sent, with its percent signs."""
    query: dict[str, list[str]]
    headers: dict[str, str]
    raw: bytes
    scope: Scope
    receive: Receive
    send: Send

    @classmethod
    async def read(cls, scope: Scope, receive: Receive, send: Send) -> "Incoming":
        return cls(
            scope["method"],
            PROXIED.sub("", scope["raw_path"].decode(), count=1),
            parse_qs(scope["query_string"].decode(), keep_blank_values=True),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            await _body(receive),
            scope,
            receive,
            send,
        )

    def record(self, operation: str) -> Record:
        body: Any = self.raw or None
        if self.raw and self.headers.get("content-type", "").startswith("application/json"):
            try:
                body = json.loads(self.raw)
            except ValueError:
                body = self.raw
        return Record(self.method, self.path, self.query, self.headers, body, operation)

    def replayed(self) -> Receive:
        """The body once more, for an app that reads it itself."""
        waiting = [{"type": "http.request", "body": self.raw, "more_body": False}]

        async def next_event() -> dict[str, Any]:
            return waiting.pop() if waiting else await self.receive()

        return next_event

    async def reply(self, reply: Reply) -> None:
        await self._start(reply)
        await self.send({"type": "http.response.body", "body": reply.bytes})

    async def reply_half(self, reply: Reply) -> None:
        """Promise the whole body and send half of it."""
        await self._start(reply)
        half = reply.bytes[: len(reply.bytes) // 2]
        await self.send({"type": "http.response.body", "body": half, "more_body": True})

    async def _start(self, reply: Reply) -> None:
        body = reply.bytes
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        headers |= {name.lower(): value for name, value in reply.headers.items()}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": reply.status, "headers": pairs})


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Gone
        pieces.append(event.get("body", b""))
        more = event.get("more_body", False)
    return b"".join(pieces)
