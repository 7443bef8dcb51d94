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
from ...wire.secrets import NO_SECRETS, KnownSecrets
from .slices import SLICE, NestingCheck, NestingError, next_turn, slices

BOUND = 2**20
LIMIT = 2**30
HEAD = 64 * 1024
TAIL = 4 * 1024

_PIECE = SLICE
_CHECK_FROM = SLICE
"""A text longer than this is checked as it grows, so that never more than a slice is left to check."""


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
            f"it is too long for memory and could not be written to {_folder()} ({reason}); "
            "TMPDIR can name a folder with more space"
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
    """A text in memory that was checked for nesting and UTF-8."""


class Spool:
    """Collects one text without `secrets`, on disk beyond `bound`. A text longer than a slice is checked for
    nesting.

    `write` does all its work at once, so callers on the event loop write one slice at a time.
    """

    __slots__ = (
        "_bound",
        "_buffer",
        "_checked",
        "_disk",
        "_limit",
        "_nesting",
        "_piece",
        "_secrets",
        "_size",
    )

    def __init__(self, bound: int = BOUND, limit: int = LIMIT, secrets: KnownSecrets = NO_SECRETS) -> None:
        self._bound = bound
        self._limit = limit
        self._secrets = secrets
        self._piece = min(_PIECE, max(bound, 1))
        self._buffer = bytearray()
        self._size = 0
        self._disk: _Disk | None = None
        self._nesting = NestingCheck()
        self._checked = 0  # bytes of the buffer that were checked

    @property
    def head(self) -> bytes:
        """The beginning of the text so far."""
        head = b"" if self._disk is None else self._disk.read(0, HEAD)
        return head + bytes(self._buffer[: HEAD - len(head)])

    def write(self, chunk: bytes) -> None:
        """Add to the text. On SpoolError, `discard` it."""
        self._size += len(chunk)
        if self._size > self._limit:
            self._buffer += chunk[:HEAD]
            raise SpoolLimitError(self._limit)
        self._buffer += chunk
        if self._disk is None and self._size <= self._bound:
            if len(self._buffer) - self._checked >= _CHECK_FROM:
                self._check()
        elif self._disk is None or len(self._buffer) >= self._piece:
            self._check()
            self._spill()

    def finish(self) -> "bytes | Spooled":
        """Return the text; the spool cannot be used any more."""
        if self._disk is None and not self._checked:
            whole = bytes(self._buffer)
            self.discard()
            return self._secrets.clean(whole) if self._secrets.values else whole
        self._finish_check()
        if self._disk is None:
            whole = CheckedText(self._buffer)
            self.discard()
            return whole
        disk, self._disk = self._disk, None
        return Spooled(disk, 0, self._size, self._nesting.values)

    def _finish_check(self) -> None:
        self._check(is_last=True)
        if self._disk is not None:
            self._spill()
        try:
            self._nesting.finish()
        except NestingError as fault:
            raise MalformedTextError(str(fault)) from None

    def discard(self) -> None:
        self._buffer = bytearray()
        self._disk = None

    def _spill(self) -> None:
        """Write what was checked."""
        try:
            if self._disk is None:
                self._disk = _Disk()
            with memoryview(self._buffer)[: self._checked] as view:
                for start in range(0, len(view), _PIECE):
                    self._disk.append(bytes(view[start : start + _PIECE]))
        except OSError as error:
            raise SpoolFullError(error) from None
        del self._buffer[: self._checked]
        self._checked = 0

    def _check(self, is_last: bool = False) -> None:
        """Check what came since, without secrets; its end waits for more, as one of them may begin there."""
        part = bytes(self._buffer[self._checked :])
        if self._secrets.values:
            came = len(part)
            part, rest = (self._secrets.clean(part), b"") if is_last else self._secrets.clean_start(part)
            self._buffer[self._checked :] = part + rest
            self._size += len(part) + len(rest) - came
        try:
            for piece in slices(part):
                self._nesting.feed(piece)
        except NestingError as fault:
            raise MalformedTextError(str(fault)) from None
        self._checked += len(part)


class Spooled(StreamedResult):
    """A JSON text on disk, or a part of one. Parts share the file, which is freed when the last is closed."""

    __slots__ = ("_disk", "_start", "size", "values")

    def __init__(self, disk: "_Disk", start: int, size: int, values: Sequence[tuple[int, int]] = ()) -> None:
        self._disk: _Disk | None = disk
        self._start = start
        self.size = size
        self.values = values
        """The begin and end of each object and list directly inside the outermost one; unknown for a part."""

    def __repr__(self) -> str:
        return f"<Spooled {format_size(self.size)}{' closed' if self._disk is None else ''}>"

    @property
    def head(self) -> bytes:
        return self.read(0, HEAD)

    @property
    def tail(self) -> bytes:
        return self.read(max(0, self.size - TAIL), self.size)

    def read(self, start: int, end: int) -> bytes:
        """Read bytes from `start` to `end`, or to the end of the text."""
        end = min(end, self.size)
        return self._open().read(self._start + start, max(0, end - start))

    def window(self, start: int, end: int) -> "Spooled":
        if not 0 <= start <= end <= self.size:
            raise ValueError(f"no part of {self.size} bytes: {start} to {end}")
        return Spooled(self._open(), self._start + start, end - start)

    async def chunks(self, size: int = _PIECE) -> AsyncIterator[bytes]:
        """Read all of it on the event loop: a slice from the page cache is faster than waking a thread."""
        disk = self._open()
        at, end = self._start, self._start + self.size
        while at < end:
            chunk = disk.read(at, min(size, end - at))
            yield chunk
            at += len(chunk)
            await next_turn()  # the consumer of the chunks may never wait

    def close(self) -> None:
        self._disk = None

    def _open(self) -> "_Disk":
        if self._disk is None:
            raise ValueError("this spooled text was closed")
        return self._disk


class _Disk:
    """An unnamed file, closed when the last reference to this object goes."""

    __slots__ = ("_file", "_size")

    def __init__(self) -> None:
        self._file: FileIO | None = None  # for __del__, if opening fails
        self._size = 0
        self._file = tempfile.TemporaryFile(buffering=0, dir=_folder())  # type: ignore[assignment]  # noqa: SIM115

    def __del__(self) -> None:
        if self._file is None:
            return
        # The kernel takes up to 50 ms to free 100 MiB: not on the event loop.
        if self._size > BOUND:
            threading.Thread(target=self._file.close, daemon=True).start()
        else:
            self._file.close()

    def append(self, piece: bytes) -> None:
        assert self._file is not None
        # JSON has line breaks only between tokens, where a space means the same. Without them the text can be
        # sent on any transport as it is.
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
    """Return the folder for spools: /tmp is in memory on many machines, so /var/tmp is preferred."""
    default = tempfile.gettempdir()
    if "TMPDIR" not in os.environ and os.access("/var/tmp", os.W_OK | os.X_OK):
        return "/var/tmp"
    return default
