"""SQLite: a file opened with `mode=ro`, or an image in memory; an authorizer lets only reading through.

Each statement has a connection of its own, so nothing (a temporary table, a pragma) outlives it.
"""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .blocking import Threads
from .cached import CACHE_SECONDS, CachedTables
from .model import DatabaseError, ErrorKind, Rows, Table
from .sending import sendable
from .sqlite_tables import look
from .values import gather, in_chunks, plain_rows

LOOK_SECONDS = 30.0
_STEPS_BETWEEN_CHECKS = 10_000
# A long pattern on a long text takes minutes within one step, and SQLite stops only between steps.
_PATTERN_BYTES = 250
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
# What SQLite asks for before it reads json_each or a full-text index. An UPDATE that is meant as one
# fails all the same: no pragma makes the schema writable here.
_OF_VIRTUAL_TABLES = {(sqlite3.SQLITE_UPDATE, "sqlite_master"), (sqlite3.SQLITE_PRAGMA, "data_version")}
_EFFECTS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "zipfile", "fsdir", "lsdir"}
_TYPES: dict[type[Any], str] = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}
Source = Path | Callable[[], bytes]


class SqliteDatabase:
    dialect = "sqlite"

    def __init__(self, name: str, source: Source, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self.name = name
        self._source = source
        self._threads = Threads()
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int) -> Rows:
        stop = threading.Event()
        statement = sendable(sql)

        def work() -> Rows:
            connection = self._connect(stop)
            try:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(bytes, 1_000_000))
                connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
                connection.set_authorizer(_authorize)
                return _read(connection, statement, rows, bytes)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise _explained(error) from error
            finally:
                connection.close()

        return await self._threads.run(work, interrupt=stop.set, seconds=seconds)

    async def close(self) -> None:
        self._threads.close()

    async def _look(self) -> list[Table]:
        stop = threading.Event()

        def work() -> list[Table]:
            connection = self._connect(stop)
            try:
                return look(connection)
            except sqlite3.Error as error:
                raise _explained(error) from error
            finally:
                connection.close()

        return await self._threads.run(work, interrupt=stop.set, seconds=LOOK_SECONDS)

    def _connect(self, stop: threading.Event) -> sqlite3.Connection:
        connection = _opened(self._source)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # Bytes that are no UTF-8 are in some files; one of them is not to cost the whole answer.
        connection.text_factory = _text
        # Not `interrupt()`: that is lost when the statement has not begun yet.
        connection.set_progress_handler(stop.is_set, _STEPS_BETWEEN_CHECKS)
        return connection


def _opened(source: Source) -> sqlite3.Connection:
    if not isinstance(source, Path):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(source())
        return connection
    try:
        return sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise DatabaseError(f"cannot open {source.name!r}: {error}", "unreachable") from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _via: str | None
) -> int:
    if action in _READING:
        return sqlite3.SQLITE_OK
    if (action, first) in _OF_VIRTUAL_TABLES:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _EFFECTS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _read(connection: sqlite3.Connection, sql: str, rows: int, bytes: int) -> Rows:
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise DatabaseError("the statement is not a question: it gives no rows", "read_only")
    columns = [column[0] for column in cursor.description]
    seen: dict[int, str] = {}

    def convert(chunk: Any) -> list[list[Any]]:
        _note_types(chunk, seen)
        return plain_rows(chunk)

    kept, truncated = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=convert)
    return Rows(columns, [seen.get(place, "") for place in range(len(columns))], kept, truncated)


def _note_types(chunk: list[tuple[Any, ...]], seen: dict[int, str]) -> None:
    """SQLite has types of values, not of columns: those of the first rows speak for their column."""
    for place in range(len(chunk[0])):
        if place not in seen:
            kinds = {_TYPES[type(row[place])] for row in chunk if row[place] is not None}
            if kinds:
                seen[place] = kinds.pop() if len(kinds) == 1 else ""


_KINDS: tuple[tuple[str, ErrorKind], ...] = (
    ("interrupted", "timeout"),
    ("not authorized", "read_only"),
    ("authorization denied", "read_only"),
    ("prohibited", "read_only"),
    ("readonly database", "read_only"),
    ("too many attached", "read_only"),
    ("one statement at a time", "syntax"),
    ("no such", "unknown"),
    ("syntax error", "syntax"),
    ("incomplete input", "syntax"),
    ("unrecognized token", "syntax"),
    ("too big", "too_big"),
    ("unable to open", "unreachable"),
    ("not a database", "unreachable"),
)


def _explained(error: Exception) -> DatabaseError:
    said = str(error)
    kinds: list[ErrorKind] = [kind for words, kind in _KINDS if words in said]
    return DatabaseError(said, kinds[0] if kinds else "other")
