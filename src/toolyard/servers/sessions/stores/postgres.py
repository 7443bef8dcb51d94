"""Runs scripts on PostgreSQL, for many processes and machines.

Its connections belong to one event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ....databases.model import place_of, without_secrets
from ....databases.postgres_pool import PostgresPool, connect
from ..model import Row
from .script import POSTGRES, ConversationStoreError, Script, ScriptEngine

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")

CONNECTIONS = 4
CONNECT_SECONDS = 5
READ_SECONDS = 10.0
WRITE_SECONDS = 60.0
_VALUE = re.compile(r":([a-z]\w*)")


class PostgresScriptEngine:
    dialect = POSTGRES

    def __init__(self, url: str) -> None:
        self._url = url
        self._place = place_of(url)
        self._pool = PostgresPool(self._connect, CONNECTIONS)
        self._prepared = False

    async def read(self, script: Script[T]) -> T:
        async with self._limited(READ_SECONDS), self._connection() as connection:
            return await _run_script(connection, script)

    async def write(self, script: Script[T]) -> T:
        async with (
            self._limited(WRITE_SECONDS),
            self._connection() as connection,
            connection.transaction(),
        ):
            return await _run_script(connection, script)

    def for_thread(self) -> ScriptEngine:
        return PostgresScriptEngine(self._url)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[AsyncConnection[Row]]:
        async with self._pool.acquire() as connection:
            if not self._prepared:
                await _prepare(connection)
                self._prepared = True
            yield connection

    async def _connect(self) -> AsyncConnection[Row]:
        return await connect(self._url, application_name="toolyard-sessions", seconds=CONNECT_SECONDS)

    @asynccontextmanager
    async def _limited(self, seconds: float) -> AsyncGenerator[None]:
        from psycopg import Error

        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ConversationStoreError(
                f"{self._place} did not answer within {seconds:g} s", "is PostgreSQL up and not overloaded?"
            ) from None
        except (Error, OSError) as error:
            message = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = f"{self._place}: {without_secrets(message, self._url)}"
            raise ConversationStoreError(reason, "is PostgreSQL up, and is 'url' right?") from None


async def _run_script(connection: AsyncConnection[Row], script: Script[T]) -> T:
    rows: list[Row] | None = None
    try:
        while True:
            step = next(script) if rows is None else script.send(rows)
            statement = _VALUE.sub(r"%(\1)s", step.sql).encode()
            if step.each is not None:
                async with connection.cursor() as cursor:
                    await cursor.executemany(statement, cast(Any, step.each))
                rows = []
            else:
                cursor = await connection.execute(statement, step.values, binary=True)
                rows = await cursor.fetchall() if cursor.description else []
    except StopIteration as done:
        return done.value
    finally:
        script.close()


async def _prepare(connection: AsyncConnection[Row]) -> None:
    # The user may have no right to create tables that exist already.
    cursor = await connection.execute("SELECT to_regclass('toolyard_session_files') IS NOT NULL")
    if (await cursor.fetchone() or (False,))[0]:
        return
    async with connection.transaction():
        # "IF NOT EXISTS" fails if two processes create the tables at the same time.
        for statement in (*POSTGRES.lock, *POSTGRES.create):
            await connection.execute(statement.encode())
