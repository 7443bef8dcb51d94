"""Records as a table: which columns there are, of what types, how full, how varied, within which bounds."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

MOST_COLUMNS = 200
"""More are counted, and not looked at."""
MOST_DISTINCT = 1_000
LONGEST_NAME = 60
LONGEST_EXAMPLE = 40
LONGEST_WHOLE = 10**18
VALUES_BELOW = 6
"""A column of fewer distinct values than this is told by its values."""

_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
}


def type_name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(value.__class__, "string")


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def short(value: Any, most: int = LONGEST_EXAMPLE) -> Any:
    """A value as an example: long texts and numbers, and nested values, are cut."""
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, list | dict):
        return _glimpse(cast(Any, value), most)
    if isinstance(value, int) and abs(value) > LONGEST_WHOLE:
        return cut(str(value), most)
    return value


def _glimpse(value: list[Any] | dict[str, Any], most: int) -> str:
    """Only its beginning is written out: it may be long."""
    few: Any = value[:5] if isinstance(value, list) else dict(list(value.items())[:5])
    try:
        text = msgspec.json.encode(few).decode()
    except RecursionError:
        return "deeply nested"
    return cut(text if len(few) == len(value) else text[:-1] + ",…", most)


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
        found: dict[str, Any] = {
            "name": cut(self.name, LONGEST_NAME),
            "type": "|".join(sorted(self.types)) or "null",
        }
        if self.filled < rows:
            found["nulls"] = round(1 - self.filled / rows, 3)
        distinct = len(self._distinct)
        if distinct:
            found["distinct"] = f"{MOST_DISTINCT}+" if distinct >= MOST_DISTINCT else distinct
        if 0 < distinct < VALUES_BELOW and distinct < self.filled:
            found["values"] = [short(value) for value in sorted(self._distinct, key=str)]
            return found
        if self._comparable and self._low is not None and self._low != self._high:
            found["min"], found["max"] = short(self._low), short(self._high)
        if self.example is not None:
            found["example"] = short(self.example)
        return found


class Table:
    """The columns of some records, in the order in which they are first seen."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._rows = len(records)
        self._columns: dict[str, Column] = {}
        self._names: set[str] = set()
        for record in records:
            for name, value in record.items():
                self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        column = self._columns.get(name)
        if column is None:
            self._names.add(name)
            if len(self._columns) >= MOST_COLUMNS:
                return
            column = self._columns[name] = Column(name)
        column.add(value)

    @property
    def width(self) -> int:
        return len(self._names)

    def names(self, most: int) -> list[str]:
        return [cut(name, LONGEST_NAME) for name in list(self._columns)[:most]]

    def columns(self, most: int) -> list[dict[str, Any]]:
        return [column.summary(self._rows) for column in list(self._columns.values())[:most]]


def are_records(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def kinds_in(values: Sequence[Any]) -> dict[str, int]:
    """How many of each type, in a list of anything."""
    found: dict[str, int] = {}
    for value in values:
        name = type_name(value)
        found[name] = found.get(name, 0) + 1
    return found
