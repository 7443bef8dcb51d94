"""Where the items of a stored list, or the lines of a text, begin: found once, kept for the next page.

Of many small ones only some places are kept, one for every few kilobytes: a page reads from the last of them
before it. The work is linear in the size, whatever the bytes are, and long ones are for a worker.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ..csv_texts import names_in, rows_of
from ..envelopes import place_of, seen_through
from ..json_parts import Buffer, is_json, items_of
from ..ndjson import lines_of_json
from ..texts import separator_in
from .parts import FOLD

SPAN = 4096
"""Bytes between two places that are kept; a longer item has one of its own."""
MOST_KEPT = 4_000_000
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")
_CELL = rb'(?:"[^"]*+(?:""[^"]*+)*"|[^"\r\nSEP]*+)'
_ROW = _CELL + rb"(?:SEP" + _CELL + rb")*\r?(?:\n|\Z)"
_LONG = re.compile(rb"^[^\n]{%d}" % (FOLD + 1), re.MULTILINE)


class Index(Struct, frozen=True):
    """`starts` are places, the last where all of it ends; `before` says how many items come before each."""

    kind: str
    """`items`, `lines`, `records` for lines of JSON, `rows` for those of a table in a text; or `value`, which
    has no places and has to be read as a whole."""
    starts: bytes = b""
    before: bytes = b""
    path: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Of a table, whose items are rows."""
    separator: str = ""

    @property
    def count(self) -> int:
        return _numbers(self.before)[-1] if self.before else 0

    def span(self, offset: int, count: int) -> tuple[int, int, int]:
        """The bytes that have all of these, and how many others come first in them."""
        starts, before = _numbers(self.starts), _numbers(self.before)
        first = max(0, bisect_right(before, offset) - 1)
        last = bisect_left(before, offset + count)
        return starts[first], starts[min(last, len(starts) - 1)], offset - before[first]


def _numbers(packed: bytes) -> memoryview:
    """As they go from process to process."""
    return memoryview(packed).cast("Q")


class _Places:
    """Those worth keeping, of all that are found."""

    def __init__(self) -> None:
        self.starts, self.before = array("Q"), array("Q")
        self.count = 0

    def add(self, start: int, size: int) -> None:
        if not self.starts or size >= SPAN or start - self.starts[-1] >= SPAN:
            self.starts.append(start)
            self.before.append(self.count)
        self.count += 1

    def add_many(self, start: int, count: int) -> None:
        """So many of them, within a span."""
        self.starts.append(start)
        self.before.append(self.count)
        self.count += count

    def packed(self, end: int) -> tuple[bytes, bytes]:
        self.starts.append(end)
        self.before.append(self.count)
        return self.starts.tobytes(), self.before.tobytes()


def index_file(path: Path, json: bool) -> Index:
    """Reads all of it."""
    body = path.read_bytes()
    return _of_json(body) if json and is_json(body) else _of_text(body)


def _of_json(body: bytes) -> Index:
    inside = seen_through(body)
    items = items_of(inside.inner)
    base = place_of(body, inside)
    if items is None or not items.are_all or base is None:
        return Index("value", path=inside.path)
    inner = inside.inner
    places = _Places()
    at = _skipped(inner, 0) + 1
    for part in items.parts:
        at = _skipped(inner, at)
        size = len(memoryview(part))
        places.add(base + at, size)
        at += size
    return Index("items", *places.packed(base + at), inside.path, inside.columns)


def _skipped(body: Buffer, at: int) -> int:
    found = _BETWEEN.match(body, at)
    assert found is not None
    return found.end()


def _of_text(body: bytes) -> Index:
    records = lines_of_json(body)
    if records is not None:
        places = _Places()
        for start, size in records.spans():
            places.add(start, size)
        return Index("records", *places.packed(len(body)))
    separator = separator_in(body)
    if separator is None:
        return Index("lines", *_lines(body).packed(len(body)))
    return _of_rows(body, separator)


def _of_rows(body: bytes, separator: str) -> Index:
    """A row may have several lines. One that is quoted in no regular way makes all of it a `value`."""
    places = _Places()
    row = re.compile(_ROW.replace(b"SEP", separator.encode()))
    names: tuple[str, ...] = ()
    at = 0
    while at < len(body):
        found = row.match(body, at)
        if found is None:
            return Index("value")
        start, at = at, found.end()
        if found[0].isspace():
            continue
        if names:
            places.add(start, at - start)
        else:
            names = names_in(next(rows_of(found[0].decode("utf-8", "replace"), separator), ()))
    return Index("rows", *places.packed(len(body)), columns=names, separator=separator)


def _lines(body: bytes) -> _Places:
    """A long one counts as several."""
    places = _Places()
    at = 0
    while at < len(body):
        long = _LONG.search(body, at)
        end = len(body) if long is None else long.start()
        while at < end:  # of short ones only their number matters
            stop = body.rfind(b"\n", at, min(at + SPAN, end)) + 1 or end
            places.add_many(at, max(1, body.count(b"\n", at, stop) + (body[stop - 1] != 0x0A)))
            at = stop
        if long is not None:
            end = body.find(b"\n", at) + 1 or len(body)
            for start, stop in pairwise([*_folds(body, at, end), end]):
                places.add(start, stop - start)
            at = end
    return places


def _folds(body: bytes, at: int, end: int) -> Iterator[int]:
    """Where the pieces of a long line begin."""
    yield at
    while end - at > FOLD + 1:
        at += _letters_up_to(body, at, FOLD)
        yield at


def lines_of(body: bytes) -> list[str]:
    """Those of a part that begins and ends where lines do."""
    starts: list[int] = []
    at = 0
    while at < len(body):
        end = body.find(b"\n", at) + 1 or len(body)
        starts += _folds(body, at, end)
        at = end
    pieces = [body[start:end] for start, end in pairwise([*starts, len(body)])]
    return [piece.removesuffix(b"\n").decode("utf-8", "replace") for piece in pieces]


def _letters_up_to(body: Buffer, at: int, most: int) -> int:
    """How many bytes of whole letters there are, from a place on."""
    end = at + most
    while end > at + most - 4 and end < len(body) and body[end] & 0xC0 == 0x80:
        end -= 1
    return end - at


class Indexes:
    """The latest, bounded by how many places they have in all."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Index] = OrderedDict()

    def get(self, id: str) -> Index | None:
        found = self._kept.get(id)
        if found is not None:
            self._kept.move_to_end(id)
        return found

    def put(self, id: str, index: Index) -> None:
        self._kept[id] = index
        while sum(len(one.starts) // 8 + 1 for one in self._kept.values()) > MOST_KEPT:
            self._kept.popitem(last=False)
