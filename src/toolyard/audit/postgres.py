"""The audit in PostgreSQL, for many processes and machines."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..databases.model import place_of, without_secrets
from ..databases.postgres_pool import PostgresPool, connect
from ..extras import install_command
from .database import TABLES, Values
from .store import AuditStoreError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

CONNECTIONS = 2
"""One for records, one for reading."""
CONNECT_SECONDS = 3
SECONDS = 5.0
"""For one transaction, including the wait for a connection."""

_FOUR_VALUES = "VALUES (?, ?, ?, ?)"

T = TypeVar("T")
Row = tuple[Any, ...]


class PostgresAuditDatabase:
    def __init__(self, url: str) -> None:
        self.place = place_of(url)
        self._url = url
        self._pool = PostgresPool(self._connect, CONNECTIONS)
        self._is_prepared = False

    async def fetch(self, statement: str, values: Values) -> list[Row]:
        async def read(connection: "AsyncConnection[Row]") -> list[Row]:
            return await (await connection.execute(_own_style(statement), values)).fetchall()

        return await self._run(read)

    async def write(self, statements: Sequence[tuple[str, Sequence[Values]]]) -> None:
        async def run(connection: "AsyncConnection[Row]") -> None:
            async with connection.transaction(), connection.cursor() as cursor:
                for statement, rows in statements:
                    before, values, after = statement.partition(_FOUR_VALUES)
                    if values:  # one statement for all rows takes half the time
                        several = before + "VALUES " + ", ".join(["(?, ?, ?, ?)"] * len(rows)) + after
                        await cursor.execute(_own_style(several), [value for row in rows for value in row])
                    else:
                        await cursor.executemany(_own_style(statement), rows)

        await self._run(run)

    async def close(self) -> None:
        await self._pool.close()

    async def _run(self, action: Callable[["AsyncConnection[Row]"], Awaitable[T]]) -> T:
        try:
            from psycopg import Error  # 80 to 110 ms of CPU, once
            from psycopg.errors import UndefinedTable
        except ImportError:
            raise AuditStoreError(
                "an audit in PostgreSQL needs a package that is not installed",
                install_command("postgres"),
            ) from None
        try:
            async with asyncio.timeout(SECONDS):
                async with self._pool.acquire() as connection:
                    if not self._is_prepared:
                        await _make_tables(connection)
                        self._is_prepared = True
                    return await action(connection)
        except TimeoutError:
            raise AuditStoreError(
                f"the audit in {self.place} did not answer within {SECONDS:g} s", "is PostgreSQL up?"
            ) from None
        except (Error, OSError) as error:
            # Restoring a database may have dropped the tables.
            self._is_prepared = self._is_prepared and not isinstance(error, UndefinedTable)
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise AuditStoreError(
                f"the audit in {self.place}: {without_secrets(first_line, self._url)}",
                "is PostgreSQL up, and are url and rights of [audit] right?",
            ) from None

    async def _connect(self) -> "AsyncConnection[Row]":
        from psycopg import ProgrammingError

        try:
            return await connect(self._url, application_name="toolyard audit", seconds=CONNECT_SECONDS)
        except ProgrammingError:
            # Its message may quote a part of the password that it took for a port.
            raise AuditStoreError(
                f"the address {self.place} cannot be read",
                "postgresql://USER:PASSWORD@HOST:PORT/NAME, with special characters percent-encoded",
            ) from None


def _own_style(statement: str) -> bytes:
    return statement.replace("%", "%%").replace("?", "%s").encode()


async def _make_tables(connection: "AsyncConnection[Row]") -> None:
    # This user may be allowed to use the tables and not to create them.
    cursor = await connection.execute("SELECT to_regclass('toolyard_audit_cursors') IS NOT NULL")
    if (await cursor.fetchone() or (False,))[0]:
        return
    async with connection.transaction():
        # Processes may start together, and "if not exists" does not prevent an error then.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('toolyard_audit'))")
        for statement in TABLES:
            await connection.execute(statement.encode())
