"""Tables that are sent as a list of columns and a list of rows, as databases do: stored so, read as records.

As records they can be summarised, previewed, paged through and asked like every other list of records.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

COLUMNS, ROWS = "columns", "rows"
LONGEST_NAMES = 2**20
"""Bytes; no table has more."""
_decode_names = msgspec.json.Decoder(list[str]).decode


def columns_of(members: Mapping[str, Raw]) -> tuple[str, ...]:
    """Of an object that is such a table; none of any other."""
    if COLUMNS not in members or ROWS not in members:
        return ()
    if len(memoryview(members[COLUMNS])) > LONGEST_NAMES:
        return ()
    try:
        return distinct(_decode_names(members[COLUMNS]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Two columns of one name would be one in a record: the second gets a number."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        number = numbers.get(name, 1)
        shown = name
        while shown in found:
            number += 1
            shown = f"{name}_{number}"
        numbers[name] = number  # the next of this name goes on from here: there may be thousands
        found[shown] = None
    return tuple(found)


def as_record(columns: Sequence[str], row: Any) -> Any:
    """A row with the names of its columns; what is none, or of another width, as it is."""
    if not columns or not isinstance(row, list):
        return row
    cells = cast(list[Any], row)
    return dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else cells


def as_records(value: Any) -> Any:
    """A decoded table with records for rows; anything else as it is."""
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
