"""State in an SQLite file, for one machine: it survives restarts, and several processes may share it."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..sqlite_file import SqliteFileError, SqliteThread, explain_fault, transaction
from .counters import SECOND, Counter, decode, encode, end_of, readings, settle
from .store import (
    CounterReadings,
    Spend,
    SpendResult,
    StateError,
    StateFullError,
    StateUnavailableError,
    StateUnusableError,
    check_entry,
    checked_ttl,
)

BUSY_SECONDS = 5.0
"""How long a write waits for another process that writes."""
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
_COUNTERS = f"SELECT key, value FROM state WHERE key >= :key AND key < :last AND {_ALIVE}"
_SWEEP = "DELETE FROM state WHERE expires <= :now"


class SqliteState:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._database = SqliteThread(
            path, _make_table, self._translate_error, busy_seconds=BUSY_SECONDS, name="toolyard-state"
        )
        self._swept = 0.0

    async def get(self, key: str) -> bytes | None:
        check_entry(key)

        def read(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(_GET, {"key": key, "now": self._clock()}).fetchone()
            return None if row is None else bytes(row[0])

        return await self._database.run(read)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check_entry(key, value)
        await self._write(_PUT, key, new=value, ttl=ttl)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check_entry(key, new)
        if old is None and new is None:
            return await self.get(key) is None
        statement = _ADD if old is None else _REMOVE if new is None else _REPLACE
        return await self._write(statement, key, old=old, new=new, ttl=ttl)

    async def delete(self, key: str) -> bool:
        check_entry(key)
        return await self._write(_DELETE, key)

    async def keys(self, prefix: str) -> list[str]:
        def read(connection: sqlite3.Connection) -> list[str]:
            values = {"key": prefix, "last": prefix + "\U0010ffff", "now": self._clock()}
            return [str(row[0]) for row in connection.execute(_KEYS, values)]

        return await self._database.run(read)

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        def count(connection: sqlite3.Connection) -> SpendResult:
            def read(key: str) -> Counter | None:
                row = connection.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
                return None if row is None else decode(bytes(row[0]))

            with transaction(connection):
                now = self._clock()
                result, changes = settle(entries, read, int(now * SECOND))
                for key, counter in changes:
                    values = {"key": key, "new": encode(counter), "expires": end_of(counter) / SECOND}
                    connection.execute(_PUT, values)
            self._sweep(connection, now)
            return result

        return await self._database.run(count)

    async def counters(self, prefix: str) -> CounterReadings:
        def read(connection: sqlite3.Connection) -> CounterReadings:
            now = self._clock()
            values = {"key": prefix, "last": prefix + "\U0010ffff", "now": now}
            found = [(str(key), decode(bytes(value))) for key, value in connection.execute(_COUNTERS, values)]
            return CounterReadings(now, readings(found, int(now * SECOND)))

        return await self._database.run(read)

    async def close(self) -> None:
        await self._database.close()

    async def _write(
        self,
        statement: str,
        key: str,
        old: bytes | None = None,
        new: bytes | None = None,
        ttl: float | None = None,
    ) -> bool:
        seconds = checked_ttl(ttl)

        def write(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            expires = None if seconds is None else now + seconds
            values = {"key": key, "old": old, "new": new, "expires": expires, "now": now}
            changed = connection.execute(statement, values).rowcount > 0
            self._sweep(connection, now)
            return changed

        return await self._database.run(write)

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        if abs(now - self._swept) > SWEEP_SECONDS:
            self._swept = now
            connection.execute(_SWEEP, {"now": now})

    def _translate_error(self, error: SqliteFileError) -> StateError:
        file = f"the state file {str(self._path)!r}"
        code = 0 if isinstance(error, OSError) else getattr(error, "sqlite_errorcode", 0) & 0xFF
        match code:
            case sqlite3.SQLITE_FULL:
                return StateFullError(f"{file} cannot grow: {error}", "is the disk full?")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return StateUnusableError(
                    f"{file} cannot be read: {error}", "move it away; a new one is created"
                )
            case _:
                fault = explain_fault(error, self._path)
                return StateUnavailableError(f"{file} cannot be used: {fault.reason}", fault.hint)


def _make_table(connection: sqlite3.Connection) -> None:
    connection.executescript(_TABLE)
