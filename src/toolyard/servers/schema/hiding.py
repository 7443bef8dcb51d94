"""Tables and columns that do not exist here, by pattern.

What is hidden is taken out of what the database says before anything else sees it, so that no answer, no
suggestion, no relation and no picture can mention it. Patterns mean what they do to the guard of statements:
`users` or `hr.*` for tables, `password`, `users.*hash` or `hr.users.pin` for columns, in any case.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from ...databases import ForeignKey, Table


class Hidden:
    def __init__(self, tables: Iterable[str], columns: Iterable[str]) -> None:
        self._tables = [_folded(pattern) for pattern in tables]
        self._columns = [_folded(pattern) for pattern in columns]

    def shown(self, tables: Sequence[Table]) -> list[Table]:
        """The tables that are left, without what is hidden in them."""
        left = {table.name: table for table in tables if not _matches(_ways(table), self._tables)}
        columns = {name: self._columns_of(table) for name, table in left.items()}
        return [_stripped(table, columns) for table in left.values()]

    def _columns_of(self, table: Table) -> set[str]:
        return {
            column.name
            for column in table.columns
            if not _matches([column.name, *(f"{way}.{column.name}" for way in _ways(table))], self._columns)
        }


def _stripped(table: Table, columns: dict[str, set[str]]) -> Table:
    left = columns[table.name]
    if len(left) == len(table.columns):
        keys = tuple(key for key in table.foreign_keys if _leads_somewhere(key, columns))
        return msgspec.structs.replace(table, foreign_keys=keys)
    return msgspec.structs.replace(
        table,
        columns=tuple(column for column in table.columns if column.name in left),
        primary_key=tuple(name for name in table.primary_key if name in left),
        foreign_keys=tuple(
            key
            for key in table.foreign_keys
            if left.issuperset(key.columns) and _leads_somewhere(key, columns)
        ),
        # An expression that is indexed may name a hidden column, and is not ours to read.
        indices=tuple(index for index in table.indices if left.issuperset(index.columns)),
    )


def _leads_somewhere(key: ForeignKey, columns: dict[str, set[str]]) -> bool:
    return key.table in columns and columns[key.table].issuperset(key.referenced)


def _ways(table: Table) -> list[str]:
    """The table as a pattern may say it: alone, and with its schema."""
    alone = table.name.removeprefix(f"{table.schema}.")
    return [alone, f"{table.schema}.{alone}"]


def _matches(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(_folded(name), pattern) for name in names for pattern in patterns)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
