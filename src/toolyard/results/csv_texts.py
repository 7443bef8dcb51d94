"""Tables in texts: lines of as many cells each, the first with names."""

import csv
import io
from typing import Any

from .tables import Table

SHOWN_COLUMNS = 15
MOST_CELLS = 200
LONGEST_NAME = 60
COMPARED = 20
_NO_NAME = '{}"'


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


def typed(cell: str | None) -> int | float | str | None:
    """A cell as the value it stands for."""
    text = (cell or "").strip()
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        # `1_000`, `nan` and `inf` are numbers to Python, and to nobody who writes tables.
        return value if text[-1:].isdigit() and "_" not in text else text
    return text or None
