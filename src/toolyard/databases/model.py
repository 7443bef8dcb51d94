"""The common model of databases: tables, columns, keys, rows of plain values, one error, URLs.

No message contains a password. Imports no asyncio: workers load it too.
"""

import re
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Raw, Struct

ErrorKind = Literal[
    "timeout", "memory", "read_only", "unknown", "syntax", "unreachable", "unusable", "too_big", "other"
]
"""`unknown`: a table, column or function that is not there. `read_only`: it would change something, or is
not allowed to this user. `unreachable` may pass by itself; `unusable`, such as a file that is not there, does
not."""


CACHE_SECONDS = 60.0
"""How long what tables there are is remembered."""
MEMORY = 2**30
"""Bytes that a statement may take where it runs on this machine."""


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
    """As a statement would say it: with the schema in front only when that is not the default one."""
    schema: str
    kind: str
    """`table` or `view`."""
    description: str
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]
    indices: tuple[TableIndex, ...]
    row_estimate: int | None


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
        """Without reading the values of the others."""
        return [msgspec.json.decode(row) for row in msgspec.json.decode(self.json, type=list[Raw])[:most]]


class DatabaseError(Exception):
    """Why the database gave nothing; `reason` is for people and holds no password."""

    def __init__(self, reason: str, kind: ErrorKind = "other") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind: ErrorKind = kind


def timed_out(seconds: float) -> DatabaseError:
    return DatabaseError(f"the statement was stopped after {seconds:g} s", "timeout")


class Database(Protocol):
    """One database that is only read. Made by `open_database`; connects when it is first used."""

    @property
    def dialect(self) -> str:
        """sqlglot's name: `sqlite`, `duckdb`, `postgres` or `mysql`."""
        ...

    @property
    def name(self) -> str:
        """For people; never with a password."""
        ...

    async def tables(self) -> list[Table]:
        """All of them, as they were at most `CACHE_SECONDS` ago."""
        ...

    async def table(self, name: str) -> Table | None:
        """The one of this name, whatever its case, with or without its schema."""
        ...

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        """At most so many rows and so many bytes of JSON; the rest is cut and said so.

        Cancelling the task cancels the statement in the database. Where statements wait for each other,
        callers take turns.
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
_HINT = "hint: sqlite:PATH, duckdb:PATH, postgresql://USER@HOST/NAME or mysql://USER@HOST/NAME"


def dialect_of(url: str) -> str:
    scheme, colon, _ = url.partition(":")
    dialect = DIALECTS.get(scheme.lower())
    if not colon or dialect is None:
        # Only a plain scheme is quoted: somebody may have put a password where the address belongs.
        named = f"of the kind {scheme!r}" if colon and scheme.isalnum() else "without a known scheme"
        raise DatabaseError(f"there is no database {named}; {_HINT}", "unreachable")
    return dialect


def file_of(url: str) -> Path:
    """`sqlite:name`, `sqlite:/path`, `sqlite:///path`; `~` is the home of the user."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
    path = Path(rest).expanduser()
    if not rest or rest.startswith(":"):
        raise DatabaseError(f"{url!r} names no file; {_HINT}", "unreachable")
    return path


def place_of(url: str) -> str:
    """The address for people: scheme, host, port and name, and nothing before an `@` or in the query."""
    scheme, _, rest = url.partition("://")
    # The last one, in the whole of it: a password may hold an unencoded `/`, `?` or `@`.
    shown = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return f"{scheme}://{shown}"


def without_secrets(text: str, url: str) -> str:
    """A driver's words about an address, less its passwords, as written there and as meant."""
    written = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    option = dict(parse_qsl(url.partition("?")[2])).get("password", "")
    for secret in sorted({written, unquote(written), option}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    # A driver ends a password at the first of these signs, and takes the rest for a host or a port.
    pieces = re.split(r"[@/?#\[\]]", written)
    if len(pieces) > 1 and any(piece in text for piece in pieces if piece):
        return "the address is not well formed; hint: in a password @ is %40, / is %2F, ? is %3F, # is %23"
    return text


def clean_statement(sql: str) -> str:
    """Without the semicolon at its end, which a wrapping cannot hold."""
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise DatabaseError("the statement holds a character that no database takes", "syntax")
    return sql.rstrip().rstrip(";")


class StatementPosition(NamedTuple):
    line: int
    column: int


class StatementRefusedError(Exception):
    """`reason` is for people, and quotes what it is about; `place` counts from 1."""

    def __init__(self, reason: str, place: StatementPosition | None = None) -> None:
        super().__init__(f"{reason} (line {place.line}, column {place.column})" if place else reason)
        self.reason = reason
        self.place = place
