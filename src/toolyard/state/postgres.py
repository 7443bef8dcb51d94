"""A store in PostgreSQL, for many processes and machines: one small table, and the server's own clock."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from .address import place_of, without_secrets
from .connections import Connections
from .errors import Full, Late, MissingExtra, StateError, Unavailable, Unusable
from .state import check, lifetime

if TYPE_CHECKING:
    from psycopg import AsyncConnection

logger = logging.getLogger("toolyard.state")

CONNECTIONS = 4
CONNECT_SECONDS = 3
SECONDS = 5.0
"""For one statement, waiting for a connection included."""
SWEEP_SECONDS = 60.0

_TABLE = (
    "CREATE TABLE IF NOT EXISTS toolyard_state"
    ' (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, expires timestamptz)',
    "CREATE INDEX IF NOT EXISTS toolyard_state_expires ON toolyard_state (expires) WHERE expires IS NOT NULL",
)
_EXPIRES = "clock_timestamp() + %(ttl)s::float8 * interval '1 second'"
_ALIVE = "(expires IS NULL OR expires > clock_timestamp())"
_GET = f"SELECT value FROM toolyard_state WHERE key = %(key)s AND {_ALIVE}"
_PUT = (
    f"INSERT INTO toolyard_state AS mine VALUES (%(key)s, %(new)s, {_EXPIRES}) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
)
_ADD = f"{_PUT} WHERE mine.expires <= clock_timestamp()"
_REPLACE = (
    f"UPDATE toolyard_state SET value = %(new)s, expires = {_EXPIRES} "
    f"WHERE key = %(key)s AND value = %(old)s AND {_ALIVE}"
)
_REMOVE = f"DELETE FROM toolyard_state WHERE key = %(key)s AND value = %(old)s AND {_ALIVE}"
_DELETE = f"DELETE FROM toolyard_state WHERE key = %(key)s AND {_ALIVE}"
_KEYS = f"SELECT key FROM toolyard_state WHERE key >= %(key)s AND key < %(last)s AND {_ALIVE} ORDER BY key"
# Two processes that sweep together do not wait for each other.
_SWEEP = (
    "DELETE FROM toolyard_state WHERE key IN (SELECT key FROM toolyard_state "
    "WHERE expires <= clock_timestamp() LIMIT 1000 FOR UPDATE SKIP LOCKED)"
)

T = TypeVar("T")
Row = tuple[Any, ...]


class PostgresState:
    def __init__(self, url: str) -> None:
        self._url = url
        self._place = place_of(url)
        self._connections = Connections(self._connect, CONNECTIONS)
        self._prepared = False
        self._swept = 0.0

    async def get(self, key: str) -> bytes | None:
        check(key)
        rows = await self._twice(lambda: self._rows(_GET, {"key": key}))
        return bytes(rows[0][0]) if rows else None

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check(key, value)
        await self._twice(lambda: self._count(_PUT, {"key": key, "new": value, "ttl": lifetime(ttl)}))
        await self._sweep()

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check(key, new)
        if old is None and new is None:
            return await self.get(key) is None
        statement = _ADD if old is None else _REMOVE if new is None else _REPLACE
        done = await self._count(statement, {"key": key, "old": old, "new": new, "ttl": lifetime(ttl)})
        await self._sweep()
        return done > 0

    async def delete(self, key: str) -> bool:
        check(key)
        return await self._twice(lambda: self._count(_DELETE, {"key": key})) > 0

    async def keys(self, prefix: str) -> list[str]:
        values = {"key": prefix, "last": prefix + "\U0010ffff"}
        return [row[0] for row in await self._twice(lambda: self._rows(_KEYS, values))]

    async def close(self) -> None:
        await self._connections.close()

    async def _twice(self, action: Callable[[], Awaitable[T]]) -> T:
        try:
            return await action()
        except Late:
            raise
        except Unavailable:
            return await action()

    async def _rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        async def read(connection: "AsyncConnection[Row]") -> list[Row]:
            cursor = await connection.execute(statement.encode(), values, binary=True)
            return await cursor.fetchall()

        return await self._once(read)

    async def _count(self, statement: str, values: Mapping[str, Any]) -> int:
        async def write(connection: "AsyncConnection[Row]") -> int:
            return (await connection.execute(statement.encode(), values)).rowcount

        return await self._once(write)

    async def _once(self, action: Callable[["AsyncConnection[Row]"], Awaitable[T]]) -> T:
        try:
            from psycopg import Error  # 80 to 110 ms of CPU, once, and only for who uses it
            from psycopg.errors import DeadlockDetected, SerializationFailure, UndefinedTable
        except ImportError:
            # It is installed, else we had not come here, but without the library that does its work.
            raise MissingExtra(self._place, "postgres") from None

        try:
            async with asyncio.timeout(SECONDS):
                try:
                    return await self._lent(action)
                except (DeadlockDetected, SerializationFailure, UndefinedTable) as error:
                    # Nothing was done. The table may have been dropped by whoever restored a database.
                    self._prepared = self._prepared and not isinstance(error, UndefinedTable)
                    return await self._lent(action)
        except TimeoutError:
            raise self._late() from None
        except (Error, OSError) as error:
            raise self._explained(error) from None

    async def _lent(self, action: Callable[["AsyncConnection[Row]"], Awaitable[T]]) -> T:
        async with self._connections.lend() as connection:
            if not self._prepared:
                await _prepare(connection)
                self._prepared = True
            return await action(connection)

    async def _connect(self) -> "AsyncConnection[Row]":
        from psycopg import AsyncConnection, ProgrammingError

        try:
            return await AsyncConnection.connect(
                self._url,
                autocommit=True,
                # Prepared statements belong to a connection, and behind PgBouncer, or Supabase's pooler, the
                # next statement may meet another one.
                prepare_threshold=None,
                connect_timeout=CONNECT_SECONDS,
                application_name="toolyard",
            )
        except ProgrammingError:
            # Its words may quote what it took for a port, which may be half of a password.
            raise Unusable(
                f"the address {self._place} cannot be read",
                "postgresql://USER:PASSWORD@HOST:PORT/NAME, with special characters percent-encoded",
            ) from None

    async def _sweep(self) -> None:
        """Now and then, with a write that is made anyway."""
        now = time.monotonic()
        if now - self._swept > SWEEP_SECONDS:
            self._swept = now
            try:
                await self._count(_SWEEP, {})
            except StateError as error:
                logger.warning("what has expired is still there: %s", error)

    def _late(self) -> Late:
        return Late(f"{self._place} gave no answer within {SECONDS:g} s", "is PostgreSQL up and reachable?")

    def _explained(self, error: Exception) -> StateError:
        from psycopg.errors import (
            ConnectionTimeout,
            DiskFull,
            InsufficientPrivilege,
            InvalidAuthorizationSpecification,
        )

        if isinstance(error, ConnectionTimeout):
            return self._late()

        reason = f"{self._place}: {without_secrets(_first_line(error), self._url)}"
        if isinstance(error, InsufficientPrivilege):
            return Unusable(reason, "let the user create a table, or create toolyard_state as the docs show")
        if isinstance(error, DiskFull):
            return Full(reason, "is the server's disk full?")
        if isinstance(error, InvalidAuthorizationSpecification) or "authentication failed" in reason:
            return Unusable(reason, "check user and password in the url of [state]")
        return Unavailable(reason, "is PostgreSQL up, and is the url of [state] right?")


async def _prepare(connection: "AsyncConnection[Row]") -> None:
    from psycopg.errors import DuplicateTable, UniqueViolation

    # Where it exists already, we may be allowed to use it and not to make it.
    cursor = await connection.execute("SELECT to_regclass('toolyard_state') IS NOT NULL")
    if (await cursor.fetchone() or (False,))[0]:
        return
    for statement in _TABLE:
        # Another process that starts may be faster, and "if not exists" is no protection against that.
        with suppress(DuplicateTable, UniqueViolation):
            await connection.execute(statement.encode())


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
