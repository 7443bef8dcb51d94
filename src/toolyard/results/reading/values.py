"""A stored result as its preview shows it: the records of a table, the items in an envelope, lines of text.

Pages, expressions and SQL all see this form. Expressions also find what is around it, by its own path.
"""

from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ..csv_texts import records_of
from ..envelopes import seen_through
from ..grids import as_record
from ..json_parts import is_json, value_of
from ..ndjson import json_lines, value_in
from ..tables import cut, type_name
from ..texts import separator_in

SHOWN_NAMES = 12
LONGEST_NAME = 40


class Failed(Exception):
    """The query cannot be answered; the message is for its author."""


class Value(Struct, frozen=True):
    root: Any
    """What the preview shows the beginning of."""
    whole: Any
    """All of it, with the root in its place."""
    path: tuple[str, ...] = ()
    """From the whole to the root."""


def value_in_file(path: Path, json: bool) -> Value:
    body = path.read_bytes()
    if json and is_json(body):
        return _of_json(body)
    lines = json_lines(body)
    if lines is not None:
        return _plain([value_in(part) for part in lines.parts])
    text = body.decode("utf-8", "replace")
    separator = separator_in(body)
    if separator is not None:
        return _plain(list(records_of(text, separator)))
    return _plain(text.removesuffix("\n").split("\n"))


def _plain(root: Any) -> Value:
    return Value(root, root)


def _of_json(body: bytes) -> Value:
    inside = seen_through(body)
    try:
        whole = value_of(body)
    except ValueError as error:
        raise Failed(f"It cannot be read as JSON: {str(error)[:200]}") from None
    root = whole
    for name in inside.path:
        root = root[name]
    if inside.columns:
        root[:] = [as_record(inside.columns, row) for row in root]
    return Value(root, whole, inside.path)


def told(value: Any) -> str:
    """What a value looks like, in a few words: of what kind it is, how many there are, and their names."""
    if isinstance(value, dict):
        return f"an object with {_names(cast(dict[str, Any], value))}"
    if not isinstance(value, list):
        return _KINDS[type_name(value)]
    items = cast(list[Any], value)
    if not items:
        return "an empty list"
    first = items[0]
    inside = "a list" if isinstance(first, list) else told(first)
    return f"a list of {len(items)}, the first is {inside}"


_KINDS = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "a number",
    "number": "a number",
    "string": "a text",
}


def _names(members: dict[str, Any]) -> str:
    shown = [cut(name, LONGEST_NAME) for name in list(members)[:SHOWN_NAMES]]
    more = f" and {len(members) - len(shown)} more" if len(members) > len(shown) else ""
    return f"the fields {', '.join(shown)}{more}" if shown else "no fields"
