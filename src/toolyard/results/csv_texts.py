"""Tables in texts: lines of as many cells each, the first with names."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .tables import Table

SHOWN_COLUMNS = 15
MOST_CELLS = 200
LONGEST_NAME = 60
LONGEST_CELL = 2**31 - 1
COMPARED = 20
_NO_NAME = '{}"'
# As JSON writes them, so that `007` and `+49…` stay what they are; longer ones are no quantities.
_FIRST = frozenset("-.0123456789") | {""}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17}+)")
_REAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17}+)?\.[0-9]{1,30}+(?:[eE][+-]?[0-9]{1,2})?")


def separator_of(lines: list[str]) -> str | None:
    """None when it is no table: every line has as many cells, and the first has names."""
    if len(lines) < 3:
        return None
    for separator in (",", "\t", ";"):
        rows = _rows(lines[:COMPARED], separator)
        if rows and len({len(row) for row in rows}) == 1 and _are_names(rows[0]):
            return separator
    return None


def csv_columns(lines: list[str]) -> dict[str, Any]:
    """What can be said of the columns by the first lines."""
    separator = separator_of(lines)
    rows = [] if separator is None else _rows(lines, separator)
    if not rows:
        return {}
    names = rows[0][:MOST_CELLS]
    table = Table([dict(zip(names, map(typed, row), strict=False)) for row in rows[1:]])
    return {"sample_columns": table.names(SHOWN_COLUMNS), "columns": table.columns(SHOWN_COLUMNS)}


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
    except csv.Error:
        return []


def _are_names(cells: list[str]) -> bool:
    return len(cells) > 1 and len(set(cells)) == len(cells) and all(map(_is_name, cells))


def _is_name(cell: str) -> bool:
    # Lines of JSON and of code have commas too.
    readable = 0 < len(cell.strip()) <= LONGEST_NAME and not any(mark in cell for mark in _NO_NAME)
    return readable and isinstance(typed(cell), str)


def records_of(text: str, separator: str) -> Iterator[dict[str, Any]]:
    """Every row of a table."""
    rows = rows_of(text, separator)
    names = names_in(next(rows, ()))
    for row in rows:
        yield record_of(names, row)


def rows_of(text: str, separator: str) -> Iterator[list[str]]:
    """Those of a table, or of whole rows of it; without blank ones."""
    csv.field_size_limit(LONGEST_CELL)  # a row too long for it would be the end of all that follow
    whole = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n"))
    for row in csv.reader(whole, delimiter=separator):
        if len(row) > 1 or (row and row[0].strip()):
            yield row


def names_in(row: Sequence[str]) -> tuple[str, ...]:
    """Those of the first row, without the mark that some programs put before everything."""
    return tuple(name.removeprefix("\ufeff") for name in row)


def record_of(names: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """No cell is lost: those behind the last name are called by their numbers."""
    if len(row) == len(names):
        return dict(zip(names, map(typed, row), strict=True))
    found: dict[str, Any] = dict.fromkeys(names)
    found.update(zip(names, map(typed, row), strict=False))
    for at, cell in enumerate(row[len(names) :], len(names) + 1):
        found[f"column_{at}"] = typed(cell)
    return found


def typed(cell: str | None) -> int | float | str | None:
    """A cell as the value it stands for."""
    text = (cell or "").strip()
    if text[:1] not in _FIRST:  # most have none of these, and there may be millions
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text or None
