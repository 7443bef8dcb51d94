"""A store in PostgreSQL, for many processes and machines: one small table, and the server's own clock."""

import asyncio
import logging
import selectors
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from .store import (
    StateError,
    StateExtraError,
    StateFullError,
    StateTimeoutError,
    StateUnavailableError,
    StateUnusableError,
    check_entry,
    checked_ttl,
    place_of,
    without_secrets,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class PostgresPool:
    def __init__(self, connect: "Callable[[], Awaitable[AsyncConnection[Any]]]", limit: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(limit)
        # The one used last is lent first, so that the others may be closed by the server.
        self._idle: list[AsyncConnection[Any]] = []

    @asynccontextmanager
    async def lend(self) -> "AsyncGenerator[AsyncConnection[Any]]":
        async with self._places:
            connection = await self._usable()
            try:
                yield connection
            except BaseException:
                # Whoever was interrupted left it in the middle of something.
                await connection.close()
                raise
            self._idle.append(connection)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _usable(self) -> "AsyncConnection[Any]":
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not _is_readable(connection.fileno()):
                return connection
            await connection.close()
        return await self._connect()


def _is_readable(descriptor: int) -> bool:
    """An idle connection is silent; one with something to read has been ended by the server."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


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
        self._connections = PostgresPool(self._connect, CONNECTIONS)
        self._prepared = False
        self._swept = 0.0

    async def get(self, key: str) -> bytes | None:
        check_entry(key)
        rows = await self._twice(lambda: self._rows(_GET, {"key": key}))
        return bytes(rows[0][0]) if rows else None

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check_entry(key, value)
        await self._twice(lambda: self._count(_PUT, {"key": key, "new": value, "ttl": checked_ttl(ttl)}))
        await self._sweep()

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check_entry(key, new)
        if old is None and new is None:
            return await self.get(key) is None
        statement = _ADD if old is None else _REMOVE if new is None else _REPLACE
        done = await self._count(statement, {"key": key, "old": old, "new": new, "ttl": checked_ttl(ttl)})
        await self._sweep()
        return done > 0

    async def delete(self, key: str) -> bool:
        check_entry(key)
        return await self._twice(lambda: self._count(_DELETE, {"key": key})) > 0

    async def keys(self, prefix: str) -> list[str]:
        values = {"key": prefix, "last": prefix + "\U0010ffff"}
        return [row[0] for row in await self._twice(lambda: self._rows(_KEYS, values))]

    async def close(self) -> None:
        await self._connections.close()

    async def _twice(self, action: Callable[[], Awaitable[T]]) -> T:
        try:
            return await action()
        except StateTimeoutError:
            raise
        except StateUnavailableError:
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
            raise StateExtraError(self._place, "postgres") from None

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
            raise StateUnusableError(
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

    def _late(self) -> StateTimeoutError:
        return StateTimeoutError(
            f"{self._place} gave no answer within {SECONDS:g} s", "is PostgreSQL up and reachable?"
        )

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
            return StateUnusableError(
                reason, "let the user create a table, or create toolyard_state as the docs show"
            )
        if isinstance(error, DiskFull):
            return StateFullError(reason, "is the server's disk full?")
        if isinstance(error, InvalidAuthorizationSpecification) or "authentication failed" in reason:
            return StateUnusableError(reason, "check user and password in the url of [state]")
        return StateUnavailableError(reason, "is PostgreSQL up, and is the url of [state] right?")


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
