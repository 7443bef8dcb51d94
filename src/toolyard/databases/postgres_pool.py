"""A few PostgreSQL connections that are used again, for our own tables: state and sessions.

Owns no SQL. The pool belongs to one event loop. `postgres` does not use it: a statement of a caller needs a
transaction that only reads.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import AsyncConnection


async def connect(url: str, *, application_name: str, seconds: int) -> AsyncConnection[Any]:
    from psycopg import AsyncConnection  # 80 to 110 ms of CPU, once

    return await AsyncConnection.connect(
        url,
        autocommit=True,
        # Prepared statements belong to a connection, and behind PgBouncer or Supabase's pooler the next
        # statement may run on another one.
        prepare_threshold=None,
        connect_timeout=seconds,
        application_name=application_name,
    )


class PostgresPool:
    def __init__(self, open_connection: Callable[[], Awaitable[AsyncConnection[Any]]], limit: int) -> None:
        self._open_connection = open_connection
        self._limit = asyncio.Semaphore(limit)
        # The one used last is taken first, so that the server may close the others.
        self._idle: list[AsyncConnection[Any]] = []

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Waits for a free connection. After an error inside the block the connection is closed."""
        async with self._limit:
            connection = await self._usable()
            try:
                yield connection
            except BaseException:
                # It may be in the middle of a statement.
                await connection.close()
                raise
            self._idle.append(connection)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _usable(self) -> AsyncConnection[Any]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not _is_readable(connection.fileno()):
                return connection
            await connection.close()
        return await self._open_connection()


def _is_readable(descriptor: int) -> bool:
    """An idle connection has nothing to read unless the server has ended it."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))
