"""The model shared by all databases: tables, columns, keys, rows of plain values, errors, URLs.

No message contains a password. Imports no asyncio, because workers load it too.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Raw, Struct

ErrorKind = Literal[
    "timeout", "memory", "read_only", "unknown", "syntax", "unreachable", "unusable", "too_big", "other"
]
"""`unknown`: a table, column or function that does not exist. `read_only`: the statement would change
something, or this user may not run it. `unreachable` may pass by itself; `unusable`, such as a missing file,
does not."""


CACHE_SECONDS = 60.0
"""How long the list of tables is cached."""
MEMORY = 2**30
"""Bytes that a statement may use if it runs on this machine."""


class TableColumn(Struct, frozen=True):
    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    description: str = ""


class ForeignKey(Struct, frozen=True):
    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]


class TableIndex(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    unique: bool


class Table(Struct, frozen=True):
    name: str
    """As written in a statement: with the schema unless it is the default one."""
    schema: str
    kind: str
    """`table` or `view`."""
    description: str
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]
    indices: tuple[TableIndex, ...]
    row_estimate: int | None


def qualified_name(schema: str, name: str, default_schema: str | None) -> str:
    """The name of a table for statements: the schema is left out if it is the default one."""
    return name if schema == default_schema else f"{schema}.{name}"


def group_by_table(
    rows: Iterable[tuple[Any, ...]], key: int = 2
) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Rows by their first `key` columns, which identify a table; the values are the other columns."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[row[:key]].append(row[key:])
    return groups


class Rows(Struct):
    columns: list[str]
    types: list[str]
    json: Raw
    """An array of arrays: numbers that keep their digits, dates as ISO text, bytes as hex text."""
    count: int
    truncated: bool

    @property
    def rows(self) -> list[list[Any]]:
        return msgspec.json.decode(self.json)

    def first(self, most: int) -> list[list[Any]]:
        """The first rows; the others are not decoded."""
        return [msgspec.json.decode(row) for row in msgspec.json.decode(self.json, type=list[Raw])[:most]]


class DatabaseError(Exception):
    """A statement or connection failed. `reason` is for people and contains no password."""

    def __init__(self, reason: str, kind: ErrorKind = "other") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind: ErrorKind = kind


def timed_out(seconds: float) -> DatabaseError:
    return DatabaseError(f"the statement was stopped after {seconds:g} s", "timeout")


class Database(Protocol):
    """One database, only read. `open_database` makes it; it connects at the first use."""

    @property
    def dialect(self) -> str:
        """sqlglot's name: `sqlite`, `duckdb`, `postgres` or `mysql`."""
        ...

    @property
    def name(self) -> str:
        """For people, without a password."""
        ...

    async def tables(self) -> list[Table]:
        """All tables, as read at most `CACHE_SECONDS` ago."""
        ...

    async def table(self, name: str) -> Table | None:
        """The table of this name, in any case, with or without its schema."""
        ...

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        """Run one statement; cut its rows at `rows` and at `bytes` of JSON, and set `truncated`.

        Cancelling the task cancels the statement in the database. If statements have to wait, callers take
        turns.
        """
        ...

    async def close(self) -> None: ...


DIALECTS = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgres",
    "postgres": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_HINT = (
    "hint: sqlite:PATH, duckdb:PATH (also of CSV, JSON and Parquet files), postgresql://USER@HOST/NAME or "
    "mysql://USER@HOST/NAME"
)


def dialect_of(url: str) -> str:
    scheme, colon, _ = url.partition(":")
    dialect = DIALECTS.get(scheme.lower())
    if not colon or dialect is None:
        # Quote only a plain scheme: the rest may hold a password.
        problem = f"unknown database type {scheme!r}" if colon and scheme.isalnum() else "no database type"
        raise DatabaseError(f"{problem} in the URL; {_HINT}", "unreachable")
    return dialect


def file_of(url: str) -> Path:
    """The path in `sqlite:name`, `sqlite:/path` or `sqlite:///path`; `~` is expanded."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
    path = Path(rest).expanduser()
    if not rest or rest.startswith(":"):
        raise DatabaseError(f"{url!r} does not name a file; {_HINT}", "unreachable")
    return path


def place_of(url: str) -> str:
    """The address for people: scheme, host, port and name, without user, password and options."""
    scheme, _, rest = url.partition("://")
    # The last `@` in the whole text: a password may hold an unencoded `/`, `?` or `@`.
    shown = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return f"{scheme}://{shown if shown.strip('/') else shown + _option(url, 'host')}"


def without_secrets(text: str, url: str) -> str:
    """A driver's message about an address, without its passwords, encoded or not."""
    written = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    for secret in sorted({written, unquote(written), _option(url, "password")}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    # A driver ends a password at the first of these characters, and takes the rest for a host or a port.
    pieces = re.split(r"[@/?#\[\]]", written)
    if len(pieces) > 1 and any(piece in text for piece in pieces if piece):
        return "the address is not well formed; hint: in a password @ is %40, / is %2F, ? is %3F, # is %23"
    return text


def _option(url: str, name: str) -> str:
    return dict(parse_qsl(url.rpartition("?")[2])).get(name, "")


def clean_statement(sql: str) -> str:
    """The statement without a semicolon at its end, so that it can be wrapped in another."""
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise DatabaseError("the statement contains NUL or an unpaired surrogate", "syntax")
    return sql.rstrip().rstrip(";")


class StatementPosition(NamedTuple):
    line: int
    column: int


class StatementRefusedError(Exception):
    """The guard refused a statement. `reason` is for people; `position` counts from 1."""

    def __init__(self, reason: str, position: StatementPosition | None = None) -> None:
        where = f" (line {position.line}, column {position.column})" if position else ""
        super().__init__(reason + where)
        self.reason = reason
        self.position = position
