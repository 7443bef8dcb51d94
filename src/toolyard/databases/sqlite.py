"""SQLite: a file opened with `mode=ro`, or the sample in memory; an authorizer lets only reading through.

Each statement has a connection of its own, so nothing (a temporary table, a pragma) outlives it. Runs in a
worker, which `embedded` asks and ends.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .model import DatabaseError, ErrorKind, Rows, Table
from .sample import sample_image
from .sqlite_tables import look
from .values import Row, gather, in_chunks, plain_rows

# A long pattern on a long text is compared for minutes; one of this length is told at once.
_PATTERN_BYTES = 250
_NO_UTF8 = "Could not decode to UTF-8"
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
# What SQLite asks for before it reads json_each or a full-text index. An UPDATE that is meant as one
# fails all the same: no pragma makes the schema writable here.
_OF_VIRTUAL_TABLES = {(sqlite3.SQLITE_UPDATE, "sqlite_master"), (sqlite3.SQLITE_PRAGMA, "data_version")}
_EFFECTS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "zipfile", "fsdir", "lsdir"}
_TYPES: dict[type[Any], str] = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


class SqliteEngine:
    def __init__(self, path: str, memory: int) -> None:
        """The sample where there is no path."""
        self._path = Path(path) if path else None
        self._memory = memory

    def open(self) -> None:
        self._connect().close()

    def look(self) -> list[Table]:
        with closing(self._connect()) as connection:
            connection.text_factory = _text
            try:
                return look(connection)
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def read(self, sql: str, rows: int, bytes: int) -> Rows:
        with closing(self._connect()) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(bytes, 1_000_000))
            connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
            connection.set_authorizer(_authorize)
            try:
                return _read(connection, sql, rows, bytes)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise self._explained(error) from error

    def _connect(self) -> sqlite3.Connection:
        connection = self._opened()
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            # What does not fit in memory is an error, not a file on the disk.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA hard_heap_limit = {self._memory:d}")
        except sqlite3.Error as error:
            connection.close()
            raise self._explained(error) from error
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    def _opened(self) -> sqlite3.Connection:
        if self._path is None:
            connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.deserialize(sample_image())
            return connection
        if not self._path.exists():
            raise DatabaseError(f"there is no file {self._path.name!r}", "unusable")
        if self._path.is_dir():
            raise DatabaseError(f"{self._path.name!r} is a folder; hint: name a file in it", "unusable")
        try:
            return sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise DatabaseError(f"cannot open {self._path.name!r}: {error}", "unreachable") from error

    def _explained(self, error: Exception) -> DatabaseError:
        said = str(error)
        kinds: list[ErrorKind] = [kind for words, kind in _KINDS if words in said]
        if kinds == ["unusable"] and self._path is not None:
            said = f"{self._path.name!r} is no SQLite database"
        return DatabaseError(said, kinds[0] if kinds else "other")


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
    try:
        return _fetched(connection, sql, rows, bytes)
    except sqlite3.OperationalError as error:
        if _NO_UTF8 not in str(error):
            raise
        # Some files hold such bytes, and one of them is not to cost the whole answer. Not done at first: it
        # takes a third more time.
        connection.text_factory = _text
        return _fetched(connection, sql, rows, bytes)


def _fetched(connection: sqlite3.Connection, sql: str, rows: int, bytes: int) -> Rows:
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise DatabaseError("the statement is not a question: it gives no rows", "read_only")
    columns = [column[0] for column in cursor.description]
    seen: dict[int, str] = {}

    def convert(chunk: Sequence[Row]) -> Sequence[Row]:
        _note_types(chunk, seen)
        return plain_rows(chunk)

    kept = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=convert)
    types = [seen.get(place, "") for place in range(len(columns))]
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


def _note_types(chunk: Sequence[Row], seen: dict[int, str]) -> None:
    """SQLite has types of values, not of columns: those of the first rows speak for their column."""
    if len(seen) < len(chunk[0]):
        for place, column in enumerate(zip(*chunk, strict=True)):
            kinds = {*map(type, column)} - {type(None)}
            if kinds and place not in seen:
                seen[place] = _TYPES[kinds.pop()] if len(kinds) == 1 else ""


_KINDS: tuple[tuple[str, ErrorKind], ...] = (
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
    ("not a database", "unusable"),
)
