"""From a stream of bytes to whole lines of any length, one JSON text each."""

from ..wire.messages import Id
from .envelope import guess_id
from .spool import BOUND, LIMIT, TAIL, Spool, Spooled, SpoolError


class Skipped(Exception):
    """A line that could not be kept and was skipped. `id` is its message's, where that can be told."""

    def __init__(self, reason: str, head: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.id: Id | None = None
        self._head = head
        self._tail = b""

    def add(self, piece: bytes) -> None:
        self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def end(self) -> None:
        self.id = guess_id(self._head, self._tail)
        self._head = self._tail = b""


Line = bytes | Spooled | Skipped


class LineSplitter:
    def __init__(self, bound: int = BOUND, limit: int = LIMIT) -> None:
        self._bound = bound
        self._limit = limit
        self._short = min(bound, limit)
        self._open: Spool | Skipped | None = None
        self.skipped = 0
        """Bytes of the line under way that were thrown away; 0 when it is one that can be kept."""

    def feed(self, data: bytes) -> list[Line]:
        """The lines that end in these bytes; empty ones are left out."""
        lines: list[Line] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._open is None and end - start <= self._short:
                line = data[start:end]
                if line and not line.isspace():
                    lines.append(line)
            else:
                self._add(data[start:end])
                lines += self.finish()
            start = end + 1
        if start < len(data):
            self._add(data[start:])
        return lines

    def finish(self) -> list[Line]:
        """The line that is under way, as if it ended here."""
        line, self._open = self._open, None
        self.skipped = 0
        if isinstance(line, Spool):
            try:
                whole = line.finish()
            except SpoolError as error:
                line, _ = Skipped(str(error), line.head), line.discard()
            else:
                return [] if isinstance(whole, bytes) and not whole.strip() else [whole]
        if line is None:
            return []
        line.end()
        return [line]

    def discard(self) -> None:
        self._open = None

    def _add(self, piece: bytes) -> None:
        if self._open is None:
            self._open = Spool(self._bound, self._limit)
        if isinstance(self._open, Skipped):
            self.skipped += len(piece)
            self._open.add(piece)
            return
        try:
            self._open.write(piece)
        except SpoolError as error:
            skipped = Skipped(str(error), self._open.head)
            skipped.add(piece)
            self._open.discard()
            self._open = skipped
