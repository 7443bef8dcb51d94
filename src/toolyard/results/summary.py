"""Summarizes a big result: kind, counts, columns, shape, first and last lines, and a sample for the preview.

`fit_summary` reduces a summary to the bytes that it may have.
"""

import codecs
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Any, cast

from msgspec import Raw, Struct

from ..languages import said
from .formats.json_parts import (
    LIST,
    Buffer,
    DataEnvelope,
    JsonItems,
    JsonMembers,
    decode_or_excerpt,
    first_byte,
    items_of,
    json_lines,
    object_of,
    open_envelope,
    spread_positions,
    values_in,
)
from .formats.tables import LONGEST_NAME, TableStats, as_record, count_types, cut, short, type_name
from .formats.texts import TextScanner
from .formats.truncation import and_more, size_of
from .payload import PayloadPart

DEEPEST = 3
WIDEST = 15


def shape_of(value: Any, depth: int = DEEPEST) -> Any:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return _object_of(len(members)) if depth == 0 else _shape_of_object(members, depth)
    if isinstance(value, list):
        items = cast(list[Any], value)
        if not items or depth == 0:
            return said(f"list of {len(items)}", f"lista de {len(items)}")
        return [shape_of(items[0], depth - 1), said(f"{len(items)} items", f"{len(items)} itens")]
    return type_name(value)


def _object_of(count: int) -> str:
    return said(f"object of {count}", f"objeto de {count}")


def _shape_of_object(members: dict[str, Any], depth: int) -> dict[str, Any]:
    first = list(members.items())[:WIDEST]
    shown = {cut(name, LONGEST_NAME): shape_of(item, depth - 1) for name, item in first}
    if len(members) > WIDEST:
        shown["…"] = and_more(len(members) - WIDEST)
    return shown


SAMPLE = 2_000
"""The most items examined, evenly spread; the summary says if there are more."""
SHOWN_COLUMNS = 15
MOST_KEYS = 20
SHOWN = 100
"""The most items decoded for a preview, which has room for few."""
MOST_VALUES = 500_000
"""The most values decoded for a sample or a preview, including nested ones."""
LONGEST_PATH = 200
OTHERS = 0.1
PIECE = 256 * 1024


class ResultSummary(Struct, frozen=True):
    fields: dict[str, Any]
    items: Sequence[Any] = ()
    """The items for a preview of a list."""
    members: dict[str, Any] | None = None
    text: str | None = None
    definitions: Any = None
    """The whole, if it defines tools."""


def summarize(said: PayloadPart) -> ResultSummary:
    if said.is_json:
        return _summarize_json(said.body)
    records = json_lines(said.body)
    if records is None:
        return summarize_text(said.body)
    found = _summarize_list(records, len(said.body), DataEnvelope((), b"", {}))
    found.fields["format"] = "ndjson"
    return found


def summarize_text(body: Buffer) -> ResultSummary:
    reading = TextScanner()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for start in range(0, len(body), PIECE):
        reading.feed(decoder.decode(body[start : start + PIECE], start + PIECE >= len(body)))
    return summarize_scan(reading, len(body))


def summarize_scan(reading: TextScanner, size: int) -> ResultSummary:
    return ResultSummary({"approx_size_bytes": size, **reading.summary()}, text=reading.beginning)


def _summarize_json(body: Buffer) -> ResultSummary:
    inside = open_envelope(body)
    items = items_of(inside.inner)
    if items is not None:
        return _summarize_list(items, len(body), inside)
    return _summarize_object(object_of(inside.inner) or JsonMembers({}, 0), len(body), inside)


def summarize_unread(size: int) -> ResultSummary:
    """Summarizes a result that could not be read in time."""
    return ResultSummary({"approx_size_bytes": size, "kind": "result"}, text="")


class _DecodeBudget:
    """Limits the number of decoded values, including nested ones."""

    def __init__(self, size: int) -> None:
        self._left = MOST_VALUES
        self._may_be_many = size > 2 * MOST_VALUES  # each value takes at least two bytes

    def has_room(self, raw: Raw) -> bool:
        """Returns whether a value may be decoded, and counts it."""
        if not self._may_be_many:
            return True
        count = values_in(bytes(raw))
        if count > self._left:
            return False
        self._left -= count
        return True


def _summarize_object(members: JsonMembers, size: int, inside: DataEnvelope) -> ResultSummary:
    decoding = _DecodeBudget(size)
    first = list(islice(members.parts.items(), SHOWN))
    shown = {name: decode_or_excerpt(raw) for name, raw in first if decoding.has_room(raw)}
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
    return ResultSummary(summary, members=shown)


def _told(raw: Raw) -> str:
    body = memoryview(raw)
    size = len(body)
    if first_byte(body) == LIST:
        return said(f"list of {size} bytes", f"lista de {size} bytes")
    return said(f"object of {size} bytes", f"objeto de {size} bytes")


def _summarize_list(items: JsonItems, size: int, inside: DataEnvelope) -> ResultSummary:
    first = takewhile(_DecodeBudget(size).has_room, items.parts[:SHOWN])
    shown = [_item(part, inside) for part in first]
    decoding = _DecodeBudget(size)
    parts = (items.parts[at] for at in spread_positions(len(items.parts), SAMPLE))
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
    # A few other values, or a broken line, do not make it less of a table.
    if not records or len(sample) - len(records) > len(sample) * OTHERS:
        summary |= _of_values(sample)
    else:
        summary |= _of_records(records)
        if len(records) < len(sample):
            summary["other_items"] = len(sample) - len(records)
    return ResultSummary(summary, items=shown)


def _item(part: Raw, inside: DataEnvelope) -> Any:
    return as_record(inside.columns, decode_or_excerpt(part))


def _of_records(sample: list[dict[str, Any]]) -> dict[str, Any]:
    table = TableStats(sample)
    found: dict[str, Any] = {"sample_columns": table.names(SHOWN_COLUMNS)}
    if table.width > SHOWN_COLUMNS:
        found["column_count"] = table.width
    return {**found, "columns": table.columns(SHOWN_COLUMNS)}


def _of_values(sample: list[Any]) -> dict[str, Any]:
    if not sample:
        return {}
    column = TableStats([{"": value} for value in sample]).columns(1)[0]
    del column["name"]
    return {"item_types": count_types(sample), "items": column}


def _place(inside: DataEnvelope) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if inside.path:
        found["path"] = cut(".".join(inside.path), LONGEST_PATH)
    if inside.around:
        found["around"] = {cut(name, LONGEST_NAME): short(value) for name, value in inside.around.items()}
    return found


SummaryFields = dict[str, Any]
SHORTER_EXAMPLE = 16
FEWER_COLUMNS = (8, 4)
_EXAMPLES = ("example", "values", "min", "max")
_DETAILS = ("example", "values", "min", "max", "distinct", "nulls")
"""Details of columns, in the order in which they are dropped."""
_PARTS = (
    *("around", "shape", "last_lines", "headings", "first_lines", "columns", "items", "levels", "keys"),
    *("sample_columns", "item_types", "title", "uri", "path"),
)
_ALWAYS = ("approx_size_bytes", "kind")


def fit_summary(summary: SummaryFields, room: int) -> SummaryFields:
    """Reduces a summary to `room` bytes; at worst to its kind and size."""
    found = dict(summary)
    for reduce in _steps():
        if size_of(found) <= room:
            return found
        found = reduce(found)
    return found if size_of(found) <= room else {name: found[name] for name in _ALWAYS if name in found}


def _steps() -> Iterator[Callable[[SummaryFields], SummaryFields]]:
    yield partial(_change_columns, _with_shorter_examples)
    for detail in _DETAILS:
        yield partial(_change_columns, partial(_without, detail))
    for most in FEWER_COLUMNS:
        yield partial(_with_fewer_columns, most)
    for part in _PARTS:
        yield partial(_without, part)


def _change_columns(
    change: Callable[[dict[str, Any]], dict[str, Any]], summary: SummaryFields
) -> SummaryFields:
    """Returns the summary with each column changed."""
    columns = cast(list[dict[str, Any]], summary.get("columns", []))
    return {**summary, "columns": [change(column) for column in columns]} if columns else summary


def _with_shorter_examples(column: dict[str, Any]) -> dict[str, Any]:
    return {name: _shorter(value) if name in _EXAMPLES else value for name, value in column.items()}


def _shorter(value: Any) -> Any:
    if isinstance(value, list):
        return [short(one, SHORTER_EXAMPLE) for one in cast(list[Any], value)]
    return short(value, SHORTER_EXAMPLE)


def _without(name: str, members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _with_fewer_columns(most: int, summary: SummaryFields) -> SummaryFields:
    columns = summary.get("columns")
    return summary if columns is None else {**summary, "columns": columns[:most]}
