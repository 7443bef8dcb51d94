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


def check_declared(length: bytes | None, limit: int) -> None:
    """Refuse by its Content-Length a body that would be refused anyway."""
    if length is not None and length.isdigit() and (len(length) > 18 or int(length) > limit):
        raise TooLarge


async def read_rest(first: Event, receive: Receive, limit: int) -> bytes:
    """A whole body, of which `first` is the first piece."""
    chunks: list[bytes] = []
    size = 0
    event = first
    while True:
        if event["type"] == "http.disconnect":
            raise Gone
        chunk: bytes = event.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise TooLarge
        if not event.get("more_body", False):
            return b"".join(chunks)
        event = await receive()


async def until_gone(receive: Receive) -> None:
    """Returns when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
