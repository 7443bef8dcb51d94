"""The audit in an SQLite file, for one machine. Several processes may share it."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..sqlite_file import SqliteFileError, SqliteThread, explain_fault, transaction
from .database import TABLES, Values
from .store import AuditStoreError

BUSY_SECONDS = 5.0


class SqliteAuditDatabase:
    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path
        self._thread = SqliteThread(
            path, _make_tables, self._translate_error, busy_seconds=BUSY_SECONDS, name="toolyard-audit"
        )

    async def fetch(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        return await self._thread.run(lambda connection: connection.execute(statement, values).fetchall())

    async def write(self, statements: Sequence[tuple[str, Sequence[Values]]]) -> None:
        def run(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                for statement, rows in statements:
                    connection.executemany(statement, rows)

        await self._thread.run(run)

    async def close(self) -> None:
        await self._thread.close()

    def _translate_error(self, error: SqliteFileError) -> AuditStoreError:
        fault = explain_fault(error, self._path)
        return AuditStoreError(f"the audit in {self.place!r} cannot be used: {fault.reason}", fault.hint)


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)
