"""Server-sent events: encodes them, and decodes them as bytes arrive."""

from collections.abc import Iterator

from msgspec import Struct

from .messages import one_line

PING = b": ping\n\n"


def frame(data: bytes, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """One event. `data` is a JSON document, or empty to prime a resumable stream."""
    lines: list[bytes] = []
    if id is not None:
        lines.append(b"id: %s\n" % id.encode())
    if retry_ms is not None:
        lines.append(b"retry: %d\n" % retry_ms)
    lines.append(b"data: %s\n\n" % one_line(data) if data else b"data:\n\n")
    return b"".join(lines)


class SseEvent(Struct, frozen=True):
    data: str
    event: str = "message"
    id: str | None = None
    retry_ms: int | None = None


class EventTooLongError(ValueError):
    """An event grew over the limit before it ended."""


class SseDecoder:
    """Feed it bytes as they come; it yields whole events and keeps the rest.

    Each byte is looked at once, however small the pieces. `max_event` bounds what is kept.
    """

    def __init__(self, max_event: int = 64 * 1024 * 1024) -> None:
        self._max_event = max_event
        self._line: list[bytes] = []
        self._held_cr = False
        self._reset()

    def _reset(self) -> None:
        self._data: list[str] = []
        self._event = "message"
        self._id: str | None = None
        self._retry: int | None = None
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        if self._held_cr and chunk:
            # A CR at the end of the last chunk ended its line; an LF right after belongs to it.
            self._held_cr = False
            chunk = chunk.removeprefix(b"\n")
        self._held_cr = chunk.endswith(b"\r")
        self._size += len(chunk)
        if self._size > self._max_event + len(chunk):
            raise EventTooLongError(f"an event is over the limit of {self._max_event} bytes")
        first, *others = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line.append(first)
        for following in others:
            line = b"".join(self._line)
            self._line = [following]
            if line:
                self._take(line.decode(errors="replace"))
            else:
                if self._data or self._id is not None or self._retry is not None:
                    yield SseEvent("\n".join(self._data), self._event or "message", self._id, self._retry)
                self._reset()

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id":
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit() and len(value) < 10:
            self._retry = int(value)
