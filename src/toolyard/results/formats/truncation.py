"""Cuts values and texts to a size of their JSON, and closes the untrusted-content marks it cuts open.

What is cut keeps its kind: a list stays a list and an object an object, and `…` says what was left out. The
schema of a tool is whole or left out, never half.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from ...languages import said
from ...wire.text import SUSPECT_CLOSE as CLOSE
from ...wire.text import SUSPECT_OPEN as OPEN
from .tables import LONGEST_WHOLE, cut

ENDLESS = 2**62
"""The size of a value that is nested too deeply to encode."""
LONGEST_TEXT = 1_200
LONGEST_TEXTS = (300, 80, 24)
WIDEST = 8
NARROWEST = 3
DEEPEST = 6
MOST_MARKS = 8
_MARK = re.compile(r"^<([\w.-]{6,90}+)(?: [^<>\n]{0,200}+)?>", re.MULTILINE)
"""A line that may begin untrusted content."""
_HEX = frozenset("0123456789abcdef")


def size_of(value: Any) -> int:
    """Returns the size of a value's JSON in bytes."""
    try:
        return len(msgspec.json.encode(value))
    except RecursionError:
        return ENDLESS


def whole_items(items: Sequence[Any], room: int) -> list[Any]:
    """Returns the first items, as many as fit into a JSON list of `room` bytes."""
    shown: list[Any] = []
    left = room - len("[]")
    for item in items:
        left -= size_of(item) + len(",")
        if left < 0:
            break
        shown.append(item)
    return shown


def fit_items(items: Sequence[Any], room: int) -> list[Any]:
    """Returns `whole_items`, or a shortened first item if not even that one fits."""
    shown = whole_items(items, room)
    if not shown and items:
        return [shorten(items[0], room - len("[]"))]
    return shown


def excerpt(text: str, chars: int, room: int, more: str = "") -> str:
    """Returns the beginning of a text, with its open marks closed. Appends `more` if the text is cut."""
    shown = _beginning(text, chars, room)
    if len(shown) == len(text):
        return shown
    marks = _marks_in(shown)
    if not more and not marks and OPEN not in shown:
        return shown
    taken = size_of(more + CLOSE + "".join(marks)) - len('""')
    shown = _beginning(text, chars, room - taken)
    doubt = CLOSE if shown.rfind(OPEN) > shown.rfind(CLOSE) else ""
    ends = [end for end in _marks_in(shown) if end not in shown]
    return shown + more + doubt + "".join(ends)


def has_marks(text: str) -> bool:
    """Returns whether a text has parts marked as untrusted."""
    return OPEN in text or next(_names_in(text), None) is not None


def _marks_in(text: str) -> list[str]:
    """Returns the closing marks, the outermost last."""
    names = list(dict.fromkeys(_names_in(text)))[:MOST_MARKS]
    return [f"\n</{name}>" for name in reversed(names)]


def _names_in(text: str) -> Iterator[str]:
    """Yields the names of marks: they contain `untrusted`, or end in a random number."""
    for mark in _MARK.finditer(text):
        number = mark[1].rpartition("-")[2]
        if "untrusted" in mark[1] or (6 <= len(number) <= 32 and _HEX.issuperset(number)):
            yield mark[1]


def _beginning(text: str, chars: int, room: int) -> str:
    """Returns the whole lines that fit; cuts at a word if the line is too long."""
    end = min(len(text), chars)
    while end and (size := size_of(text[:end])) > room:
        end = min(end - 1, max(0, end * room // size))
    if end == len(text):
        return text
    line = text.rfind("\n", 0, end + 1)
    if line * 2 >= end:
        return text[:line]
    word = text.rfind(" ", 0, end + 1)
    return text[: word if word * 2 >= end else end]


def shorten(value: Any, room: int) -> Any:
    """Reduces a value to `room` bytes: cuts texts, and drops items and members."""
    if isinstance(value, str):
        return excerpt(value, LONGEST_TEXT, room, "…")
    for length in LONGEST_TEXTS:
        width = WIDEST if length == LONGEST_TEXTS[0] else NARROWEST
        for has_schemas in (True, False):
            found = _thinned(value, length, width, DEEPEST, has_schemas)
            if size_of(found) <= room:
                return found
    return left_out(value)


def left_out(value: Any) -> Any:
    """Returns the mark in place of a whole value: of the same kind, with the number of what it had."""
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [f"… {and_more(len(items))}"] if items else []
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        if not is_schema(members):
            return {"…": and_more(len(members))} if members else {}
        size = size_of(members)
        return {"…": said(f"a schema of {size} bytes", f"um esquema de {size} bytes")}
    return "…"


def and_more(count: int) -> str:
    """Say how many were left out."""
    return said(f"{count} more", f"mais {count}")


def is_schema(value: Any) -> bool:
    """Returns whether a value is the JSON Schema of an object with properties."""
    if not isinstance(value, dict):
        return False
    members = cast(dict[str, Any], value)
    return members.get("type") == "object" and isinstance(members.get("properties"), dict)


def _thinned(value: Any, length: int, width: int, depth: int, has_schemas: bool) -> Any:
    if isinstance(value, str):
        return excerpt(value, length, ENDLESS, "…") if has_marks(value) else cut(value, length)
    if isinstance(value, int) and abs(value) > LONGEST_WHOLE:
        return cut(str(value), length)
    if isinstance(value, list):
        items = cast(list[Any], value)
        if depth == 0:
            return left_out(items)
        shown = [_thinned(item, length, width, depth - 1, has_schemas) for item in items[:width]]
        return [*shown, f"… {and_more(len(items) - width)}"] if len(items) > width else shown
    if not isinstance(value, dict):
        return value
    members = cast(dict[str, Any], value)
    if is_schema(members):
        return members if has_schemas else left_out(members)
    if depth == 0:
        return left_out(members)
    most = width * 3
    first = list(members.items())[:most]
    thinned = {
        cut(name, length): _thinned(item, length, width, depth - 1, has_schemas) for name, item in first
    }
    return {**thinned, "…": and_more(len(members) - most)} if len(members) > most else thinned


DEEPEST_FIELDS = 100


def select_fields(value: Any, fields: tuple[str, ...], depth: int = DEEPEST_FIELDS) -> Any:
    """Returns the value with these fields alone; None if it has none of them."""
    if depth == 0:
        return None
    if isinstance(value, list):
        items = [select_fields(item, fields, depth - 1) for item in cast(list[Any], value)]
        return None if all(item is None for item in items) else items
    if not isinstance(value, dict):
        return None
    members = cast(dict[str, Any], value)
    found: dict[str, Any] = {}
    for field in fields:
        _pick(members, [field] if field in members else field.split("."), found)
    return found or _inside(members, fields, depth)


def _inside(members: dict[str, Any], fields: tuple[str, ...], depth: int) -> Any:
    inner = {name: select_fields(item, fields, depth - 1) for name, item in members.items()}
    return {name: item for name, item in inner.items() if item is not None} or None


def _pick(members: dict[str, Any], path: list[str], found: dict[str, Any]) -> None:
    name, rest = path[0], path[1:]
    value = members.get(name)
    if not rest:
        if name in members:
            found[name] = value
    elif isinstance(value, dict):
        inner: dict[str, Any] = {}
        _pick(cast(dict[str, Any], value), rest, inner)
        if inner:
            found[name] = _merged(found.get(name), inner)
    elif isinstance(value, list):
        items = _picked(cast(list[Any], value), rest)
        if items is not None:
            found[name] = _merged(found.get(name), items)


def _picked(items: list[Any], path: list[str]) -> list[Any] | None:
    """Returns the value at the path in each item. Looks nowhere else: each name would double the work."""
    found: list[Any] = []
    whole = ".".join(path)
    for item in items:
        inner: dict[str, Any] = {}
        if isinstance(item, list):
            found.append(_picked(cast(list[Any], item), path))
            continue
        if isinstance(item, dict):
            members = cast(dict[str, Any], item)
            _pick(members, [whole] if whole in members else path, inner)
        found.append(inner or None)
    return None if all(item is None for item in found) else found


def _merged(old: Any, new: Any) -> Any:
    """Merges two selections from the same object or list."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(dict[str, Any], old), cast(dict[str, Any], new)
        return {**before, **{name: _merged(before.get(name), item) for name, item in after.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return [_merged(a, b) for a, b in zip(cast(list[Any], old), cast(list[Any], new), strict=True)]
    return cast(Any, new if old is None else old)
