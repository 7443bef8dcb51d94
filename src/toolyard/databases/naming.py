"""Tables and columns of a statement, and which of them are not to be read.

A name is compared without its case and as Unicode's compatibility form, and wherever it stands: as an alias
or a name of the statement's own it is refused too, so that no rule about scopes has to be trusted. What gives
columns without naming them (`*`, a whole row, renaming by position) counts as all the columns of its table.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from sqlglot import exp

from .refusing import Refused
from .shape import Text

_SYSTEM_SCHEMAS: dict[str, frozenset[str]] = {
    "postgres": frozenset({"pg_catalog", "information_schema", "pg_toast"}),
    "mysql": frozenset({"mysql", "information_schema", "performance_schema", "sys"}),
    "duckdb": frozenset({"information_schema", "pg_catalog", "system", "temp"}),
    "sqlite": frozenset({"temp"}),
}
_SYSTEM_TABLES = {
    "postgres": re.compile(r"pg_.*"),
    "mysql": re.compile(r"(?!)"),
    "duckdb": re.compile(r"duckdb_.*|pg_.*|pragma_.*|sqlite_.*|which_secret"),
    "sqlite": re.compile(r"sqlite_.*|pragma_.*|dbstat|bytecode|tables_used"),
}
_TABLE_NAME = re.compile(r"[\w $-]+")


class Blocked(NamedTuple):
    """Patterns of what is not to be read, and the columns of tables as far as they are known."""

    tables: Sequence[str]
    columns: Sequence[str]
    known: Mapping[str, Sequence[str]]


def check_names(statement: exp.Query, dialect: str, text: Text, blocked: Blocked) -> None:
    tables = list(statement.find_all(exp.Table))
    for table in tables:
        if isinstance(table.this, exp.Identifier):
            _check_table(table, dialect, text)
            _check_blocked(_qualified(table), blocked.tables, text, table.name)
    for cte in statement.find_all(exp.CTE):
        _check_blocked((folded(cte.alias),), blocked.tables, text, cte.alias)
    if blocked.columns:
        _BlockedColumns(tables, blocked, text).check(statement)


def used_tables(statement: exp.Query) -> tuple[str, ...]:
    tables = [
        table
        for table in statement.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not _is_own(table)
    ]
    names = (".".join(part.name for part in table.parts) for table in sorted(tables, key=_start))
    return tuple(dict.fromkeys(names))


def used_columns(statement: exp.Query) -> tuple[str, ...]:
    columns = [column for column in statement.find_all(exp.Column) if not column.is_star]
    return tuple(dict.fromkeys(column.name for column in sorted(columns, key=_start)))


def _start(part: exp.Table | exp.Column) -> int:
    """Where it stands in the text; the tree has another order."""
    return part.this.meta.get("start", 0)


def folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _check_table(table: exp.Table, dialect: str, text: Text) -> None:
    name = folded(table.name)
    # DuckDB opens a file, or an address, that is named like a table.
    if not _TABLE_NAME.fullmatch(table.name):
        raise Refused(f"{table.name!r} is no name of a table", text.place(table.name))
    schemas = {folded(part.name) for part in table.parts[:-1]}
    if schemas & _SYSTEM_SCHEMAS[dialect] or _SYSTEM_TABLES[dialect].fullmatch(name):
        raise Refused(
            f"{table.name!r} is a table of the system, which is not read here", text.place(table.name)
        )


def _check_blocked(names: Iterable[str], patterns: Sequence[str], text: Text, said: str) -> None:
    if _matches(names, patterns):
        raise Refused(f"the table {said!r} is not to be read here", text.place(said))


def _matches(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, folded(pattern)) for name in names for pattern in patterns)


def _qualified(table: exp.Table) -> tuple[str, ...]:
    """`c.b.a`, `b.a` and `a`: a pattern may say any of them."""
    parts = [folded(part.name) for part in table.parts]
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


class _BlockedColumns:
    """The columns that are not to be read, in one statement."""

    def __init__(self, tables: Sequence[exp.Table], blocked: Blocked, text: Text) -> None:
        self._text = text
        self._patterns = [folded(pattern) for pattern in blocked.columns]
        self._known = {
            folded(name): [folded(column) for column in columns] for name, columns in blocked.known.items()
        }
        self._names: set[str] = set()
        self._aliases: dict[str, set[str]] = {}
        for table in tables:
            if isinstance(table.this, exp.Identifier):
                names = set(_qualified(table))
                self._names |= names
                for alias in (folded(table.alias_or_name), folded(table.name)):
                    self._aliases.setdefault(alias, set()).update(names)

    def check(self, statement: exp.Query) -> None:
        for part in statement.walk():
            if isinstance(part, exp.Identifier):
                self._check_identifier(part)
            elif isinstance(part, exp.Star) and not isinstance(part.parent, exp.Count):
                self._check_all(part, "*")
            elif isinstance(part, (exp.Columns, exp.Pivot)):
                self._check_all(part, type(part).__name__)
            elif isinstance(part, exp.Join) and part.method:
                self._check_all(part, part.method)
        for column in statement.find_all(exp.Column):
            self._check_whole_row(column)
        for table in statement.find_all(exp.Table):
            alias = table.args.get("alias")
            if isinstance(alias, exp.TableAlias) and alias.columns and isinstance(table.this, exp.Identifier):
                self._check_tables(_qualified(table), "renaming columns by their position")

    def _check_identifier(self, part: exp.Identifier) -> None:
        name = folded(part.this)
        column = part.parent
        owners = self._names
        if isinstance(column, exp.Column) and column.this is part and column.table:
            owners = self._aliases.get(folded(column.table), self._names)
        if self._is_blocked(name, owners):
            raise Refused(f"the column {part.this!r} is not to be read here", self._text.place(part.this))

    def _is_blocked(self, column: str, owners: Iterable[str]) -> bool:
        return _matches((column, *(f"{owner}.{column}" for owner in owners)), self._patterns)

    def _check_all(self, part: exp.Expr, said: str) -> None:
        """All columns of what is read here; which tables these are is not looked into, but for `alias.*`."""
        parent = part.parent
        owners = self._names
        if isinstance(parent, exp.Column) and parent.table:
            owners = self._aliases.get(folded(parent.table), set())
        self._check_tables(owners, said)

    def _check_whole_row(self, column: exp.Column) -> None:
        if not column.table and (owners := self._aliases.get(folded(column.name))):
            self._check_tables(owners, f"the whole row {column.name!r}")

    def _check_tables(self, owners: Iterable[str], said: str) -> None:
        for owner in owners:
            columns = self._known.get(owner)
            if columns is None and "." in owner:
                continue  # the same table is looked at by its bare name too
            if columns is None and self._may_hold(owner):
                raise self._unnamed(said, owner)
            if any(self._is_blocked(column, (owner,)) for column in columns or ()):
                raise self._unnamed(said, owner)

    def _may_hold(self, owner: str) -> bool:
        """Whether a pattern is about any table, or about this one."""
        return any(
            "." not in pattern or fnmatchcase(owner, pattern.rpartition(".")[0].rpartition(".")[2])
            for pattern in self._patterns
        )

    def _unnamed(self, said: str, owner: str) -> Refused:
        reason = (
            f"{said} would read columns of {owner!r} that are not to be read here; hint: name the columns"
        )
        return Refused(reason, self._text.place(said, owner))


def _is_own(table: exp.Table) -> bool:
    """Whether this is a name that the statement itself gave, by WITH, where it can be seen from here."""
    if table.args.get("db"):
        return False
    inner: exp.Expr = table
    outer = table.parent
    while outer is not None:
        given = outer if isinstance(outer, exp.With) else outer.args.get("with_")
        if isinstance(given, exp.With) and given is not inner and _gives(given, table.name, inner):
            return True
        inner, outer = outer, outer.parent
    return False


def _gives(given: exp.With, name: str, inner: exp.Expr) -> bool:
    """From inside a WITH, what stands before can be seen; and all of it when it is recursive."""
    for cte in given.expressions:
        if cte is inner and not given.args.get("recursive"):
            return False
        if folded(cte.alias) == folded(name):
            return True
    return False
