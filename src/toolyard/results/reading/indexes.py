"""Where the items of a stored list, or the lines of a text, begin: found once, kept for the next page."""

from array import array
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ..envelopes import seen_through
from ..json_parts import Buffer, is_json, items_of
from ..ndjson import lines_of_json
from .parts import FOLD

MOST_PLACES = 1_000_000
"""Of one index, of eight bytes each; where there are more, every second is kept."""
MOST_KEPT = 4_000_000
_BETWEEN = b" \t\r\n,"


class Index(Struct, frozen=True):
    """`starts` has the place of every `stride`-th one, and at last where all of it ends."""

    kind: str
    """`items`, `lines`, `records` for lines of JSON, or `members` for an object, which has no places."""
    starts: "array[int]"
    count: int = 0
    stride: int = 1
    path: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Of a table, whose items are rows."""

    def span(self, offset: int, count: int) -> tuple[int, int, int]:
        """The bytes that have all of these, and how many others come first in them."""
        first = offset // self.stride
        last = -(-(offset + count) // self.stride)
        return self.starts[first], self.starts[min(last, len(self.starts) - 1)], offset - first * self.stride


class TooMany(Exception):
    """So many small items that their places are not worth keeping."""


def index_of(body: bytes, json: bool) -> Index:
    if not json or not is_json(body):
        return _of_text(body)
    inside = seen_through(body)
    inner = inside.inner
    items = items_of(inner)
    if items is None:
        return Index("members", array("Q"), path=inside.path)
    if not items.exact:
        raise TooMany
    base = 0 if inner is body else _place_of(body, inner)
    starts = array("Q")
    at = 1 + _skipped(inner, 0)
    for part in items.parts:
        at = _skipped(inner, at)
        starts.append(base + at)
        at += len(memoryview(part))
    starts.append(base + at)
    return Index("items", starts, items.count, path=inside.path, columns=inside.columns)


def _of_text(body: bytes) -> Index:
    records = lines_of_json(body)
    if records is None:
        return _thinned(_lines(body), "lines", len(body))
    starts = records.starts
    starts.append(len(body))
    return Index("records", starts, len(records))


def _skipped(body: Buffer, at: int) -> int:
    while body[at] in _BETWEEN:
        at += 1
    return at


def _place_of(body: bytes, inner: Buffer) -> int:
    """Where a part of a text begins in it."""
    start = bytes(inner[:1024])
    at = body.find(start)
    while body[at : at + len(inner)] != inner:
        at = body.index(start, at + 1)
    return at


def _lines(body: bytes) -> Iterator[int]:
    """Where each begins; a long one counts as several."""
    at = 0
    while at < len(body):
        yield at
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end + 1
        while end - at > FOLD + 1:
            at += _letters_up_to(body, at, FOLD)
            yield at
        at = end


def lines_of(body: bytes) -> list[str]:
    """Those of a part that begins and ends where lines do."""
    starts = [*_lines(body), len(body)]
    pieces = [body[start:end] for start, end in pairwise(starts)]
    return [piece.removesuffix(b"\n").decode("utf-8", "replace") for piece in pieces]


def _letters_up_to(body: Buffer, at: int, most: int) -> int:
    """How many bytes of whole letters there are, from a place on."""
    end = at + most
    while end > at + 1 and end < len(body) and body[end] & 0xC0 == 0x80:
        end -= 1
    return end - at


def _thinned(places: Iterator[int], kind: str, end: int) -> Index:
    starts = array("Q")
    stride = 1
    count = 0
    for place in places:
        if count % stride == 0:
            starts.append(place)
            if len(starts) > MOST_PLACES:
                starts = starts[::2]
                stride *= 2
        count += 1
    starts.append(end)
    return Index(kind, starts, count, stride)


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
        while sum(len(one.starts) for one in self._kept.values()) > MOST_KEPT:
            self._kept.popitem(last=False)


def index_file(path: Path, json: bool) -> Index:
    """Reads all of it; for a thread."""
    return index_of(path.read_bytes(), json)
