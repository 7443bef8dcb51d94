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

from .functions import ALLOWED
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


Names = tuple[str, ...]
"""Of one table: `c.b.a`, `b.a` and `a`, as far as the statement says them; a pattern may say any of them."""


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
    if dialect == "sqlite":
        _check_membership(statement, text)
    if blocked.columns:
        _BlockedColumns(statement, tables, dialect, blocked, text).check(statement)


def used_tables(statement: exp.Query, dialect: str) -> tuple[str, ...]:
    tables = [
        table
        for table in statement.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not _is_own(table, dialect)
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


def _check_membership(statement: exp.Query, text: Text) -> None:
    """In SQLite `1 IN name` reads a table, and in the tree it stands as a column."""
    for part in statement.find_all(exp.In):
        field = part.args.get("field")
        if field is not None:
            reason = "IN is followed by brackets here; hint: IN (SELECT column FROM table)"
            raise Refused(reason, text.place(field.name, "in"))


def _check_blocked(names: Iterable[str], patterns: Sequence[str], text: Text, said: str) -> None:
    if _matches(names, patterns):
        raise Refused(f"the table {said!r} is not to be read here", text.place(said))


def _matches(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, folded(pattern)) for name in names for pattern in patterns)


def _qualified(table: exp.Table) -> Names:
    parts = [folded(part.name) for part in table.parts]
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


class _BlockedColumns:
    """The columns that are not to be read, in one statement.

    The statement's own names are no tables here: what they are made of is looked at where they are made.
    """

    def __init__(
        self,
        statement: exp.Query,
        tables: Sequence[exp.Table],
        dialect: str,
        blocked: Blocked,
        text: Text,
    ) -> None:
        self._text = text
        # DuckDB takes main.users for a row of users.
        self._rows_have_schemas = dialect == "duckdb"
        # PostgreSQL takes u.to_json for to_json(u) where u has no such column.
        self._calls_by_dot = dialect == "postgres"
        self._patterns = [folded(pattern) for pattern in blocked.columns]
        self._known = {
            folded(name): [folded(column) for column in columns] for name, columns in blocked.known.items()
        }
        self._tables: set[Names] = set()
        self._aliases: dict[str, set[Names]] = {}
        for table in tables:
            if isinstance(table.this, exp.Identifier) and not _is_own(table, dialect):
                self._tables.add(_qualified(table))
                for alias in (folded(table.alias_or_name), folded(table.name)):
                    self._aliases.setdefault(alias, set()).add(_qualified(table))
        for group in statement.find_all(exp.Subquery):
            self._aliases.setdefault(folded(group.alias), set()).update(self._grouped(group))

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
            elif isinstance(part, exp.Column):
                self._check_whole_row(part)
            elif isinstance(part, exp.Table):
                self._check_renaming(part, {_qualified(part)} & self._tables)
            elif isinstance(part, exp.Subquery):
                self._check_renaming(part, self._grouped(part))

    def _grouped(self, group: exp.Subquery) -> set[Names]:
        """The tables of `(a)` and `(a JOIN b)`, which are no queries and can have a name all the same."""
        scope = group.find_ancestor(exp.Select)
        found = group.find_all(exp.Table)
        inside = {_qualified(table) for table in found if table.find_ancestor(exp.Select) is scope}
        return inside & self._tables

    def _check_identifier(self, part: exp.Identifier) -> None:
        column = part.parent
        owners = self._tables
        if isinstance(column, exp.Column) and column.this is part and column.table:
            owners = self._aliases.get(folded(column.table), self._tables)
        if self._is_blocked(folded(part.this), owners):
            raise Refused(f"the column {part.this!r} is not to be read here", self._text.place(part.this))

    def _is_blocked(self, column: str, owners: Iterable[Names]) -> bool:
        names = (f"{name}.{column}" for owner in owners for name in owner)
        return _matches((column, *names), self._patterns)

    def _check_all(self, part: exp.Expr, said: str) -> None:
        """All columns of what is read here: of all tables, but for `SELECT *` and `alias.*`."""
        parent = part.parent
        owners = self._tables
        if isinstance(parent, exp.Column) and parent.table:
            owners = self._aliases.get(folded(parent.table), set())
        elif isinstance(parent, exp.Select):
            # What a subquery reads is looked at there.
            found = parent.find_all(exp.Table)
            owners = {_qualified(table) for table in found if table.find_ancestor(exp.Select) is parent}
        self._check_tables(owners & self._tables, said)

    def _check_whole_row(self, column: exp.Column) -> None:
        if (not column.table or self._rows_have_schemas) and (
            owners := self._aliases.get(folded(column.name))
        ):
            self._check_tables(owners, f"the whole row {column.name!r}")
        elif self._calls_by_dot and column.table and not column.is_star:
            owners = self._aliases.get(folded(column.table), set())
            if not self._is_column(folded(column.name), owners):
                self._check_tables(owners, f"the whole row {column.table!r}")

    def _is_column(self, name: str, owners: Iterable[Names]) -> bool:
        known = [self._known[part] for owner in owners for part in owner if part in self._known]
        return any(name in columns for columns in known) if known else name not in ALLOWED["postgres"]

    def _check_renaming(self, named: exp.Table | exp.Subquery, owners: Iterable[Names]) -> None:
        alias = named.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            self._check_tables(owners, "renaming columns by their position")

    def _check_tables(self, owners: Iterable[Names], said: str) -> None:
        for owner in owners:
            columns = next((self._known[name] for name in owner if name in self._known), None)
            if columns is None:
                held = self._may_hold(owner)
            else:
                held = any(self._is_blocked(column, (owner,)) for column in columns)
            if held:
                raise self._unnamed(said, owner[-1])

    def _may_hold(self, owner: Names) -> bool:
        """Whether a pattern is about any table, or about this one."""
        return any(
            "." not in pattern or fnmatchcase(owner[-1], pattern.rpartition(".")[0].rpartition(".")[2])
            for pattern in self._patterns
        )

    def _unnamed(self, said: str, owner: str) -> Refused:
        reason = (
            f"{said} would read columns of {owner!r} that are not to be read here; hint: name the columns"
        )
        return Refused(reason, self._text.place(said, owner))


def _is_own(table: exp.Table, dialect: str) -> bool:
    """Whether this is surely a name that the statement itself gave, by WITH, and that is seen from here."""
    if table.args.get("db"):
        return False
    inner: exp.Expr = table
    outer = table.parent
    while outer is not None:
        given = outer if isinstance(outer, exp.With) else outer.args.get("with_")
        if isinstance(given, exp.With) and given is not inner and _gives(given, table, inner, dialect):
            return True
        inner, outer = outer, outer.parent
    return False


def _gives(given: exp.With, table: exp.Table, inner: exp.Expr, dialect: str) -> bool:
    """From inside a WITH, all databases see what stands before; and itself, when it is recursive."""
    for cte in given.expressions:
        if cte is inner and not given.args.get("recursive"):
            return False
        if _same(cte.args["alias"].this, table.this, dialect):
            return True
        if cte is inner:
            return False
    return False


def _same(one: exp.Identifier, other: exp.Identifier, dialect: str) -> bool:
    """Whether no database of this dialect takes them for two: `"A"` and `a` are two in PostgreSQL."""
    if dialect == "mysql":
        return one.name == other.name
    return _unfolded(one) == _unfolded(other)


def _unfolded(name: exp.Identifier) -> str:
    return name.name if name.quoted else name.name.lower()
