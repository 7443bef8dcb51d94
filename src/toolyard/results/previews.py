"""The first of a big result, cut to the room that there is; of records also as CSV or as a plain table."""

import csv
import io
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from .limits import Limits
from .survey import Survey
from .tables import are_records
from .tokens import estimated

LONGEST_TEXT = 300
DEEPEST = 6


def preview_of(survey: Survey, limits: Limits, room: int) -> dict[str, Any]:
    """`preview`, and `preview_format` where it is not JSON; within `room` bytes."""
    if survey.text is not None:
        return {"preview": _text(survey.text, limits.preview_chars, room)}
    if survey.members is not None:
        shown = dict(list(survey.members.items())[: limits.preview_items])
        return {"preview": _members(shown, room)}
    items = survey.items[: limits.preview_items]
    if limits.compact != "off" and are_records(items):
        return _compact(items, limits.compact, room)
    return {"preview": _items(items, room)}


def size_of(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _text(text: str, chars: int, room: int) -> str:
    shown = text[:chars]
    while size_of(shown) > room and shown:
        shown = shown[: len(shown) * 2 // 3]
    return shown


def _items(items: Sequence[Any], room: int) -> list[Any]:
    """As many as fit, whole; when not even the first does, what fits of it."""
    shown: list[Any] = []
    left = room - 2
    for item in items:
        size = size_of(item) + 1
        if size > left:
            break
        shown.append(item)
        left -= size
    if not shown and items:
        return [shortened(items[0], left)]
    return shown


def _members(members: dict[str, Any], room: int) -> Any:
    if size_of(members) <= room:
        return members
    each = max(40, room // max(1, len(members)) - 20)
    shown: dict[str, Any] = {}
    left = room - 2
    for name, value in members.items():
        value = value if size_of(value) <= each else shortened(value, each)
        size = size_of(name) + size_of(value) + 2
        if size > left:
            break
        shown[name] = value
        left -= size
    return shown


def shortened(value: Any, room: int) -> Any:
    """What fits of one value: texts cut, lists and objects thinned out; at the worst a word on it."""
    for length in (LONGEST_TEXT, 80, 24):
        cut = _cut(value, length, 3 if length < LONGEST_TEXT else 8, DEEPEST)
        if size_of(cut) <= room:
            return cut
    return "…"


def _cut(value: Any, length: int, width: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= length else value[: length - 1] + "…"
    if isinstance(value, list):
        items = cast(list[Any], value)
        if depth == 0:
            return f"list of {len(items)}"
        shown = [_cut(item, length, width, depth - 1) for item in items[:width]]
        return [*shown, f"… {len(items) - width} more"] if len(items) > width else shown
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        if depth == 0:
            return f"object of {len(members)}"
        shown_members = {
            name: _cut(item, length, width, depth - 1) for name, item in list(members.items())[: width * 3]
        }
        return shown_members | ({"…": f"{len(members) - width * 3} more"} if len(members) > width * 3 else {})
    return value


def _compact(records: Sequence[dict[str, Any]], form: str, room: int) -> dict[str, Any]:
    """The records as text, in the form that is asked for or, by `auto`, in that which costs least."""
    makers = {"csv": _as_csv, "table": _as_table}
    wanted = [form] if form in makers else list(makers)
    found: list[tuple[int, dict[str, Any]]] = []
    for name in wanted:
        text = _fitting(records, makers[name], room)
        if text:
            found.append((estimated(text), {"preview": text, "preview_format": name}))
    plain = _items(records, room)
    if form == "auto" or not found:
        found.append((estimated(msgspec.json.encode(plain).decode()), {"preview": plain}))
    # Of two that cost the same the first; fewer records for fewer tokens is no saving.
    return min(found, key=lambda item: item[0])[1]


def _fitting(records: Sequence[dict[str, Any]], make: Any, room: int) -> str:
    for count in range(len(records), 0, -1):
        text: str = make(records[:count])
        if size_of(text) <= room:
            return text
    return ""


def _columns(records: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode("utf-8", "replace")


def _as_csv(records: Sequence[dict[str, Any]]) -> str:
    names = _columns(records)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_cell(record.get(name)) for name in names] for record in records])
    return out.getvalue()


def _as_table(records: Sequence[dict[str, Any]]) -> str:
    names = _columns(records)
    rows = [names, *([_cell(record.get(name)) for name in names] for record in records)]
    return "\n".join(" | ".join(" ".join(cell.split()).replace("|", "/") for cell in row) for row in rows)
