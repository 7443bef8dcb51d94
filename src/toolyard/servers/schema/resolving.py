"""Foreign keys by the names that tables and columns really have: SQLite keeps them as they were typed."""

from collections.abc import Sequence

import msgspec

from ...databases import ForeignKey, Table
from .names import find


def resolved(tables: Sequence[Table]) -> list[Table]:
    """A key that leads to no table of these is left as it is."""
    known = {table.name: table for table in tables}
    return [
        msgspec.structs.replace(
            table, foreign_keys=tuple(_resolved(key, table, known) for key in table.foreign_keys)
        )
        if table.foreign_keys
        else table
        for table in tables
    ]


def _resolved(key: ForeignKey, table: Table, known: dict[str, Table]) -> ForeignKey:
    name = find(key.table, known)
    if name is None:
        return key
    # Where no column is named, the primary key is meant.
    referenced = key.referenced or known[name].primary_key
    return ForeignKey(_as_known(key.columns, table), name, _as_known(referenced, known[name]))


def _as_known(columns: Sequence[str], table: Table) -> tuple[str, ...]:
    names = [column.name for column in table.columns]
    return tuple(find(column, names) or column for column in columns)
