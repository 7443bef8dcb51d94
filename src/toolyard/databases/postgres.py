"""PostgreSQL: each statement in a READ ONLY transaction of its own, with a time limit, rolled back.

What is sent is `SELECT * FROM (…)` around the statement, as one message of the extended protocol: a second
statement, or one that is no question (COPY, DO, SET, a write in WITH), is a syntax error there. A superuser,
whom no transaction keeps from files, becomes `pg_read_all_data` first.
"""

import asyncio
from contextlib import suppress

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, sql
from psycopg.rows import TupleRow

from ..workers.shares import Shares
from .addresses import place_of, without_secrets
from .cached import LOOKING, CachedTables
from .model import CACHE_SECONDS, DatabaseError, ErrorKind, Rows, Table, timed_out
from .postgres_tables import look
from .postgres_values import convert, converters, register
from .sending import sendable
from .values import Basket

CONNECTIONS = 4
CONNECT_SECONDS = 10
LOOK_SECONDS = 30.0
_CHUNK = 1000
_GRACE = 5.0
"""Seconds more than the server's own limit before the line itself is given up."""

Line = AsyncConnection[TupleRow]


class PostgresDatabase:
    dialect = "postgres"

    def __init__(self, url: str, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self.name = place_of(url)
        self._url = url
        self._lines: list[_Line] = []
        self._shares = Shares(CONNECTIONS)
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        statement = sendable(sql)
        async with self._shares.place(caller):
            line = await self._begun(seconds)
            try:
                async with asyncio.timeout(seconds + _GRACE):
                    answer = await _read(line.connection, statement, rows, bytes)
                    await line.end()
            except psycopg.Error as error:
                await self._put_back(line)
                raise self._explained(error, seconds) from error
            except TimeoutError as error:
                await line.connection.close()
                raise timed_out(seconds) from error
            except DatabaseError:
                await self._put_back(line)
                raise
            except BaseException:
                # Cancelled: the driver has told the server to stop, and waited for it.
                await line.connection.close()
                raise
            self._lines.append(line)
            return answer

    async def close(self) -> None:
        while self._lines:
            await self._lines.pop().connection.close()

    async def _look(self) -> list[Table]:
        async with self._shares.place(LOOKING):
            line = await self._begun(LOOK_SECONDS)
            try:
                tables = await look(line.connection)
                await line.end()
            except psycopg.Error as error:
                await line.connection.close()
                raise self._explained(error, LOOK_SECONDS) from error
            except BaseException:
                await line.connection.close()
                raise
            self._lines.append(line)
            return tables

    async def _begun(self, seconds: float) -> "_Line":
        """A line with a transaction; those that broke while nobody used them are left behind."""
        while self._lines:
            with suppress(psycopg.OperationalError, TimeoutError):
                return await _begun_on(self._lines.pop(), seconds)
        try:
            return await _begun_on(await _Line.connected(self._url), seconds)
        except (psycopg.Error, TimeoutError) as error:
            said = without_secrets(str(error).strip(), self._url)
            raise DatabaseError(f"cannot reach {self.name}: {said}", "unreachable") from error

    async def _put_back(self, line: "_Line") -> None:
        try:
            await line.end()
        except psycopg.Error:
            await line.connection.close()
        else:
            self._lines.append(line)

    def _explained(self, error: psycopg.Error, seconds: float) -> DatabaseError:
        kind = _kind(error.sqlstate or "")
        if kind == "timeout":
            return timed_out(seconds)
        if error.sqlstate is None:
            kind = "unreachable"
        said = error.diag.message_primary or without_secrets(str(error).strip(), self._url)
        hint = f"; hint: {error.diag.message_hint}" if error.diag.message_hint else ""
        return DatabaseError(said + hint, kind)


class _Line:
    """A connection, and how a transaction on it begins."""

    def __init__(self, connection: Line, rights: str) -> None:
        self.connection = connection
        self._rights = rights

    @classmethod
    async def connected(cls, url: str) -> "_Line":
        connection = await AsyncConnection.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=CONNECT_SECONDS,
            application_name="toolyard",
            client_encoding="utf8",
        )
        try:
            register(connection)
            return cls(connection, await _rights(connection))
        except BaseException:
            await connection.close()
            raise

    async def begin(self, seconds: float) -> None:
        milliseconds = max(1, round(seconds * 1000))
        begin = (
            f"BEGIN READ ONLY; SET LOCAL statement_timeout = {milliseconds:d};"
            "SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL intervalstyle = 'iso_8601';"
            "SET LOCAL bytea_output = 'hex';"
            "SET LOCAL default_transaction_read_only = on;"
        )
        await self.connection.execute((begin + self._rights).encode())

    async def end(self) -> None:
        await self.connection.execute("ROLLBACK")
        # An advisory lock or a prepared statement would outlive the transaction.
        await self.connection.execute("DISCARD ALL")


async def _begun_on(line: _Line, seconds: float) -> _Line:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await line.begin(seconds)
    except BaseException:
        await line.connection.close()
        raise
    return line


async def _rights(connection: Line) -> str:
    """What a superuser gives up. Names are found as before: without it `"$user"` would be somebody else."""
    asked = await connection.execute(
        "SELECT rolsuper AND EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_read_all_data'),"
        " current_schemas(false) FROM pg_roles WHERE rolname = current_user"
    )
    found = await asked.fetchone()
    if found is None or not found[0]:
        return ""
    path = sql.SQL(", ").join(map(sql.Identifier, found[1])).as_string(connection) or "''"
    return f"SET LOCAL search_path = {path}; SET LOCAL ROLE pg_read_all_data"


async def _read(connection: Line, statement: str, rows: int, bytes: int) -> Rows:
    kept = Basket(rows, bytes)
    # The new line ends a comment that the statement may end with. The parameter is what makes the driver use
    # the extended protocol, where there is one statement in a message.
    wrapped = f"SELECT * FROM ({statement}\n) AS asked LIMIT $1"
    async with AsyncRawCursor(connection) as cursor:
        await cursor.execute(wrapped.encode(), (rows + 1,))
        described = cursor.description or []
        wanted = converters(connection, described)
        while not kept.truncated and (fetched := await cursor.fetchmany(_CHUNK)):
            chunk = [*map(list, fetched)]
            convert(chunk, wanted)
            kept.put(chunk)
    columns = [column.name for column in described]
    types = [column.type_display for column in described]
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


_KINDS: dict[str, ErrorKind] = {
    "57014": "timeout",
    "25006": "read_only",
    "42501": "read_only",
    "0A000": "read_only",
    "42601": "syntax",
    "42P01": "unknown",
    "42703": "unknown",
    "42883": "unknown",
    "42704": "unknown",
    "3F000": "unknown",
    "3D000": "unreachable",
    "54000": "too_big",
    "53200": "too_big",
}


def _kind(state: str) -> ErrorKind:
    if state.startswith(("08", "57P", "28")):
        return "unreachable"
    return _KINDS.get(state, "other")
