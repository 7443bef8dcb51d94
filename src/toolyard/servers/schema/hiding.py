"""Tables and columns that do not exist here, by pattern.

What is hidden is taken out of what the database says before anything else sees it, so that no answer, no
suggestion, no relation and no picture can mention it.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from ...databases import Column, ForeignKey, Table


class Hidden:
    def __init__(self, tables: Sequence[str], columns: Sequence[str]) -> None:
        self._tables = [pattern.lower() for pattern in tables]
        self._columns = [pattern.lower() for pattern in columns]

    def table(self, name: str, schema: str = "") -> bool:
        """Also a pattern with the schema's name before it counts."""
        return _matches(name, self._tables) or bool(schema and _matches(f"{schema}.{name}", self._tables))

    def column(self, table: str, name: str) -> bool:
        return _matches(name, self._columns) or _matches(f"{table}.{name}", self._columns)

    def shown(self, tables: Sequence[Table]) -> list[Table]:
        """The tables that are left, without what is hidden in them."""
        if not self._tables and not self._columns:
            return list(tables)
        return [self._stripped(table) for table in tables if not self.table(table.name, table.schema)]

    def _stripped(self, table: Table) -> Table:
        columns = tuple(column for column in table.columns if not self.column(table.name, column.name))
        names = _names(columns)
        hides_some = len(columns) < len(table.columns)
        return msgspec.structs.replace(
            table,
            columns=columns,
            primary_key=tuple(name for name in table.primary_key if name in names),
            foreign_keys=tuple(key for key in table.foreign_keys if self._follows(table, key)),
            # An expression that is indexed may name a hidden column, and is not ours to read.
            indices=tuple(
                index
                for index in table.indices
                if not hides_some or all(name in names for name in index.columns)
            ),
        )

    def _follows(self, table: Table, key: ForeignKey) -> bool:
        if self.table(key.table):
            return False
        ends = [(table.name, name) for name in key.columns] + [(key.table, name) for name in key.referenced]
        return not any(self.column(*end) for end in ends)


def _names(columns: Sequence[Column]) -> set[str]:
    return {column.name for column in columns}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    lowered = name.lower()
    return any(fnmatchcase(lowered, pattern) for pattern in patterns)
