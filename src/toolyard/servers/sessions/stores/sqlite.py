"""Runs scripts on an SQLite file, or in memory, in a thread, so that the event loop never waits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ....sqlite_file import connect, reason
from .script import SQLITE, ConversationStoreError, Row, Script, ScriptEngine

T = TypeVar("T")

BUSY_SECONDS = 20.0
"""How long a writer waits for a writer of another process."""


class SqliteScriptEngine:
    dialect = SQLITE

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolyard-sessions")
        self._connection: sqlite3.Connection | None = None

    async def read(self, script: Script[T]) -> T:
        return await self._in_thread(lambda: _driven(self._open(), script))

    async def write(self, script: Script[T]) -> T:
        return await self._in_thread(lambda: self._transaction(script))

    def elsewhere(self) -> ScriptEngine:
        # What is in memory is in this one's memory, and its thread serves whoever asks.
        return _Borrowed(self) if self._path is None else SqliteScriptEngine(self._path)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            if self._path is not None:
                self._disconnect()
            raise self._explained(error) from None

    def _transaction(self, script: Script[T]) -> T:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            value = _driven(connection, script)
            connection.execute("COMMIT")
            return value
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path, _make_tables, busy_seconds=BUSY_SECONDS, one_thread=False)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _explained(self, error: sqlite3.Error | OSError) -> ConversationStoreError:
        said = f"their database cannot be used: {reason(error, self._path)}"
        if isinstance(error, OSError):
            return ConversationStoreError(said, "may this user write there?")
        if "not a database" in str(error):
            return ConversationStoreError(said, "name another file with 'url'")
        return ConversationStoreError(said, "is there room on the disk, and may we write?")


class _Borrowed:
    """Another's engine; closing it is the other's affair."""

    dialect = SQLITE

    def __init__(self, engine: SqliteScriptEngine) -> None:
        self._engine = engine
        self.read = engine.read
        self.write = engine.write

    def elsewhere(self) -> ScriptEngine:
        return self

    async def close(self) -> None:
        return None


def _driven(connection: sqlite3.Connection, script: Script[T]) -> T:
    rows: list[Row] | None = None
    try:
        while True:
            step = next(script) if rows is None else script.send(rows)
            if step.each is not None:
                connection.executemany(step.sql, step.each)
                rows = []
            else:
                rows = connection.execute(step.sql, dict(step.values)).fetchall()
    except StopIteration as done:
        return done.value
    finally:
        script.close()


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in SQLITE.create:
        connection.execute(statement)
