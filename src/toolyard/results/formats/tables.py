"""Tables in results: lists of records, CSV texts, and grids (a list of column names and a list of rows).

Reads each of them as records, and describes their columns: types, empty cells, distinct values, bounds.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from ...languages import said

MOST_COLUMNS = 200
"""Further columns are only counted."""
MOST_DISTINCT = 1_000
LONGEST_NAME = 60
LONGEST_EXAMPLE = 40
LONGEST_WHOLE = 10**18
VALUES_BELOW = 6
"""The summary lists all values of a column with fewer distinct values than this."""

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
    """Returns a value as an example; cuts long texts and numbers, and nested values."""
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, list | dict):
        return _short_json(cast(Any, value), most)
    if isinstance(value, int) and abs(value) > LONGEST_WHOLE:
        return cut(str(value), most)
    return value


def _short_json(value: list[Any] | dict[str, Any], most: int) -> str:
    """Encodes only the beginning of a value that may be long."""
    few: Any = value[:5] if isinstance(value, list) else dict(list(value.items())[:5])
    try:
        text = msgspec.json.encode(few).decode()
    except RecursionError:
        return said("deeply nested", "muito aninhado")
    return cut(text if len(few) == len(value) else text[:-1] + ",…", most)


class ColumnStats:
    """Collects statistics of one column."""

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
        """Returns the statistics, without those that say nothing."""
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


class TableStats:
    """Collects the columns of records, in the order of first appearance."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._rows = len(records)
        self._columns: dict[str, ColumnStats] = {}
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
            column = self._columns[name] = ColumnStats(name)
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


def count_types(values: Sequence[Any]) -> dict[str, int]:
    """Counts the types of the values."""
    found: dict[str, int] = {}
    for value in values:
        name = type_name(value)
        found[name] = found.get(name, 0) + 1
    return found


SHOWN_COLUMNS = 15
MOST_CELLS = 200
LONGEST_CELL = 2**31 - 1
ROWS_COMPARED = 20
_NO_NAME = '{}"'
# Only numbers as JSON writes them: `007` and `+49…` stay texts, and so do very long ones.
_FIRST = frozenset("-.0123456789") | {""}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17}+)")
_REAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17}+)?\.[0-9]{1,30}+(?:[eE][+-]?[0-9]{1,2})?")


def separator_of(lines: list[str]) -> str | None:
    """Returns the separator of a table: all lines have as many cells, and the first has names. Else None."""
    if len(lines) < 3:
        return None
    for separator in (",", "\t", ";"):
        rows = _rows(lines[:ROWS_COMPARED], separator)
        if rows and len({len(row) for row in rows}) == 1 and _are_names(rows[0]):
            return separator
    return None


def csv_columns(lines: list[str]) -> dict[str, Any]:
    """Describes the columns from the first lines."""
    separator = separator_of(lines)
    rows = [] if separator is None else _rows(lines, separator)
    if not rows:
        return {}
    names = rows[0][:MOST_CELLS]
    table = TableStats([dict(zip(names, map(cell_value, row), strict=False)) for row in rows[1:]])
    return {"sample_columns": table.names(SHOWN_COLUMNS), "columns": table.columns(SHOWN_COLUMNS)}


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
    except csv.Error:
        return []


def _are_names(cells: list[str]) -> bool:
    return len(cells) > 1 and len(set(cells)) == len(cells) and all(map(_is_name, cells))


def _is_name(cell: str) -> bool:
    # Lines of JSON and code have commas too.
    readable = 0 < len(cell.strip()) <= LONGEST_NAME and not any(mark in cell for mark in _NO_NAME)
    return readable and isinstance(cell_value(cell), str)


def records_of(text: str, separator: str) -> Iterator[dict[str, Any]]:
    """Yields each row of a table as a record."""
    rows = rows_of(text, separator)
    names = names_in(next(rows, ()))
    for row in rows:
        yield record_of(names, row)


def rows_of(text: str, separator: str) -> Iterator[list[str]]:
    """Yields the rows of a table or of a part of it, without blank rows."""
    csv.field_size_limit(LONGEST_CELL)  # one row over the limit would end the reading
    whole = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n"))
    for row in csv.reader(whole, delimiter=separator):
        if len(row) > 1 or (row and row[0].strip()):
            yield row


def names_in(row: Sequence[str]) -> tuple[str, ...]:
    """Returns the column names of a header row, without a byte order mark."""
    return tuple(name.removeprefix("\ufeff") for name in row)


def record_of(names: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """Builds a record. Cells beyond the last name are named by their numbers, so none is lost."""
    if len(row) == len(names):
        return dict(zip(names, map(cell_value, row), strict=True))
    found: dict[str, Any] = dict.fromkeys(names)
    found.update(zip(names, map(cell_value, row), strict=False))
    for at, cell in enumerate(row[len(names) :], len(names) + 1):
        found[f"column_{at}"] = cell_value(cell)
    return found


def cell_value(cell: str | None) -> int | float | str | None:
    """Converts a cell to a number, a text or None."""
    text = (cell or "").strip()
    if text[:1] not in _FIRST:  # fast path: there may be millions of cells
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text or None


COLUMNS, ROWS = "columns", "rows"
LONGEST_NAMES = 2**20
"""Bytes of the column names of a grid; a longer list is not taken for names."""
_decode_names = msgspec.json.Decoder(list[str]).decode


def columns_of(members: Mapping[str, Raw]) -> tuple[str, ...]:
    """Returns the column names of a grid; an empty tuple for any other object."""
    if COLUMNS not in members or ROWS not in members:
        return ()
    if len(memoryview(members[COLUMNS])) > LONGEST_NAMES:
        return ()
    try:
        return distinct(_decode_names(members[COLUMNS]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Adds numbers to repeated names, which would collide in a record."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        number = numbers.get(name, 1)
        shown = name
        while shown in found:
            number += 1
            shown = f"{name}_{number}"
        numbers[name] = number  # continue from here for the next one: there may be thousands
        found[shown] = None
    return tuple(found)


def as_record(columns: Sequence[str], row: Any) -> Any:
    """Returns a row as a record; returns anything else, or a row of another width, unchanged."""
    if not columns or not isinstance(row, list):
        return row
    cells = cast(list[Any], row)
    return dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else cells


def as_records(value: Any) -> Any:
    """Returns a decoded grid with records as rows; anything else unchanged."""
    if not isinstance(value, dict):
        return value
    members = cast(dict[str, Any], value)
    names, rows = members.get(COLUMNS), members.get(ROWS)
    if not isinstance(names, list) or not isinstance(rows, list):
        return members
    if not all(isinstance(name, str) for name in cast(list[Any], names)):
        return members
    columns = distinct(cast(list[str], names))
    kept = {name: item for name, item in members.items() if name != COLUMNS}
    return kept | {ROWS: [as_record(columns, row) for row in cast(list[Any], rows)]}
