"""The ASGI vocabulary, as far as we speak it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")
SSE: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Gone(Exception):
    """The client hung up before its request was complete."""


class TooLarge(Exception):
    """The body is over the limit."""


async def send_json(send: Send, status: int, body: bytes, headers: Headers) -> None:
    head = [JSON, (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, headers: Headers) -> None:
    head = [(b"content-length", b"0"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def read_body(receive: Receive, declared: bytes | None, limit: int) -> bytes:
    if declared is not None and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise TooLarge
    chunks: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Gone
        chunk: bytes = event.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise TooLarge
        if not event.get("more_body", False):
            return chunk if not chunks else b"".join([*chunks, chunk])
        chunks.append(chunk)


async def until_gone(receive: Receive) -> None:
    """Returns when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
