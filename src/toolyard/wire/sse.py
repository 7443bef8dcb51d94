"""Server-sent events: framing out, and an incremental decoder in."""

from collections.abc import Iterator

from msgspec import Struct

PING = b": ping\n\n"


def frame(data: bytes, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """One event. `data` is a JSON document without line breaks, or empty to prime a resumable stream."""
    lines: list[bytes] = []
    if id is not None:
        lines.append(b"id: %s\n" % id.encode())
    if retry_ms is not None:
        lines.append(b"retry: %d\n" % retry_ms)
    lines.append(b"data: %s\n\n" % data if data else b"data:\n\n")
    return b"".join(lines)


class Event(Struct, frozen=True):
    data: str
    event: str = "message"
    id: str | None = None
    retry_ms: int | None = None


class Decoder:
    """Feed it bytes as they come; it yields whole events and keeps the rest."""

    def __init__(self) -> None:
        self._buffer = b""
        self._reset()

    def _reset(self) -> None:
        self._data: list[str] = []
        self._event = "message"
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._buffer += chunk
        # A lone CR at the end may be half of a CRLF, so it waits for the next chunk.
        text = self._buffer.replace(b"\r\n", b"\n")
        if text.endswith(b"\r"):
            text, held = text[:-1], b"\r"
        else:
            held = b""
        *lines, rest = text.replace(b"\r", b"\n").split(b"\n")
        self._buffer = rest + held
        for line in lines:
            if line:
                self._take(line.decode(errors="replace"))
            else:
                if self._data or self._id is not None or self._retry is not None:
                    yield Event("\n".join(self._data), self._event or "message", self._id, self._retry)
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
        elif field == "retry" and value.isascii() and value.isdigit():
            self._retry = int(value)
