"""A store in an SQLite file, for one machine: survives restarts, and several processes may share it."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ..sqlite_file import connect
from .store import (
    StateError,
    StateFullError,
    StateUnavailableError,
    StateUnusableError,
    check_entry,
    checked_ttl,
)

BUSY_SECONDS = 5.0
"""How long a writer waits for a writer of another process."""
SWEEP_SECONDS = 30.0

_TABLE = """
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS state_expires ON state (expires) WHERE expires IS NOT NULL;
"""
_ALIVE = "(expires IS NULL OR expires > :now)"
_GET = f"SELECT value FROM state WHERE key = :key AND {_ALIVE}"
_PUT = (
    "INSERT INTO state VALUES (:key, :new, :expires) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
)
_ADD = f"{_PUT} WHERE state.expires <= :now"
_REPLACE = f"UPDATE state SET value = :new, expires = :expires WHERE key = :key AND value = :old AND {_ALIVE}"
_REMOVE = f"DELETE FROM state WHERE key = :key AND value = :old AND {_ALIVE}"
_DELETE = f"DELETE FROM state WHERE key = :key AND {_ALIVE}"
_KEYS = f"SELECT key FROM state WHERE key >= :key AND key < :last AND {_ALIVE} ORDER BY key"
_SWEEP = "DELETE FROM state WHERE expires <= :now"

_FULL = (sqlite3.SQLITE_FULL,)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

T = TypeVar("T")


class SqliteState:
    """Everything happens in one thread of its own, so that a slow disk stops no event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolyard-state")
        self._connection: sqlite3.Connection | None = None
        self._swept = 0.0

    async def get(self, key: str) -> bytes | None:
        check_entry(key)
        return await self._in_thread(lambda: self._value(_GET, key=key))

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check_entry(key, value)
        await self._in_thread(lambda: self._write(key, _PUT, new=value, ttl=ttl))

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check_entry(key, new)
        if old is None and new is None:
            return await self.get(key) is None
        statement = _ADD if old is None else _REMOVE if new is None else _REPLACE
        return await self._in_thread(lambda: self._write(key, statement, old=old, new=new, ttl=ttl))

    async def delete(self, key: str) -> bool:
        check_entry(key)
        return await self._in_thread(lambda: self._write(key, _DELETE))

    async def keys(self, prefix: str) -> list[str]:
        return await self._in_thread(lambda: self._keys(prefix))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            raise self._explained(error) from None

    def _value(self, statement: str, **values: object) -> bytes | None:
        row = self._open().execute(statement, {**values, "now": time.time()}).fetchone()
        return None if row is None else bytes(row[0])

    def _keys(self, prefix: str) -> list[str]:
        values = {"key": prefix, "last": prefix + "\U0010ffff", "now": time.time()}
        return [str(row[0]) for row in self._open().execute(_KEYS, values)]

    def _write(
        self,
        key: str,
        statement: str,
        old: bytes | None = None,
        new: bytes | None = None,
        ttl: float | None = None,
    ) -> bool:
        now = time.time()
        seconds = checked_ttl(ttl)
        expires = None if seconds is None else now + seconds
        values = {"key": key, "old": old, "new": new, "expires": expires, "now": now}
        done = self._open().execute(statement, values).rowcount > 0
        if now - self._swept > SWEEP_SECONDS:
            self._swept = now
            self._open().execute(_SWEEP, {"now": now})
        return done

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path, _make_table, busy_seconds=BUSY_SECONDS)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _explained(self, error: sqlite3.Error | OSError) -> StateError:
        where = f"the state file {str(self._path)!r}"
        if isinstance(error, OSError):
            return StateUnavailableError(
                f"{where} cannot be used: {error.strerror}", "may this user write there?"
            )
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _FULL:
            return StateFullError(f"{where} cannot grow: {error}", "is the disk full?")
        if code in _BROKEN:
            return StateUnusableError(
                f"{where} cannot be read: {error}", "move it away, and a new one is made"
            )
        return StateUnavailableError(
            f"{where} cannot be used: {error}", "is it on a local disk, and writable?"
        )


def _make_table(connection: sqlite3.Connection) -> None:
    connection.executescript(_TABLE)
