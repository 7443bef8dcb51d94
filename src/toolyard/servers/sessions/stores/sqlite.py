"""Runs scripts on an SQLite file, or in memory, in a thread, so that the event loop never waits."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeVar

from ....sqlite_file import SqliteFileError, SqliteThread, reason, transaction
from ..model import Row
from .script import SQLITE, ConversationStoreError, Script, ScriptEngine

T = TypeVar("T")

BUSY_SECONDS = 20.0
"""Seconds that a write waits for a write of another process."""


class SqliteScriptEngine:
    dialect = SQLITE

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database = SqliteThread(
            path, _make_tables, self._translate_error, busy_seconds=BUSY_SECONDS, name="toolyard-sessions"
        )

    async def read(self, script: Script[T]) -> T:
        return await self._database.run(lambda connection: _run_script(connection, script))

    async def write(self, script: Script[T]) -> T:
        def work(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                return _run_script(connection, script)

        return await self._database.run(work)

    def for_thread(self) -> ScriptEngine:
        # A database in memory cannot be opened twice; its thread serves every event loop.
        return _SharedEngine(self) if self._path is None else SqliteScriptEngine(self._path)

    async def close(self) -> None:
        await self._database.close()

    def _translate_error(self, error: SqliteFileError) -> ConversationStoreError:
        message = f"their database cannot be used: {reason(error, self._path)}"
        if isinstance(error, OSError):
            return ConversationStoreError(message, "check that this user may write there")
        if "not a database" in str(error):
            return ConversationStoreError(message, "name another file with 'url'")
        return ConversationStoreError(message, "is there room on the disk, and may we write?")


class _SharedEngine:
    """Uses another engine's connection, and leaves closing it to that engine."""

    dialect = SQLITE

    def __init__(self, engine: SqliteScriptEngine) -> None:
        self._engine = engine
        self.read = engine.read
        self.write = engine.write

    def for_thread(self) -> ScriptEngine:
        return self

    async def close(self) -> None:
        return None


def _run_script(connection: sqlite3.Connection, script: Script[T]) -> T:
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
