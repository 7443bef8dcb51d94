"""A few connections to PostgreSQL, lent one by one: opened when needed, dropped when anything goes wrong.

Not psycopg's own pool: that one goes on trying in the background when the server is gone, and who asks
learns nothing but that time is over.
"""

import asyncio
import selectors
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class Connections:
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
            if not connection.closed and not _has_something_to_say(connection.fileno()):
                return connection
            await connection.close()
        return await self._connect()


def _has_something_to_say(descriptor: int) -> bool:
    """An idle connection is silent; one with something to read has been ended by the server."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))
