"""SQLite: one file, several processes, FTS5 for words."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ....sqlite_file import SqliteFileError, SqliteThread, reason, transaction
from ..errors import MemoryStoreError
from .database import MemoryConnection, Row, tables

T = TypeVar("T")

BUSY_SECONDS = 10.0
"""How long a write waits for another process that writes."""
WEIGHED = 3_000
"""How many memories are weighed against each other at most; the newest, where more have the words."""
FREQUENT = 10_000
"""A word in more memories than this says little, and counting it costs more than it tells."""

_TYPES = {
    "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "text": "text",
    "bytes": "blob",
    "float": "real",
    "more": "",
}
_WORDS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS toolyard_memory_words USING fts5(words, tokenize = 'ascii')",
    "CREATE VIRTUAL TABLE IF NOT EXISTS toolyard_memory_terms"
    " USING fts5vocab('toolyard_memory_words', 'row')",
)
_MATCH = "FROM toolyard_memory_words WHERE toolyard_memory_words MATCH ?"


class SqliteMemoryDatabase:
    """Without a path it is in memory, for this process only."""

    def __init__(self, path: Path | None) -> None:
        def translate_error(error: SqliteFileError) -> MemoryStoreError:
            return MemoryStoreError(f"SQLite: {reason(error, path)}")

        self._database = SqliteThread(
            path, _make_tables, translate_error, busy_seconds=BUSY_SECONDS, name="toolyard-memory"
        )

    async def read(self, work: Callable[[MemoryConnection], T]) -> T:
        return await self._run(work, "BEGIN")

    async def write(self, work: Callable[[MemoryConnection], T]) -> T:
        return await self._run(work, "BEGIN IMMEDIATE")

    async def close(self) -> None:
        await self._database.close()

    async def _run(self, work: Callable[[MemoryConnection], T], begin: str) -> T:
        def run(connection: sqlite3.Connection) -> T:
            with transaction(connection, begin):
                return work(_SqliteSession(connection))

        return await self._database.run(run)


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def count(self, statement: str, /, **values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def index(self, id: int, words: Sequence[str]) -> None:
        self.unindex([id])
        self._connection.execute(
            "INSERT INTO toolyard_memory_words (rowid, words) VALUES (?, ?)", (id, " ".join(words))
        )

    def unindex(self, ids: Sequence[int]) -> None:
        gone = [(id,) for id in ids]
        self._connection.executemany("DELETE FROM toolyard_memory_words WHERE rowid = ?", gone)

    def match(self, words: Sequence[str], limit: int) -> list[int]:
        seldom, often = self._sorted(words)
        if not seldom:
            return []
        expression = _any_of(seldom)
        # Only where it costs little to pass over most: from which one on the newest are weighed.
        beyond = self._connection.execute(
            f"SELECT rowid {_MATCH} ORDER BY rowid DESC LIMIT 1 OFFSET {WEIGHED}", (expression,)
        ).fetchone()
        if often:  # they find nothing of themselves, and count for what is found
            expression = f"({expression}) OR (({expression}) AND ({_any_of(often)}))"
        rows = self._connection.execute(
            f"SELECT rowid {_MATCH} AND rowid > ? ORDER BY rank LIMIT ?",
            (expression, beyond[0] if beyond else 0, limit),
        )
        return [row[0] for row in rows]

    def _sorted(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """The words by which to find, and those that only help to rank what is found."""
        counted: list[tuple[int, str]] = []
        for word in words:
            row = self._connection.execute(
                "SELECT doc FROM toolyard_memory_terms WHERE term = ?", (word,)
            ).fetchone()
            if row is not None:
                counted.append((row[0], word))
        counted.sort()
        seldom: list[str] = []
        often: list[str] = []
        total = 0
        for count, word in counted:
            total += count
            if not seldom or total <= WEIGHED:
                seldom.append(word)
            elif count <= FREQUENT:
                often.append(word)
        return seldom, often


def _any_of(words: Sequence[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def _make_tables(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        for statement in (*tables(**_TYPES), *_WORDS):
            connection.execute(statement)
