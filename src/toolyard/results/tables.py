"""Records as a table: which columns there are, of what types, how full, how varied, within which bounds.

Of many records a sample is looked at, spread evenly, and the summary says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

SAMPLE = 2_000
MOST_COLUMNS = 15
MOST_DISTINCT = 1_000
LONGEST_EXAMPLE = 40
EXAMPLES_BELOW = 6
"""A column of fewer distinct values than this is told by its values."""

_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
}


def spread(count: int, most: int = SAMPLE) -> list[int]:
    """Positions of a sample, from the first to the last."""
    if count <= most:
        return list(range(count))
    return [at * (count - 1) // (most - 1) for at in range(most)]


def type_name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(value.__class__, "string")


def short(value: Any, most: int = LONGEST_EXAMPLE) -> Any:
    """A value as an example: long texts and nested values are cut."""
    if isinstance(value, str):
        return value if len(value) <= most else value[: most - 1] + "…"
    if isinstance(value, list | dict):
        text = msgspec.json.encode(value).decode("utf-8", "replace")
        return text if len(text) <= most else text[: most - 1] + "…"
    return value


class Column:
    """What was seen of one column so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.types: dict[str, int] = {}
        self.filled = 0
        self.example: Any = None
        self._distinct: set[Any] = set()
        self._low: Any = None
        self._high: Any = None
        self._comparable = True

    def add(self, value: Any) -> None:
        if value is None:
            return
        self.filled += 1
        name = type_name(value)
        self.types[name] = self.types.get(name, 0) + 1
        if self.example is None or self.example == "":
            self.example = value
        if isinstance(value, list | dict):
            self._comparable = False
            return
        if len(self._distinct) < MOST_DISTINCT:
            self._distinct.add(value)
        self._bound(value)

    def _bound(self, value: Any) -> None:
        if not self._comparable or isinstance(value, bool):
            return
        try:
            if self._low is None or value < self._low:
                self._low = value
            if self._high is None or value > self._high:
                self._high = value
        except TypeError:
            self._comparable = False

    def summary(self, rows: int) -> dict[str, Any]:
        """Without what would say nothing."""
        found: dict[str, Any] = {"name": self.name, "type": "|".join(sorted(self.types)) or "null"}
        if self.filled < rows:
            found["nulls"] = round(1 - self.filled / rows, 3)
        distinct = len(self._distinct)
        if distinct:
            found["distinct"] = f"{MOST_DISTINCT}+" if distinct >= MOST_DISTINCT else distinct
        if 0 < distinct < EXAMPLES_BELOW and distinct < self.filled:
            found["values"] = [short(value) for value in sorted(self._distinct, key=str)]
            return found
        if self._comparable and self._low is not None and self._low != self._high:
            found["min"], found["max"] = short(self._low), short(self._high)
        if self.example is not None:
            found["example"] = short(self.example)
        return found


def columns_of(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A summary of each column, in the order in which they are first seen."""
    columns: dict[str, Column] = {}
    for record in records:
        for name, value in record.items():
            if name not in columns:
                columns[name] = Column(name)
            columns[name].add(value)
    return [column.summary(len(records)) for column in columns.values()]


def are_records(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def kinds_in(values: Sequence[Any]) -> dict[str, int]:
    """How many of each type, in a list of anything."""
    found: dict[str, int] = {}
    for value in values:
        name = type_name(value)
        found[name] = found.get(name, 0) + 1
    return found


def shape_of(value: Any, depth: int = 3) -> Any:
    """The shape of a value as a compact schema: `{"id": "integer", "tags": ["string"]}`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        if depth == 0:
            return f"object of {len(members)}"
        shown = {name: shape_of(item, depth - 1) for name, item in list(members.items())[:MOST_COLUMNS]}
        if len(members) > MOST_COLUMNS:
            shown["…"] = f"{len(members) - MOST_COLUMNS} more"
        return shown
    if isinstance(value, list):
        items = cast(list[Any], value)
        if not items or depth == 0:
            return f"list of {len(items)}"
        return [shape_of(items[0], depth - 1), f"{len(items)} items"]
    return type_name(value)
