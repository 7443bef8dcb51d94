"""What every database is seen as: tables with columns and keys, rows of plain values, one kind of error."""

from typing import Any, Literal, Protocol

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


class Column(Struct, frozen=True):
    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    description: str = ""


class ForeignKey(Struct, frozen=True):
    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]


class Index(Struct, frozen=True):
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
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]
    indices: tuple[Index, ...]
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
