"""The records of a log, newest first: reads files from their ends and joins lines of one record.

A record may span rotated files. Messages are returned unchanged.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from ..model import LogEntry, clean_label
from .folder import LogFile, LogGroup, open_log
from .formats import BEGINNING, SEPARATOR, TRACEBACK, RecordHead, RecordReader, export_entry, level_in

BLOCK = 256 * 1024
LONGEST_PIECE = 1024 * 1024
"""The beginning of a longer piece is kept."""


class ReadBudget:
    """How many bytes may still be read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


def pieces_from_end(handle: BinaryIO, size: int, separator: bytes, budget: ReadBudget) -> Iterator[bytes]:
    """Yields the pieces between separators, the last one first."""
    position, rest = size, b""
    while position > 0 and not budget.is_spent:
        step = min(BLOCK, position)
        position -= step
        budget.left -= step
        handle.seek(position)
        pieces = (handle.read(step) + rest).split(separator)
        rest = pieces[0][:LONGEST_PIECE]
        yield from reversed(pieces[1:])
    if position == 0 and rest:
        yield rest


LONGEST_LINE = 64 * 1024
MAX_LINES = 1_000
"""Lines of a record that are kept, the last ones: a traceback ends with the error."""
EXAMINED = 64 * 1024
"""Bytes at both ends of a file that are searched for a timestamp."""


class LogRecords:
    """`unread` has the name and reason of files that could not be read."""

    def __init__(
        self, group: LogGroup, reader: RecordReader, budget: ReadBudget, is_over: Callable[[], bool]
    ) -> None:
        self._group = group
        self._reader = reader
        self._budget = budget
        self._is_over = is_over
        self._following: list[str] = []
        """Continuation lines of the record to come, the last one first."""
        self.unread: list[tuple[str, str]] = []

    def since(self, start: datetime) -> Iterator[LogEntry]:
        """Yields records until all further ones are older than `start`."""
        for file in self._group.files:
            if file.modified < start.timestamp() or self._budget.is_spent:
                return
            try:
                yield from self._of(file)
            except OSError as error:
                self.unread.append((clean_label(os.path.basename(file.path)), error.strerror or str(error)))

    def _of(self, file: LogFile) -> Iterator[LogEntry]:
        with open_log(file.path) as found:
            if found.problem:
                self.unread.append((clean_label(os.path.basename(file.path)), found.problem))
            handle, size = found.handle, found.size
            handle.seek(0)
            start = handle.read(EXAMINED)
            if start.startswith(BEGINNING):
                yield from self._of_export(pieces_from_end(handle, size, SEPARATOR, self._budget))
                return
            handle.seek(max(0, size - EXAMINED))
            is_timed = self._has_times(start) or self._has_times(handle.read(EXAMINED))
            lines = self._lines(pieces_from_end(handle, size, b"\n", self._budget))
            yield from self._timed(lines) if is_timed else self._untimed(file, lines)

    def _of_export(self, pieces: Iterator[bytes]) -> Iterator[LogEntry]:
        for piece in pieces:
            if self._is_over():
                return
            if found := export_entry(piece):
                yield LogEntry(found.at, found.level, "app", found.service, found.message)

    def _lines(self, lines: Iterator[bytes]) -> Iterator[str]:
        for raw in lines:
            if self._is_over():
                return
            line = raw[:LONGEST_LINE].decode(errors="replace").rstrip()
            if line:
                yield line

    def _has_times(self, raw: bytes) -> bool:
        return any(self._reader.head(line) for line in raw.decode(errors="replace").splitlines())

    def _timed(self, lines: Iterator[str]) -> Iterator[LogEntry]:
        for line in lines:
            head = self._reader.head(line)
            if head is not None:
                yield self._entry(head)
            elif len(self._following) < MAX_LINES:
                self._following.append(line)

    def _entry(self, head: RecordHead) -> LogEntry:
        message, level = head.message, head.level
        if self._following:
            message = "\n".join([message, *reversed(self._following)])
            self._following = []
            if TRACEBACK in message and level in ("", "debug", "info"):
                level = "error"
        kind = "build" if "build" in self._group.name and head.type == "app" else head.type
        return LogEntry(head.at, level, kind, head.service or self._group.name, message)

    def _untimed(self, file: LogFile, lines: Iterator[str]) -> Iterator[LogEntry]:
        """Lines of a file without timestamps: each is a record with the file's time."""
        moment = datetime.fromtimestamp(file.modified, UTC)
        for line in lines:
            yield LogEntry(moment, level_in(line), "app", self._group.name, line)
