"""One JSON object in each line, as logs and exports are written; some lines may be broken."""

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, overload

from msgspec import Raw

from .json_parts import OBJECT, Buffer, Items, first_byte, is_json, value_of
from .sampling import spread

LOOKED_AT = 50
MOST_LINES = 2_000_000
BROKEN = 0.1
"""So many of them may be no objects: a log that was cut off is still a log."""
_LINES = re.compile(rb"[^\n]++")


class Lines(Sequence[Raw]):
    """Cut out when they are asked for: what is kept of each is where it is."""

    def __init__(self, body: Buffer) -> None:
        self._body = memoryview(body)
        self._places: array[int] = array("Q")
        """Where each begins and ends."""
        for line in islice(_LINES.finditer(body), MOST_LINES + 1):
            if not line[0].isspace():
                self._places.extend(line.span())

    def spans(self) -> Iterator[tuple[int, int]]:
        """Where each begins, and how long it is."""
        for at in range(0, len(self._places), 2):
            yield self._places[at], self._places[at + 1] - self._places[at]

    def __len__(self) -> int:
        return len(self._places) // 2

    @overload
    def __getitem__(self, at: int) -> Raw: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Raw]: ...
    def __getitem__(self, at: int | slice) -> Raw | Sequence[Raw]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        start, end = self._places[at * 2 : at * 2 + 2]
        return Raw(bytes(self._body[start:end]).strip())


def json_lines(body: Buffer) -> Items | None:
    """None when it is no such text."""
    lines = lines_of_json(body)
    return None if lines is None else Items(lines, len(lines))


def lines_of_json(body: Buffer) -> Lines | None:
    """Of many lines some are looked at, from the first to the last."""
    first = _LINES.search(body) if first_byte(body) == OBJECT else None
    if first is None or not (first[0].isspace() or _is_object(first[0])):
        return None
    lines = Lines(body)
    if not 2 <= len(lines) <= MOST_LINES:
        return None
    looked_at = spread(len(lines), LOOKED_AT)
    broken = sum(not _is_object(lines[at]) for at in looked_at)
    return lines if broken <= BROKEN * len(looked_at) else None


def value_in(line: Raw | bytes) -> Any:
    """Of one line; one that is broken is shown as it is."""
    try:
        return value_of(line)
    except ValueError:
        return bytes(line).decode("utf-8", "replace")


def _is_object(line: Raw | bytes) -> bool:
    body = bytes(line)
    return first_byte(body) == OBJECT and is_json(body)
