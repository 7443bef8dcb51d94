"""Server-sent events from bytes as they arrive. An event of any size is held in a spool, not in memory."""

from collections.abc import Iterator

from msgspec import Struct

from ...wire.secrets import NO_SECRETS, KnownSecrets
from ..messages.spool import Spool, Spooled

MAX_FIELD = 64 * 1024


class SpooledEvent(Struct, frozen=True):
    data: bytes | Spooled
    event: str = "message"
    id: str | None = None
    retry_ms: int | None = None


class _Nowhere:
    """Where a line goes that is too long for a field other than `data`."""

    def write(self, chunk: bytes) -> None:
        return None


_NOWHERE = _Nowhere()


class EventReader:
    """Feed it bytes as they come; it yields whole events.

    The data of events have no `secrets`, but for those named `as_they_are`.
    """

    def __init__(
        self, bound: int, limit: int, secrets: KnownSecrets = NO_SECRETS, as_they_are: str = ""
    ) -> None:
        self._bound = bound
        self._limit = limit
        self._secrets = secrets
        self._as_they_are = as_they_are
        self._line = bytearray()
        self._held_cr = False
        self.blocks = 0
        """How many empty lines came: each ends an event, or a comment that says the server is there."""
        self._open: Spool | _Nowhere | None = None
        """Where the data line goes that is being read, once it is too long for a line."""
        self._reset()

    def _reset(self) -> None:
        self._data: Spool | None = None
        self._event = "message"
        self._id: str | None = None
        self._retry: int | None = None

    @property
    def _is_blank(self) -> bool:
        """Whether nothing of an event has come: a server may send empty lines without end."""
        return self._data is None and self._id is None and self._retry is None and self._event == "message"

    @property
    def is_long(self) -> bool:
        """Whether the event that is being read is longer than one slice."""
        return self._open is not None

    def discard(self) -> None:
        if self._data is not None:
            self._data.discard()

    def feed(self, chunk: bytes) -> Iterator[SpooledEvent]:
        if self._held_cr:
            chunk = chunk.removeprefix(b"\n")
        self._held_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if self._open is not None:
                self._open.write(line)
                self._open = None
                continue
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            if line:
                self._take(line)
                continue
            self.blocks += 1
            if not self._is_blank and (event := self._finish()) is not None:
                yield event
        if rest:
            self._keep(rest)

    def _keep(self, rest: bytes) -> None:
        """The beginning of a line whose end has not come yet."""
        if self._open is not None:
            self._open.write(rest)
            return
        self._line += rest
        if len(self._line) > MAX_FIELD:
            line = bytes(self._line)
            self._line.clear()
            if line.startswith(b"data:"):
                self._open = self._write(line[5:])
            else:
                self._open = _NOWHERE

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._write(value)
            return
        text = value.removeprefix(b" ").decode(errors="replace")
        if field == b"event":
            self._event = text
        elif field == b"id":
            self._id = text
        elif field == b"retry" and text.isascii() and text.isdigit() and len(text) < 10:
            self._retry = int(text)

    def _write(self, value: bytes) -> Spool:
        if self._data is None:
            secrets = NO_SECRETS if self._event == self._as_they_are else self._secrets
            self._data = Spool(self._bound, self._limit, secrets)
        else:
            self._data.write(b"\n")
        self._data.write(value.removeprefix(b" "))
        return self._data

    def _finish(self) -> SpooledEvent | None:
        data = b"" if self._data is None else self._data.finish()
        event = SpooledEvent(data, self._event or "message", self._id, self._retry)
        empty = self._data is None and self._id is None and self._retry is None
        self._reset()
        return None if empty else event
