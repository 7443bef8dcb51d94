"""A stored result as its preview shows it: one value, pages of it, and an index of where its items begin.

Pages, expressions and SQL all see this form: records of a table, items of an envelope, lines of a text.
An index keeps one position for every few kilobytes, so a page is read without reading the data before
it.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from msgspec import Raw, Struct

from ...languages import said
from ..formats.json_parts import (
    Buffer,
    all_items_of,
    data_offset,
    decode_line,
    find_json_lines,
    is_json,
    items_of,
    json_lines,
    list_segments,
    open_envelope,
    value_of,
)
from ..formats.tables import as_record, cut, names_in, records_of, rows_of, type_name
from ..formats.texts import separator_in
from ..formats.truncation import shorten, size_of, whole_items

FOLD = 1_000
"""Characters; a longer line is split into several, so that all of it can be read."""


class ResultPage(Struct, frozen=True):
    kind: str
    """`items`, `rows`, `lines`, `members`, or `value` for a single value."""
    shown: Any
    offset: int = 0
    count: int = 0
    """How many are shown."""
    total: int = 0
    cut: bool = False
    """The only item shown was too big and is shortened."""
    at_least: bool = False
    """Counting stopped at `total`; there may be more."""
    note: str = ""
    """Explains which parts of a query matched nothing."""
    path: str = ""
    """Where the data is in the whole result."""

    def told(self, id: str) -> dict[str, Any]:
        """Returns the page as a model reads it, with the offset of the next one."""
        beside = {"note": self.note, "path": self.path}
        named = {name: text for name, text in beside.items() if text}
        if self.kind == "value":
            return {"id": id, **named, "value": self.shown}
        left = max(0, self.total - self.offset - self.count)
        told: dict[str, Any] = {"id": id, "total": self.total, "offset": self.offset, "shown": self.count}
        if self.at_least:
            told["total_is"] = said("at least this", "no mínimo isto")
        told["left"] = left
        if left:
            told["next_offset"] = self.offset + self.count
        if self.cut:
            told["cut"] = said(
                "too big to show in full; select parts of it with 'query' or 'sql'",
                "grande demais para mostrar inteiro; escolha partes com 'query' ou 'sql'",
            )
        return {**told, **named, self.kind: self.shown}


def page_of_items(
    items: Sequence[Any], total: int, offset: int, room: int, kind: str = "items"
) -> ResultPage:
    """Shows as many of `items`, which begin at `offset`, as fit; if none fits, a shortened first one."""
    shown = whole_items(items, room)
    if shown or not items:
        return ResultPage(kind, shown, offset, len(shown), total)
    return ResultPage(kind, [shorten(items[0], room)], offset, 1, total, cut=True)


def page_of_value(value: Any, offset: int, limit: int, room: int) -> ResultPage:
    if isinstance(value, list):
        items = cast(list[Any], value)
        return page_of_items(items[offset : offset + limit], len(items), offset, room)
    if offset == 0 and size_of(value) <= room:
        return ResultPage("value", value)
    if isinstance(value, str):
        lines = fold_lines(value)
        return page_of_items(lines[offset : offset + limit], len(lines), offset, room, "lines")
    if isinstance(value, dict):
        return _page_of_members(cast(dict[str, Any], value), offset, limit, room)
    return ResultPage("value", shorten(value, room))


def _page_of_members(members: dict[str, Any], offset: int, limit: int, room: int) -> ResultPage:
    shown: dict[str, Any] = {}
    left = room - len("{}")
    wanted = list(members.items())[offset : offset + limit]
    for name, value in wanted:
        left -= size_of(name) + size_of(value) + len(":,")
        if left < 0:
            break
        shown[name] = value
    if shown or not wanted:
        return ResultPage("members", shown, offset, len(shown), len(members))
    first = shorten(dict(wanted[:1]), room)
    return ResultPage("members", first, offset, 1, len(members), cut=True)


def fold_lines(text: str) -> list[str]:
    """Splits a text into lines, and long lines into several."""
    lines = text.removesuffix("\n").split("\n")
    return [line[at : at + FOLD] for line in lines for at in range(0, max(1, len(line)), FOLD)]


SHOWN_NAMES = 12
LONGEST_NAME = 40


class QueryFailedError(Exception):
    """The query cannot be answered; the message is for its author."""


class StoredValue(Struct, frozen=True):
    root: Any
    """The data; the preview shows its beginning."""
    whole: Any
    """The whole result, which contains the root."""
    path: tuple[str, ...] = ()
    """The names that lead from the whole to the root."""


def load_value(path: Path, json: bool) -> StoredValue:
    body = path.read_bytes()
    if json and is_json(body):
        return _json_value(body)
    lines = json_lines(body)
    if lines is not None:
        return _bare_value([decode_line(part) for part in lines.parts])
    text = body.decode("utf-8", "replace")
    separator = separator_in(body)
    if separator is not None:
        return _bare_value(list(records_of(text, separator)))
    return _bare_value(text.removesuffix("\n").split("\n"))


def _bare_value(root: Any) -> StoredValue:
    return StoredValue(root, root)


def _json_value(body: bytes) -> StoredValue:
    inside = open_envelope(body)
    try:
        whole = value_of(body)
    except ValueError as error:
        reason = str(error)[:200]
        raise QueryFailedError(
            said(
                f"The result cannot be read as JSON: {reason}",
                f"O resultado não pode ser lido como JSON: {reason}",
            )
        ) from None
    root = whole
    for name in inside.path:
        root = root[name]
    if inside.columns:
        root[:] = [as_record(inside.columns, row) for row in root]
    return StoredValue(root, whole, inside.path)


def describe_value(value: Any) -> str:
    """Describes a value in a few words: its kind, its size, and the names of its fields."""
    if isinstance(value, dict):
        fields = _names(cast(dict[str, Any], value))
        return said(f"an object with {fields}", f"um objeto com {fields}")
    if not isinstance(value, list):
        return said(*_KINDS[type_name(value)])
    items = cast(list[Any], value)
    if not items:
        return said("an empty list", "uma lista vazia")
    count, first = len(items), items[0]
    inside = said("a list", "uma lista") if isinstance(first, list) else describe_value(first)
    return said(
        f"a list of {count}, the first is {inside}", f"uma lista de {count}, cujo primeiro é {inside}"
    )


_KINDS = {
    "null": ("null", "null"),
    "boolean": ("a boolean", "um booleano"),
    "integer": ("a number", "um número"),
    "number": ("a number", "um número"),
    "string": ("a text", "um texto"),
}


def _names(members: dict[str, Any]) -> str:
    if not members:
        return said("no fields", "nenhum campo")
    names = ", ".join(cut(name, LONGEST_NAME) for name in list(members)[:SHOWN_NAMES])
    left = len(members) - SHOWN_NAMES
    rest = said(f" and {left} more", f" e mais {left}") if left > 0 else ""
    return said(f"the fields {names}{rest}", f"os campos {names}{rest}")


SPAN = 4096
"""Bytes between two positions of an index; a longer item has its own."""
MOST_KEPT = 4_000_000
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")
_CELL = rb'(?:"[^"]*+(?:""[^"]*+)*"|[^"\r\nSEP]*+)'
_ROW = _CELL + rb"(?:SEP" + _CELL + rb")*\r?(?:\n|\Z)"
_LONG = re.compile(rb"^[^\n]{%d}" % (FOLD + 1), re.MULTILINE)


class PositionIndex(Struct, frozen=True):
    """Positions in a file. `starts` are byte offsets, the last one the end of the data; `before` counts the
    items before each."""

    kind: str
    """`items`, `lines`, `records` for lines of JSON, `rows` for a table in a text; or `value`, which has no
    positions and must be read as a whole."""
    starts: bytes = b""
    before: bytes = b""
    path: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """The column names, if the items are rows of a table."""
    separator: str = ""

    @property
    def count(self) -> int:
        return _numbers(self.before)[-1] if self.before else 0

    def span(self, offset: int, count: int) -> tuple[int, int, int]:
        """Returns start and end of bytes that contain these items, and how many other items come first."""
        starts, before = _numbers(self.starts), _numbers(self.before)
        first = max(0, bisect_right(before, offset) - 1)
        last = bisect_left(before, offset + count)
        return starts[first], starts[min(last, len(starts) - 1)], offset - before[first]


def _numbers(packed: bytes) -> memoryview:
    """Unpacks numbers; they are sent between processes as bytes."""
    return memoryview(packed).cast("Q")


class _Positions:
    """Collects positions, and keeps one for each span."""

    def __init__(self) -> None:
        self.starts, self.before = array("Q"), array("Q")
        self.count = 0

    def add(self, start: int, size: int) -> None:
        if not self.starts or size >= SPAN or start - self.starts[-1] >= SPAN:
            self.starts.append(start)
            self.before.append(self.count)
        self.count += 1

    def add_many(self, start: int, count: int) -> None:
        """Adds items that are within one span."""
        self.starts.append(start)
        self.before.append(self.count)
        self.count += count

    def packed(self, end: int) -> tuple[bytes, bytes]:
        self.starts.append(end)
        self.before.append(self.count)
        return self.starts.tobytes(), self.before.tobytes()


def index_file(path: Path, json: bool) -> PositionIndex:
    """Indexes a file; reads all of it."""
    body = path.read_bytes()
    return _index_json(body) if json and is_json(body) else _index_text(body)


def _index_json(body: bytes) -> PositionIndex:
    inside = open_envelope(body)
    base = data_offset(body, inside)
    positions = None if base is None else _item_positions(inside.inner, base)
    if positions is None:
        return PositionIndex("value", path=inside.path)
    return PositionIndex("items", *positions, inside.path, inside.columns)


def _item_positions(inner: Buffer, base: int) -> tuple[bytes, bytes] | None:
    places = _Positions()
    segments = list_segments(inner, SPAN)
    if segments is None:
        items = items_of(inner)
        if items is None or not items.are_all:
            return None
        return places.packed(_add_items(places, inner, _skipped(inner, 0) + 1, items.parts, base))
    for segment in segments:
        if segment.end - segment.start <= 2 * SPAN:
            places.add_many(base + segment.start, segment.count)
        else:
            parts = all_items_of(b"[" + inner[segment.start : segment.end] + b"]")
            _add_items(places, inner, segment.start, parts, base)
    return places.packed(base + segments[-1].end)


def _add_items(places: _Positions, body: Buffer, at: int, parts: Sequence[Raw], base: int) -> int:
    """Adds items; returns where the last one ends."""
    for part in parts:
        at = _skipped(body, at)
        size = len(memoryview(part))
        places.add(base + at, size)
        at += size
    return base + at


def _skipped(body: Buffer, at: int) -> int:
    found = _BETWEEN.match(body, at)
    assert found is not None
    return found.end()


def _index_text(body: bytes) -> PositionIndex:
    records = find_json_lines(body)
    if records is not None:
        places = _Positions()
        for start, size in records.spans():
            places.add(start, size)
        return PositionIndex("records", *places.packed(len(body)))
    separator = separator_in(body)
    if separator is None:
        return PositionIndex("lines", *_index_lines(body).packed(len(body)))
    return _index_rows(body, separator)


def _index_rows(body: bytes, separator: str) -> PositionIndex:
    """Indexes a table. A row may have several lines. A row with irregular quotes makes it a `value`."""
    places = _Positions()
    row = re.compile(_ROW.replace(b"SEP", separator.encode()))
    names: tuple[str, ...] = ()
    at = 0
    while at < len(body):
        found = row.match(body, at)
        if found is None:
            return PositionIndex("value")
        start, at = at, found.end()
        if found[0].isspace():
            continue
        if names:
            places.add(start, at - start)
        else:
            names = names_in(next(rows_of(found[0].decode("utf-8", "replace"), separator), ()))
    return PositionIndex("rows", *places.packed(len(body)), columns=names, separator=separator)


def _index_lines(body: bytes) -> _Positions:
    """Indexes lines; a long line counts as several."""
    places = _Positions()
    at = 0
    while at < len(body):
        long = _LONG.search(body, at)
        end = len(body) if long is None else long.start()
        while at < end:  # short lines only need to be counted
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
    """Yields where the pieces of a long line begin."""
    yield at
    while end - at > FOLD + 1:
        at += _letters_up_to(body, at, FOLD)
        yield at


def split_lines(body: bytes) -> list[str]:
    """Splits bytes that begin and end at line boundaries into lines."""
    starts: list[int] = []
    at = 0
    while at < len(body):
        end = body.find(b"\n", at) + 1 or len(body)
        starts += _folds(body, at, end)
        at = end
    pieces = [body[start:end] for start, end in pairwise([*starts, len(body)])]
    return [piece.removesuffix(b"\n").decode("utf-8", "replace") for piece in pieces]


def _letters_up_to(body: Buffer, at: int, most: int) -> int:
    """Returns how many of the next `most` bytes are whole characters."""
    end = at + most
    while end > at + most - 4 and end < len(body) and body[end] & 0xC0 == 0x80:
        end -= 1
    return end - at


class IndexCache:
    """Keeps the indexes used last, bounded by their total number of positions."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, PositionIndex] = OrderedDict()

    def get(self, id: str) -> PositionIndex | None:
        found = self._kept.get(id)
        if found is not None:
            self._kept.move_to_end(id)
        return found

    def put(self, id: str, index: PositionIndex) -> None:
        self._kept[id] = index
        while sum(len(one.starts) // 8 + 1 for one in self._kept.values()) > MOST_KEPT:
            self._kept.popitem(last=False)
