"""A payload looked over: whether it is big, what is worth saying of it, and what to show of it.

Envelopes are seen through: of `{"data": {"items": [...], "total": 412}}` the items are what matters, and
`path` says where they are.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from .json_parts import Buffer, Items, first_byte, items_of, members_of, value_of
from .limits import Limits
from .payload import Payload
from .tables import MOST_COLUMNS, are_records, columns_of, kinds_in, shape_of, short, spread
from .texts import Reading

MOST_KEYS = 20
DEEPEST_ENVELOPE = 4
MOST_AROUND = 8
SHOWN_RECORDS = 100
"""So many items at most are decoded for a preview; it has room for few."""


class Survey(Struct, frozen=True):
    summary: dict[str, Any]
    big: bool
    items: Sequence[Any] = ()
    """What a preview of a list takes its items from."""
    members: dict[str, Any] | None = None
    text: str | None = None


def survey(payload: Payload, limits: Limits) -> Survey:
    too_long = len(payload.body) > limits.max_bytes
    if payload.is_json:
        return _of_json(payload.body, limits, too_long)
    lines = json_lines(payload.body)
    if lines is not None:
        found = _of_list(lines, len(payload.body), [], {}, limits, too_long)
        found.summary["format"] = "ndjson"
        return found
    return of_text(payload.body, limits, too_long)


def of_text(body: Buffer, limits: Limits, too_long: bool) -> Survey:
    reading = Reading()
    text = str(body, "utf-8", "replace")
    reading.feed(text)
    summary = {"approx_size_bytes": len(body), **reading.summary()}
    lines = reading.newlines + (not text.endswith("\n") and bool(text))
    return Survey(summary, too_long or lines > limits.max_lines, text=reading.beginning)


def _of_json(body: Buffer, limits: Limits, too_long: bool) -> Survey:
    path, inner, around = seen_through(body)
    items = items_of(inner)
    if items is not None:
        return _of_list(items, len(body), path, around, limits, too_long)
    members = members_of(inner) or {}
    keys = list(members)
    shown = {name: _value(raw) for name, raw in list(members.items())[: max(MOST_KEYS, limits.preview_items)]}
    summary = {
        "approx_size_bytes": len(body),
        "kind": "object",
        **_place(path, around),
        "key_count": len(keys),
        "keys": [short(key, 60) for key in keys[:MOST_KEYS]],
        "shape": shape_of(shown),
    }
    return Survey(summary, too_long or len(keys) > limits.max_items, members=shown)


def _of_list(
    items: Items, size: int, path: list[str], around: dict[str, Any], limits: Limits, too_long: bool
) -> Survey:
    positions = spread(len(items.parts))
    sample = [_value(items.parts[at]) for at in positions]
    summary: dict[str, Any] = {
        "approx_size_bytes": size,
        "kind": "list",
        **_place(path, around),
        "item_count": items.count,
    }
    if not items.exact:
        summary["item_count_is"] = "estimated"
    if are_records(sample):
        columns = columns_of(sample)
        summary["sample_columns"] = [short(column["name"], 60) for column in columns[:MOST_COLUMNS]]
        if len(columns) > MOST_COLUMNS:
            summary["column_count"] = len(columns)
        if len(sample) < items.count:
            summary["columns_of_sample"] = len(sample)
        summary["columns"] = columns[:MOST_COLUMNS]
    elif sample:
        summary["item_types"] = kinds_in(sample)
        if len(sample) < items.count:
            summary["types_of_sample"] = len(sample)
        column = columns_of([{"items": value} for value in sample])[0]
        summary["items"] = {key: value for key, value in column.items() if key != "name"}
    head = [_value(part) for part in items.parts[: min(SHOWN_RECORDS, max(limits.preview_items, 1))]]
    return Survey(summary, too_long or items.count > limits.max_items, items=head)


def _value(raw: Raw) -> Any:
    try:
        return value_of(raw)
    except ValueError:  # bytes that are no text, inside what else is JSON
        return bytes(memoryview(raw)[:100]).decode("utf-8", "replace")


def _place(path: list[str], around: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if path:
        found["path"] = ".".join(path)
    if around:
        found["around"] = around
    return found


def seen_through(body: Buffer) -> tuple[list[str], Buffer, dict[str, Any]]:
    """Into objects that are there for one list or object, most of them by far: where, what, and what else."""
    path: list[str] = []
    around: dict[str, Any] = {}
    inner = body
    while len(path) < DEEPEST_ENVELOPE and (members := members_of(inner)):
        sizes = {key: len(memoryview(raw)) for key, raw in members.items()}
        name = max(sizes, key=lambda key: sizes[key])
        value = memoryview(members[name])
        first = first_byte(value)
        others = {key: raw for key, raw in members.items() if key != name}
        # An object is a thing of its own, unless all it has beside one member are plain values, and few.
        plain = all(first_byte(memoryview(raw)) not in (0x5B, 0x7B) for raw in others.values())
        if first not in (0x5B, 0x7B) or not plain or len(others) > MOST_AROUND or len(value) * 2 < len(inner):
            break
        around |= {short(key): short(_value(raw)) for key, raw in others.items()}
        path.append(name)
        inner = value
    return path, inner, dict(list(around.items())[:MOST_AROUND])


def json_lines(body: Buffer) -> Items | None:
    """One JSON object in each line."""
    if first_byte(body) != 0x7B:
        return None
    lines = [line for line in bytes(body).split(b"\n") if line.strip()]
    if len(lines) < 2:
        return None
    for at in spread(len(lines), 50):
        try:
            if not isinstance(msgspec.json.decode(lines[at]), dict):
                return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
    return Items([Raw(line) for line in lines], len(lines))
