"""The lines of a file that may be broken, endless, or still being written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

MOST_BYTES = 32 * 1024 * 1024
"""Longer lines are passed over: a conversation has none, and memory is not for whoever writes them."""
_STEP = 1024 * 1024


class Line(NamedTuple):
    start: int
    end: int
    """Where the next one begins."""
    data: bytes | None
    """None when it is too long."""
    is_complete: bool
    """Whether its end was there; the last line of a file that is being written has none."""


def lines(file: BinaryIO, start: int, most: int = MOST_BYTES) -> Iterator[Line]:
    """From a place in the file on, in bounded memory."""
    file.seek(start)
    while True:
        data = file.readline(most + 1)
        if not data:
            return
        end = start + len(data)
        complete = data.endswith(b"\n")
        if len(data) > most and not complete:
            skipped, complete = _skip(file)
            yield Line(start, end + skipped, None, complete)
            start = end + skipped
        else:
            yield Line(start, end, data, complete)
            start = end


def _skip(file: BinaryIO) -> tuple[int, bool]:
    """Past the end of this line, step by step."""
    skipped = 0
    while data := file.readline(_STEP):
        skipped += len(data)
        if data.endswith(b"\n"):
            return skipped, True
    return skipped, False
