"""What is worth saying of a big result, and what to show of it."""

import codecs
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Any

from msgspec import Raw, Struct

from .envelopes import Inside, plain, seen_through
from .grids import as_record
from .json_parts import LIST, Buffer, Items, Members, first_byte, items_of, object_of, values_in
from .ndjson import json_lines
from .payload import Said
from .sampling import spread
from .shapes import shape_of
from .tables import LONGEST_NAME, Table, cut, kinds_in, short
from .texts import Reading

SAMPLE = 2_000
"""So many items are looked at, evenly spread, and the summary says so."""
SHOWN_COLUMNS = 15
MOST_KEYS = 20
SHOWN = 100
"""So many items are decoded for a preview at most; it has room for few."""
MOST_VALUES = 500_000
"""So many are decoded for a sample, or for a preview, those inside others too."""
LONGEST_PATH = 200
OTHERS = 0.1
PIECE = 256 * 1024


class Survey(Struct, frozen=True):
    summary: dict[str, Any]
    items: Sequence[Any] = ()
    """What a preview of a list takes its items from."""
    members: dict[str, Any] | None = None
    text: str | None = None


def survey(said: Said) -> Survey:
    if said.is_json:
        return _of_json(said.body)
    records = json_lines(said.body)
    if records is None:
        return of_text(said.body)
    found = _of_list(records, len(said.body), Inside((), b"", {}))
    found.summary["format"] = "ndjson"
    return found


def of_text(body: Buffer) -> Survey:
    reading = Reading()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for start in range(0, len(body), PIECE):
        reading.feed(decoder.decode(body[start : start + PIECE], start + PIECE >= len(body)))
    return of_reading(reading, len(body))


def of_reading(reading: Reading, size: int) -> Survey:
    return Survey({"approx_size_bytes": size, **reading.summary()}, text=reading.beginning)


def _of_json(body: Buffer) -> Survey:
    inside = seen_through(body)
    items = items_of(inside.inner)
    if items is not None:
        return _of_list(items, len(body), inside)
    return _of_object(object_of(inside.inner) or Members({}, 0), len(body), inside)


def unread(size: int) -> Survey:
    """Of what could not be looked at."""
    return Survey({"approx_size_bytes": size, "kind": "result"}, text="")


class _Decoding:
    """Up to so many values in all; a list inside counts with what it has."""

    def __init__(self, size: int) -> None:
        self._left = MOST_VALUES
        self._may_be_many = size > 2 * MOST_VALUES  # each takes two bytes

    def has_room(self, raw: Raw) -> bool:
        """Then it may be decoded, once."""
        if not self._may_be_many:
            return True
        count = values_in(bytes(raw))
        if count > self._left:
            return False
        self._left -= count
        return True


def _of_object(members: Members, size: int, inside: Inside) -> Survey:
    decoding = _Decoding(size)
    first = list(islice(members.parts.items(), SHOWN))
    shown = {name: plain(raw) for name, raw in first if decoding.has_room(raw)}
    long = {name: _told(raw) for name, raw in first if name not in shown}
    summary = {
        "approx_size_bytes": size,
        "kind": "object",
        **_place(inside),
        "key_count": members.count,
        **({} if members.exact else {"key_count_is": "estimated"}),
        "keys": [cut(key, LONGEST_NAME) for key in islice(members.parts, MOST_KEYS)],
        "shape": shape_of(shown) | dict(islice(long.items(), MOST_KEYS)),
    }
    return Survey(summary, members=shown)


def _told(raw: Raw) -> str:
    body = memoryview(raw)
    return f"{'list' if first_byte(body) == LIST else 'object'} of {len(body)} bytes"


def _of_list(items: Items, size: int, inside: Inside) -> Survey:
    first = takewhile(_Decoding(size).has_room, items.parts[:SHOWN])
    shown = [_item(part, inside) for part in first]
    decoding = _Decoding(size)
    parts = (items.parts[at] for at in spread(len(items.parts), SAMPLE))
    sample = [_item(part, inside) for part in parts if decoding.has_room(part)]
    summary: dict[str, Any] = {
        "approx_size_bytes": size,
        "kind": "list",
        **_place(inside),
        "item_count": items.count,
    }
    if not items.exact:
        summary["item_count_is"] = "estimated"
    if len(sample) < items.count:
        summary["sampled"] = len(sample)
    records: list[dict[str, Any]] = [value for value in sample if isinstance(value, dict)]
    # Few others among them, or a broken line, do not make it less of a table.
    if not records or len(sample) - len(records) > len(sample) * OTHERS:
        summary |= _of_values(sample)
    else:
        summary |= _of_records(records)
        if len(records) < len(sample):
            summary["other_items"] = len(sample) - len(records)
    return Survey(summary, items=shown)


def _item(part: Raw, inside: Inside) -> Any:
    return as_record(inside.columns, plain(part))


def _of_records(sample: list[dict[str, Any]]) -> dict[str, Any]:
    table = Table(sample)
    found: dict[str, Any] = {"sample_columns": table.names(SHOWN_COLUMNS)}
    if table.width > SHOWN_COLUMNS:
        found["column_count"] = table.width
    return {**found, "columns": table.columns(SHOWN_COLUMNS)}


def _of_values(sample: list[Any]) -> dict[str, Any]:
    if not sample:
        return {}
    column = Table([{"": value} for value in sample]).columns(1)[0]
    del column["name"]
    return {"item_types": kinds_in(sample), "items": column}


def _place(inside: Inside) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if inside.path:
        found["path"] = cut(".".join(inside.path), LONGEST_PATH)
    if inside.around:
        found["around"] = {cut(name, LONGEST_NAME): short(value) for name, value in inside.around.items()}
    return found
