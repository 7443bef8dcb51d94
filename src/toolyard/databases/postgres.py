"""PostgreSQL: each statement in a READ ONLY transaction of its own, with a time limit, rolled back.

The statement is wrapped in `SELECT * FROM (…)` and sent as one message of the extended protocol, where a
second statement, or one that is not a query (COPY, DO, SET, a write in WITH), is a syntax error. A superuser
could read files even in such a transaction, and becomes `pg_read_all_data` first. Values come as text and
are converted by column.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Column, sql
from psycopg.rows import TupleRow
from psycopg.types.string import TextLoader

from ..workers.pool import FairLimiter
from .model import (
    CACHE_SECONDS,
    DatabaseError,
    ErrorKind,
    ForeignKey,
    Rows,
    Table,
    TableColumn,
    TableIndex,
    clean_statement,
    group_by_table,
    place_of,
    qualified_name,
    timed_out,
    without_secrets,
)
from .table_cache import TABLES_CALLER, CachedTables
from .values import RowBuffer, iso_timestamp, json_value

CONNECTIONS = 4
CONNECT_SECONDS = 10
TABLES_SECONDS = 30.0
_CHUNK = 1000
_GRACE = 5.0
"""Seconds after the server's own time limit until the connection is closed."""

PostgresConnection = AsyncConnection[TupleRow]


class PostgresDatabase(CachedTables):
    dialect = "postgres"

    def __init__(self, url: str, *, cache_seconds: float = CACHE_SECONDS) -> None:
        super().__init__(cache_seconds)
        self.name = place_of(url)
        self._url = url
        self._idle: list[_ReadOnlyConnection] = []
        self._limiter = FairLimiter(CONNECTIONS)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        statement = clean_statement(sql)
        async with self._limiter.place(caller):
            connection = await self._begin(seconds)
            try:
                async with asyncio.timeout(seconds + _GRACE):
                    answer = await _read(connection.driver, statement, rows, bytes)
                    await connection.end()
            except psycopg.Error as error:
                await self._release(connection)
                raise self._translate_error(error, seconds) from error
            except TimeoutError as error:
                await connection.close()
                raise timed_out(seconds) from error
            except DatabaseError:
                await self._release(connection)
                raise
            except BaseException:
                # Cancelled: the driver has stopped the statement in the server.
                await connection.close()
                raise
            self._idle.append(connection)
            return answer

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _read_tables(self) -> list[Table]:
        async with self._limiter.place(TABLES_CALLER):
            connection = await self._begin(TABLES_SECONDS)
            try:
                tables = await read_tables(connection.driver)
                await connection.end()
            except psycopg.Error as error:
                await connection.close()
                raise self._translate_error(error, TABLES_SECONDS) from error
            except BaseException:
                await connection.close()
                raise
            self._idle.append(connection)
            return tables

    async def _begin(self, seconds: float) -> "_ReadOnlyConnection":
        """A connection with a transaction begun. Idle connections that broke meanwhile are dropped."""
        while self._idle:
            with suppress(psycopg.OperationalError, TimeoutError):
                return await _begin_on(self._idle.pop(), seconds)
        try:
            return await _begin_on(await _ReadOnlyConnection.open(self._url), seconds)
        except (psycopg.Error, TimeoutError) as error:
            message = without_secrets(str(error).strip(), self._url)
            raise DatabaseError(f"cannot reach {self.name}: {message}", "unreachable") from error

    async def _release(self, connection: "_ReadOnlyConnection") -> None:
        try:
            await connection.end()
        except psycopg.Error:
            await connection.close()
        else:
            self._idle.append(connection)

    def _translate_error(self, error: psycopg.Error, seconds: float) -> DatabaseError:
        kind = _kind(error.sqlstate or "")
        if kind == "timeout":
            return timed_out(seconds)
        if error.sqlstate is None:
            kind = "unreachable"
        message = error.diag.message_primary or without_secrets(str(error).strip(), self._url)
        hint = f"; hint: {error.diag.message_hint}" if error.diag.message_hint else ""
        return DatabaseError(message + hint, kind)


class _ReadOnlyConnection:
    """A connection, with what begins and ends a transaction that only reads."""

    def __init__(self, driver: PostgresConnection, set_role: str) -> None:
        self.driver = driver
        self._set_role = set_role

    @classmethod
    async def open(cls, url: str) -> "_ReadOnlyConnection":
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
            return cls(connection, await _set_role(connection))
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
        await self.driver.execute((begin + self._set_role).encode())

    async def end(self) -> None:
        await self.driver.execute("ROLLBACK")
        # An advisory lock or a prepared statement would outlive the transaction.
        await self.driver.execute("DISCARD ALL")

    async def close(self) -> None:
        await self.driver.close()


async def _begin_on(connection: _ReadOnlyConnection, seconds: float) -> _ReadOnlyConnection:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await connection.begin(seconds)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _set_role(connection: PostgresConnection) -> str:
    """SQL that takes a superuser's rights away.

    It fixes the search path too, because `"$user"` in it would name another role afterwards.
    """
    cursor = await connection.execute(
        "SELECT rolsuper AND EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_read_all_data'),"
        " current_schemas(false) FROM pg_roles WHERE rolname = current_user"
    )
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return ""
    path = sql.SQL(", ").join(map(sql.Identifier, row[1])).as_string(connection) or "''"
    return f"SET LOCAL search_path = {path}; SET LOCAL ROLE pg_read_all_data"


async def _read(connection: PostgresConnection, statement: str, rows: int, bytes: int) -> Rows:
    kept = RowBuffer(rows, bytes)
    # The new line ends a comment at the end of the statement. The parameter makes the driver use the extended
    # protocol, where a message has one statement.
    wrapped = f"SELECT * FROM ({statement}\n) AS asked LIMIT $1"
    async with AsyncRawCursor(connection) as cursor:
        await cursor.execute(wrapped.encode(), (rows + 1,))
        described = cursor.description or []
        conversions = converters(connection, described)
        while not kept.truncated and (fetched := await cursor.fetchmany(_CHUNK)):
            chunk = [*map(list, fetched)]
            convert_rows(chunk, conversions)
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


# Leaves out partitions, whose table is listed, and what this user may not read.
_TABLES = """
SELECT c.oid, n.nspname, c.relname, c.relkind IN ('v', 'm'), coalesce(obj_description(c.oid, 'pg_class'), ''),
       CASE WHEN c.relkind IN ('r', 'p', 'm') AND c.reltuples >= 0 THEN c.reltuples::bigint END,
       current_schema()
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> current_schema(), n.nspname, c.relname
"""
# The type of an enumeration lists its values, as in DuckDB and MySQL.
_COLUMNS = """
SELECT a.attrelid, a.attname,
       coalesce((SELECT 'enum(' || string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) || ')'
                 FROM pg_enum WHERE enumtypid = a.atttypid), format_type(a.atttypid, a.atttypmod)),
       NOT a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), coalesce(col_description(a.attrelid, a.attnum), '')
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT k.conrelid, k.contype::text, r.relname, rn.nspname,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, o)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.o),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, o)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.o)
FROM pg_constraint k LEFT JOIN pg_class r ON r.oid = k.confrelid
     LEFT JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.conrelid = ANY (%s) AND k.contype IN ('p', 'f') ORDER BY k.conname
"""
_INDICES = """
SELECT i.indrelid, c.relname, i.indisunique,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnkeyatts) n)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = ANY (%s) ORDER BY c.relname
"""


async def read_tables(connection: AsyncConnection[Any]) -> list[Table]:
    tables = await (await connection.execute(_TABLES)).fetchall()
    oids = [row[0] for row in tables]

    async def by_table(statement: str) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
        rows = await (await connection.execute(statement.encode(), (oids,))).fetchall()
        return group_by_table(rows, key=1)

    columns, keys, indices = [await by_table(statement) for statement in (_COLUMNS, _KEYS, _INDICES)]
    return [_table(row, columns[row[:1]], keys[row[:1]], indices[row[:1]]) for row in tables]


def _table(
    row: tuple[Any, ...],
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    _, schema, name, is_view, description, estimate, default = row
    primary: tuple[str, ...] = next((tuple(own) for kind, *_, own, _there in keys if kind == "p"), ())
    return Table(
        name=qualified_name(schema, name, default),
        schema=schema,
        kind="view" if is_view else "table",
        description=description,
        columns=tuple(TableColumn(*column) for column in columns),
        primary_key=primary,
        foreign_keys=tuple(
            ForeignKey(tuple(own), qualified_name(other_schema, other, default), tuple(there))
            for kind, other, other_schema, own, there in keys
            if kind == "f"
        ),
        indices=tuple(TableIndex(index, tuple(parts), unique) for index, unique, parts in indices),
        row_estimate=estimate,
    )


_TEXTS = ("date", "time", "timetz", "interval", "uuid", "inet", "cidr", "xml")
_RANGES = ("int4", "int8", "num", "date", "ts", "tstz")
_EXACT_DIGITS = 15
"""Any number with so many digits survives in a float."""

Converter = Callable[[str], Any]


def register(connection: AsyncConnection[Any]) -> None:
    """Set which types this connection gives as text."""
    ranges = [f"{name}{kind}" for name in _RANGES for kind in ("range", "multirange")]
    for name in (*_TEXTS, *ranges, *_CONVERSIONS):
        connection.adapters.register_loader(name, TextLoader)


def converters(connection: AsyncConnection[Any], columns: Sequence[Column]) -> list[tuple[int, Converter]]:
    """The index of each column that needs conversion, with its converter."""
    by_oid: dict[int, Converter] = {}
    for name, convert in _CONVERSIONS.items():
        kind = connection.adapters.types[name]
        by_oid[kind.oid] = convert
        by_oid[kind.array_oid] = _each(convert)
    return [
        (index, by_oid[column.type_code])
        for index, column in enumerate(columns)
        if column.type_code in by_oid
    ]


def convert_rows(rows: list[list[Any]], columns: Sequence[tuple[int, Converter]]) -> None:
    for index, convert in columns:
        for row in rows:
            value = row[index]
            if value is not None:
                row[index] = convert(value)


def _numeric(text: str) -> float | int | str:
    if len(text) > _EXACT_DIGITS:
        return json_value(Decimal(text))
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text  # NaN and the infinities


def _float_from_text(text: str) -> float | str:
    return json_value(float(text))


def _hex_from_text(text: str) -> str:
    return text.removeprefix("\\x")


def _each(convert: Converter) -> Callable[[Any], Any]:
    def convert_array(value: Any) -> Any:
        if isinstance(value, list):
            return [convert_array(item) for item in cast("list[Any]", value)]
        return None if value is None else convert(value)

    return convert_array


_CONVERSIONS: dict[str, Converter] = {
    "numeric": _numeric,
    "timestamp": iso_timestamp,
    "timestamptz": iso_timestamp,
    "float4": _float_from_text,
    "float8": _float_from_text,
    "bytea": _hex_from_text,
}
