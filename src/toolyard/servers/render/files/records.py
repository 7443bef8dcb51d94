"""Records of a log, newest first: lines that belong together are put together, also across rotated files.

Messages are as they are in the file; whoever shows one makes it fit for that.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from ..entries import Entry
from ..wording import label
from .backwards import Budget, backwards
from .folder import LogFile, LogGroup, opened
from .formats import TRACEBACK, Head, Reader, level_in
from .journal import BEGINNING, SEPARATOR, export_entry

LONGEST_LINE = 64 * 1024
MOST_LINES = 1_000
"""Of a record; the last ones are kept, as that is where a traceback says what happened."""
EXAMINED = 64 * 1024
"""Bytes at both ends of a file in which a timestamp must be, or it has none."""


class Records:
    """What could not be read is in `unread`: path and reason."""

    def __init__(self, group: LogGroup, reader: Reader, budget: Budget, is_over: Callable[[], bool]) -> None:
        self._group = group
        self._reader = reader
        self._budget = budget
        self._is_over = is_over
        self._later: list[str] = []
        """Lines that were met before the one that they belong to, the last one first."""
        self.unread: list[tuple[str, str]] = []

    def since(self, start: datetime) -> Iterator[Entry]:
        """Until nothing newer than that can come."""
        for file in self._group.files:
            if file.modified < start.timestamp() or self._budget.is_spent:
                return
            try:
                yield from self._of(file)
            except OSError as error:
                self.unread.append((label(os.path.basename(file.path)), error.strerror or str(error)))

    def _of(self, file: LogFile) -> Iterator[Entry]:
        with opened(file.path) as found:
            if found.problem:
                self.unread.append((label(os.path.basename(file.path)), found.problem))
            handle, size = found.handle, found.size
            handle.seek(0)
            start = handle.read(EXAMINED)
            if start.startswith(BEGINNING):
                yield from self._of_export(backwards(handle, size, SEPARATOR, self._budget))
                return
            handle.seek(max(0, size - EXAMINED))
            is_timed = self._has_times(start) or self._has_times(handle.read(EXAMINED))
            lines = self._lines(backwards(handle, size, b"\n", self._budget))
            yield from self._timed(lines) if is_timed else self._untimed(file, lines)

    def _of_export(self, pieces: Iterator[bytes]) -> Iterator[Entry]:
        for piece in pieces:
            if self._is_over():
                return
            if found := export_entry(piece):
                yield Entry(found.at, found.level, "app", found.service, found.message)

    def _lines(self, lines: Iterator[bytes]) -> Iterator[str]:
        for raw in lines:
            if self._is_over():
                return
            line = raw[:LONGEST_LINE].decode(errors="replace").rstrip()
            if line:
                yield line

    def _has_times(self, raw: bytes) -> bool:
        return any(self._reader.head(line) for line in raw.decode(errors="replace").splitlines())

    def _timed(self, lines: Iterator[str]) -> Iterator[Entry]:
        for line in lines:
            head = self._reader.head(line)
            if head is not None:
                yield self._entry(head)
            elif len(self._later) < MOST_LINES:
                self._later.append(line)

    def _entry(self, head: Head) -> Entry:
        message, level = head.message, head.level
        if self._later:
            message = "\n".join([message, *reversed(self._later)])
            self._later = []
            if TRACEBACK in message and level in ("", "debug", "info"):
                level = "error"
        kind = "build" if "build" in self._group.name and head.type == "app" else head.type
        return Entry(head.at, level, kind, head.service or self._group.name, message)

    def _untimed(self, file: LogFile, lines: Iterator[str]) -> Iterator[Entry]:
        """Lines of a file without timestamps: each is a record, as old as the file."""
        moment = datetime.fromtimestamp(file.modified, UTC)
        for line in lines:
            yield Entry(moment, level_in(line), "app", self._group.name, line)
