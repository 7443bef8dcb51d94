"""The tables that may be queried, described for a model, and the unknown names of a statement.

Blocked tables and columns are left out, so nothing here can reveal them.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from ...databases import Database, Table, TableColumn
from ...databases.guard.statement import GuardedStatement

WITH_COLUMNS = 12_000
"""Up to this many characters the short catalogue includes the columns."""
LONGEST = 60_000
LONGEST_DESCRIPTION = 200


class SqlCatalogue:
    def __init__(
        self, database: Database, blocked_tables: Sequence[str], blocked_columns: Sequence[str]
    ) -> None:
        self._database = database
        self._blocked_tables = [pattern.casefold() for pattern in blocked_tables]
        self._blocked_columns = [pattern.casefold() for pattern in blocked_columns]

    async def tables(self) -> list[Table]:
        found = await self._database.tables()
        return [self._shown(table) for table in found if not self._is_blocked(table)]

    async def named(self, names: Sequence[str]) -> list[Table]:
        """Returns the tables with these names; skips unknown names."""
        wanted = {name.casefold() for name in names}
        return [table for table in await self.tables() if wanted & set(_names(table))]

    def _is_blocked(self, table: Table) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._blocked_tables for name in _names(table))

    def _shown(self, table: Table) -> Table:
        kept = tuple(column for column in table.columns if not self._hides(table, column))
        return table if len(kept) == len(table.columns) else replace(table, columns=kept)

    def _hides(self, table: Table, column: TableColumn) -> bool:
        own = column.name.casefold()
        names = [own, *(f"{name}.{own}" for name in _names(table))]
        return any(fnmatchcase(name, pattern) for pattern in self._blocked_columns for name in names)


def _names(table: Table) -> tuple[str, ...]:
    own = table.name.casefold()
    bare = own.rpartition(".")[2]
    return own, bare, f"{table.schema.casefold()}.{bare}"


def short_catalogue(tables: Sequence[Table]) -> str:
    """One line a table, with its columns if there is room."""
    whole = "\n".join(_line(table, [column.name for column in table.columns]) for table in tables)
    if len(whole) > WITH_COLUMNS:
        whole = "\n".join(_line(table, []) for table in tables)
    return whole if len(whole) <= LONGEST else "\n".join(table.name for table in tables)[:LONGEST]


def _line(table: Table, columns: Sequence[str]) -> str:
    named = f"{table.name}({', '.join(columns)})" if columns else table.name
    return f"{named}: {_short(table.description)}" if table.description else named


def detailed_catalogue(tables: Sequence[Table]) -> str:
    return "\n\n".join(_described(table) for table in tables)[:LONGEST]


def _described(table: Table) -> str:
    lines = [f"{table.kind} {_line(table, [])}"]
    lines += [f"  {_column(column)}" for column in table.columns]
    if table.primary_key:
        lines.append(f"  primary key ({', '.join(table.primary_key)})")
    for key in table.foreign_keys:
        referenced = f"({', '.join(key.referenced)})" if key.referenced else ""
        lines.append(f"  ({', '.join(key.columns)}) refers to {key.table}{referenced}")
    return "\n".join(lines)


def _column(column: TableColumn) -> str:
    line = f"{column.name} {column.type}{'' if column.nullable else ' not null'}"
    return f"{line}: {_short(column.description)}" if column.description else line


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DESCRIPTION else line[: LONGEST_DESCRIPTION - 1] + "…"


MAX_SUGGESTIONS = 3
MIN_SIMILARITY = 0.6


class MissingNames(Struct, frozen=True):
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    known_tables: tuple[str, ...] = ()
    known_columns: tuple[str, ...] = ()


async def unknown_names(catalogue: SqlCatalogue, statement: GuardedStatement) -> MissingNames:
    tables = [table.name for table in await catalogue.tables()]
    used = await catalogue.named(statement.tables)
    columns = [column.name for table in used for column in table.columns]
    there = {name.casefold() for table in used for name in (table.name, table.name.rpartition(".")[2])}
    return MissingNames(
        tables=tuple(name for name in statement.tables if _bare(name) not in {_bare(one) for one in there}),
        columns=_absent((name.rpartition(".")[2] for name in statement.columns), columns),
        known_tables=tuple(tables),
        known_columns=tuple(dict.fromkeys(columns)),
    )


def named_in(reason: str, missing: MissingNames) -> MissingNames:
    """Keeps only names that the database's reason mentions: others may be aliases of the statement."""
    words = set(re.findall(r"\w+", reason.casefold()))
    tables = tuple(name for name in missing.tables if _bare(name) in words)
    columns = tuple(name for name in missing.columns if name.casefold() in words)
    return replace(missing, tables=tables, columns=columns)


def near(name: str, known: Iterable[str]) -> list[str]:
    """Returns similarly spelled names, in any case, and names that contain it."""
    by_letters = {one.casefold(): one for one in known}
    wanted = _bare(name)
    found = get_close_matches(wanted, by_letters, MAX_SUGGESTIONS, MIN_SIMILARITY)
    found += [one for one in by_letters if wanted in one and one not in found]
    return [by_letters[one] for one in found[:MAX_SUGGESTIONS]]


def _bare(name: str) -> str:
    return name.casefold().rpartition(".")[2]


def _absent(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    there = {name.casefold() for name in known}
    return tuple(dict.fromkeys(name for name in names if name.casefold() not in there and name != "*"))
