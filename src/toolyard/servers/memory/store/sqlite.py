"""SQLite: one file, several processes, FTS5 for words."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ....sqlite_file import connect, reason
from ..errors import MemoryStoreError
from .database import MemoryConnection, Row, tables

T = TypeVar("T")

BUSY_SECONDS = 10.0
"""How long a writer waits for a writer of another process."""
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
    """All in one thread of its own. Without a path it is in memory, for this process only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolyard-memory")
        self._connection: sqlite3.Connection | None = None

    async def read(self, work: Callable[[MemoryConnection], T]) -> T:
        return await self._in_thread(work, "BEGIN")

    async def write(self, work: Callable[[MemoryConnection], T]) -> T:
        return await self._in_thread(work, "BEGIN IMMEDIATE")

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[MemoryConnection], T], begin: str) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._done, work, begin)

    def _done(self, work: Callable[[MemoryConnection], T], begin: str) -> T:
        try:
            connection = self._open()
            connection.execute(begin)
            try:
                result = work(_SqliteSession(connection))
            except BaseException:
                if connection.in_transaction:  # some failures have undone it already
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            return result
        except (sqlite3.Error, OSError) as error:
            if self._path is not None:  # in memory there would be nothing to come back to
                self._disconnect()
            raise MemoryStoreError(f"SQLite: {reason(error, self._path)}") from None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path, _make_tables, busy_seconds=BUSY_SECONDS)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


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
    connection.execute("BEGIN IMMEDIATE")
    for statement in (*tables(**_TYPES), *_WORDS):
        connection.execute(statement)
    connection.execute("COMMIT")
