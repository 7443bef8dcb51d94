"""JSON texts of any size: small ones in memory, large ones in an unnamed temporary file.

SpoolError              a text that could not be kept
├── SpoolLimitError     it is longer than the limit
├── SpoolFullError      the disk is full, or cannot be written to
└── MalformedTextError  too long to decode at once, and known not to be JSON
"""

import os
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from functools import cache
from io import FileIO

from ...wire.call import StreamedResult
from .slices import SLICE, NestingCheck, NestingError, next_turn

BOUND = 2**20
LIMIT = 2**30
HEAD = 64 * 1024
TAIL = 4 * 1024

_PIECE = SLICE
_CHECK_FROM = SLICE
"""From here on a text is checked as it grows: there is never more than a slice to catch up with."""


class SpoolError(Exception):
    pass


class SpoolLimitError(SpoolError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"it is longer than the limit of {format_size(limit)}")
        self.limit = limit


class SpoolFullError(SpoolError):
    def __init__(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(
            f"it is too long for memory and could not be kept in {_folder()} ({reason}); "
            "TMPDIR can name a folder with more room"
        )


class MalformedTextError(SpoolError):
    pass


def format_size(size: int) -> str:
    """2147483648 is `2 GiB`."""
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << exponent:
            return f"{size / (1 << exponent):.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"


class CheckedText(bytes):
    """A text in memory that is known to be well nested and UTF-8."""


class Spool:
    """Collects one text. Beyond `bound` it goes to disk. What is longer than a slice must be well nested.

    Whoever writes more than a slice at a time waits for it: it is all done at once.
    """

    __slots__ = ("_balance", "_bound", "_buffer", "_checked", "_disk", "_limit", "_piece", "_size")

    def __init__(self, bound: int = BOUND, limit: int = LIMIT) -> None:
        self._bound = bound
        self._limit = limit
        self._piece = min(_PIECE, max(bound, 1))
        self._buffer = bytearray()
        self._size = 0
        self._disk: _Disk | None = None
        self._balance = NestingCheck()
        self._checked = 0  # how much of the buffer the balance has seen

    @property
    def head(self) -> bytes:
        """The beginning of what has come so far."""
        head = b"" if self._disk is None else self._disk.read(0, HEAD)
        return head + bytes(self._buffer[: HEAD - len(head)])

    def write(self, chunk: bytes) -> None:
        """SpoolError when it cannot be kept; then `discard` it."""
        self._size += len(chunk)
        if self._size > self._limit:
            self._buffer += chunk[:HEAD]
            raise SpoolLimitError(self._limit)
        self._buffer += chunk
        if self._disk is not None:
            if len(self._buffer) >= self._piece:
                self._spill()
        elif self._size > self._bound:
            self._spill()
        elif len(self._buffer) - self._checked >= _CHECK_FROM:
            self._check()

    def finish(self) -> "bytes | Spooled":
        """The text; the spool is empty and of no more use."""
        if self._disk is None and not self._checked:
            whole = bytes(self._buffer)
            self.discard()
            return whole
        self._settle()
        if self._disk is None:
            whole = CheckedText(self._buffer)
            self.discard()
            return whole
        disk, self._disk = self._disk, None
        return Spooled(disk, 0, self._size, self._balance.values)

    def _settle(self) -> None:
        """It has ended: look at the rest."""
        self._check() if self._disk is None else self._spill()
        try:
            self._balance.finish()
        except NestingError as fault:
            raise MalformedTextError(str(fault)) from None

    def discard(self) -> None:
        self._buffer = bytearray()
        self._disk = None

    def _spill(self) -> None:
        self._check()
        try:
            if self._disk is None:
                self._disk = _Disk()
            with memoryview(self._buffer) as view:
                for start in range(0, len(view), _PIECE):
                    self._disk.append(bytes(view[start : start + _PIECE]))
        except OSError as error:
            raise SpoolFullError(error) from None
        self._buffer.clear()
        self._checked = 0

    def _check(self) -> None:
        try:
            with memoryview(self._buffer)[self._checked :] as view:
                for at in range(0, len(view), SLICE):
                    self._balance.feed(bytes(view[at : at + SLICE]))
        except NestingError as fault:
            raise MalformedTextError(str(fault)) from None
        self._checked = len(self._buffer)


class Spooled(StreamedResult):
    """A JSON text on disk, or a part of one. Views of one file share it; the last to close frees it."""

    __slots__ = ("_disk", "_start", "size", "values")

    def __init__(self, disk: "_Disk", start: int, size: int, values: Sequence[tuple[int, int]] = ()) -> None:
        self._disk: _Disk | None = disk
        self._start = start
        self.size = size
        self.values = values
        """Where the objects and lists directly inside the outermost one begin and end; unknown for a part."""

    def __repr__(self) -> str:
        return f"<Spooled {format_size(self.size)}{' closed' if self._disk is None else ''}>"

    @property
    def head(self) -> bytes:
        return self.read(0, HEAD)

    @property
    def tail(self) -> bytes:
        return self.read(max(0, self.size - TAIL), self.size)

    def read(self, start: int, end: int) -> bytes:
        """Some of it; less than was asked for where it ends."""
        end = min(end, self.size)
        return self._open().read(self._start + start, max(0, end - start))

    def window(self, start: int, end: int) -> "Spooled":
        if not 0 <= start <= end <= self.size:
            raise ValueError(f"no part of {self.size} bytes: {start} to {end}")
        return Spooled(self._open(), self._start + start, end - start)

    async def chunks(self, size: int = _PIECE) -> AsyncIterator[bytes]:
        """All of it. It was written moments ago and comes from the page cache: a slice takes less time than
        a thread would to be woken up."""
        disk = self._open()
        at, end = self._start, self._start + self.size
        while at < end:
            chunk = disk.read(at, min(size, end - at))
            yield chunk
            at += len(chunk)
            await next_turn()  # whoever takes the chunks may never wait

    def close(self) -> None:
        self._disk = None

    def _open(self) -> "_Disk":
        if self._disk is None:
            raise ValueError("this spooled text was closed")
        return self._disk


class _Disk:
    """A file without a name. Whoever holds this object owns it, and the last one to let go closes it."""

    __slots__ = ("_file", "_size")

    def __init__(self) -> None:
        self._file: FileIO | None = None  # where opening fails there is still an object to tidy up
        self._size = 0
        self._file = tempfile.TemporaryFile(buffering=0, dir=_folder())  # type: ignore[assignment]  # noqa: SIM115

    def __del__(self) -> None:
        if self._file is None:
            return
        # Freeing what was written takes the kernel up to 50 ms for 100 MiB: not on the loop.
        if self._size > BOUND:
            threading.Thread(target=self._file.close, daemon=True).start()
        else:
            self._file.close()

    def append(self, piece: bytes) -> None:
        assert self._file is not None
        # JSON breaks lines between tokens only, where a space is as good; and without them the text can
        # be put into any transport as it is.
        if b"\n" in piece or b"\r" in piece:
            piece = piece.replace(b"\n", b" ").replace(b"\r", b" ")
        view = memoryview(piece)
        while view:
            written = self._file.write(view)
            view = view[written:]
        self._size += len(piece)

    def read(self, start: int, size: int) -> bytes:
        assert self._file is not None
        chunk = os.pread(self._file.fileno(), size, start)
        if not chunk and size and start < self._size:
            raise OSError(f"a spooled text of {self._size} bytes ended at {start}")
        return chunk


@cache
def _folder() -> str:
    """/tmp is in memory on many machines, and this is to spare memory."""
    default = tempfile.gettempdir()
    if "TMPDIR" not in os.environ and os.access("/var/tmp", os.W_OK | os.X_OK):
        return "/var/tmp"
    return default
