"""Tables that are sent as a list of columns and a list of rows, as databases do: seen as records.

As records they can be summarised, previewed, read and asked like every other list of records.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from .json_parts import OBJECT, first_byte, members_of
from .payload import Said

COLUMNS, ROWS = "columns", "rows"
LONGEST = 8 * 2**20
"""Bytes; a longer one stays as it is, since it would take several times its size in memory."""
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_rows = msgspec.json.Decoder(list[list[Raw]]).decode


def as_records(said: Said) -> Said:
    """The same with `rows` as records and without `columns`; what is no such table as it is."""
    if not said.is_json or len(said.body) > LONGEST or first_byte(said.body) != OBJECT:
        return said
    members = members_of(said.body) or {}
    records = _records(members) if COLUMNS in members and ROWS in members else None
    if records is None:
        return said
    kept: dict[str, Any] = {name: raw for name, raw in members.items() if name != COLUMNS}
    return Said(msgspec.json.encode(kept | {ROWS: records}), True)


def _records(members: Mapping[str, Raw]) -> list[dict[str, Raw]] | None:
    try:
        names = _decode_names(members[COLUMNS])
        rows = _decode_rows(members[ROWS])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not rows or not all(len(row) == len(names) for row in rows):
        return None
    distinct = _distinct(names)
    return [dict(zip(distinct, row, strict=True)) for row in rows]


def _distinct(names: list[str]) -> list[str]:
    """Two columns of one name would be one in a record: the second gets a number."""
    found: dict[str, None] = {}
    for name in names:
        number = 1
        shown = name
        while shown in found:
            number += 1
            shown = f"{name}_{number}"
        found[shown] = None
    return list(found)
