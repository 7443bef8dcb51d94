"""Where the items of a stored list, or the lines of a text, begin: found once, kept for the next page."""

from array import array
from collections import OrderedDict
from pathlib import Path

from msgspec import Struct

from ..envelopes import seen_through
from ..json_parts import Buffer, is_json, items_of

MOST_KEPT = 4_000_000
"""Places in all, of eight bytes each."""
_BETWEEN = b" \t\r\n,"


class Index(Struct, frozen=True):
    """`starts` has the place of each item, and at last where the list ends."""

    kind: str
    """`items`, `lines`, or `members` for an object, which has no places."""
    starts: "array[int]"
    path: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.starts) - 1


class TooMany(Exception):
    """So many small items that their places are not worth keeping."""


def index_of(body: bytes, json: bool) -> Index:
    if not json or not is_json(body):
        return Index("lines", _lines(body))
    inside = seen_through(body)
    path, inner = inside.path, inside.inner
    items = items_of(inner)
    if items is None:
        return Index("members", array("Q"), tuple(path))
    if not items.exact:
        raise TooMany
    base = 0 if inner is body else _place_of(body, inner)
    starts = array("Q")
    at = 1 + _skipped(inner, 0)
    for part in items.parts:
        while inner[at] in _BETWEEN:
            at += 1
        starts.append(base + at)
        at += len(memoryview(part))
    starts.append(base + at)
    return Index("items", starts, tuple(path))


def _skipped(body: Buffer, at: int) -> int:
    while body[at] in b" \t\r\n":
        at += 1
    return at


def _place_of(body: bytes, inner: Buffer) -> int:
    """Where a part of a text begins in it."""
    start = bytes(inner[:1024])
    at = body.find(start)
    while body[at : at + len(inner)] != inner:
        at = body.index(start, at + 1)
    return at


def _lines(body: bytes) -> "array[int]":
    starts = array("Q", [0])
    at = body.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = body.find(b"\n", at + 1)
    if starts[-1] != len(body):
        starts.append(len(body))
    return starts


class Indexes:
    """The latest, bounded by how many places they have in all."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Index] = OrderedDict()

    def get(self, id: str) -> Index | None:
        found = self._kept.get(id)
        if found is not None:
            self._kept.move_to_end(id)
        return found

    def make(self, id: str, path: Path, json: bool) -> Index:
        """Reads the whole file; for a thread."""
        found = index_of(path.read_bytes(), json)
        self._kept[id] = found
        while sum(len(index.starts) for index in self._kept.values()) > MOST_KEPT and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return found
