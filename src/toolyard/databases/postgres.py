"""PostgreSQL: each statement in a READ ONLY transaction of its own, with a time limit, rolled back.

What is sent is `SELECT * FROM (…)` around the statement, as one message of the extended protocol: a second
statement, or one that is no query (COPY, DO, SET, a write in WITH), is a syntax error there. A superuser,
whom no transaction keeps from files, becomes `pg_read_all_data` first. Values come as text and are
converted by column.
"""

import asyncio
from collections import defaultdict
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
    place_of,
    timed_out,
    without_secrets,
)
from .table_cache import TABLES_CALLER, CachedTables
from .values import RowBuffer, iso_timestamp, json_value

# Partitions are seen through their table, and what this user may not read is not there.
_TABLES = """
SELECT c.oid, n.nspname, c.relname, c.relkind IN ('v', 'm'), coalesce(obj_description(c.oid, 'pg_class'), ''),
       CASE WHEN c.relkind IN ('r', 'p', 'm') AND c.reltuples >= 0 THEN c.reltuples::bigint END,
       n.nspname = current_schema()
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> current_schema(), n.nspname, c.relname
"""
# An enumeration says its words, as it does in DuckDB and MySQL.
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
SELECT k.conrelid, k.contype::text, r.relname, rn.nspname, rn.nspname = current_schema(),
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

RowsByTable = dict[int, list[tuple[Any, ...]]]


async def read_tables(connection: AsyncConnection[Any]) -> list[Table]:
    tables = await (await connection.execute(_TABLES)).fetchall()
    numbers = [row[0] for row in tables]
    columns, keys, indices = [
        await _rows_by_table(connection, asked, numbers) for asked in (_COLUMNS, _KEYS, _INDICES)
    ]
    return [_table(row, columns[row[0]], keys[row[0]], indices[row[0]]) for row in tables]


async def _rows_by_table(connection: AsyncConnection[Any], asked: str, numbers: list[int]) -> RowsByTable:
    """What was answered, by the table it is about."""
    found: RowsByTable = defaultdict(list)
    for number, *rest in await (await connection.execute(asked.encode(), (numbers,))).fetchall():
        found[number].append(tuple(rest))
    return found


def _table(
    row: tuple[Any, ...],
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    _, schema, name, is_view, description, estimate, is_default = row
    primary: tuple[str, ...] = next((tuple(own) for kind, *_, own, _there in keys if kind == "p"), ())
    return Table(
        name=_qualified_name(schema, name, is_default),
        schema=schema,
        kind="view" if is_view else "table",
        description=description,
        columns=tuple(TableColumn(*column) for column in columns),
        primary_key=primary,
        foreign_keys=tuple(
            ForeignKey(tuple(own), _qualified_name(other_schema, other, default), tuple(there))
            for kind, other, other_schema, default, own, there in keys
            if kind == "f"
        ),
        indices=tuple(TableIndex(index, tuple(parts), unique) for index, unique, parts in indices),
        row_estimate=estimate,
    )


def _qualified_name(schema: str, name: str, is_default: bool | None) -> str:
    return name if is_default else f"{schema}.{name}"


_TEXTS = ("date", "time", "timetz", "interval", "uuid", "inet", "cidr", "xml")
_RANGES = ("int4", "int8", "num", "date", "ts", "tstz")
_EXACT_DIGITS = 15
"""So many digits survive in a float, whichever they are."""

Convert = Callable[[str], Any]


def register(connection: AsyncConnection[Any]) -> None:
    """For all statements on this connection: which kinds come as text."""
    ranges = [f"{name}{kind}" for name in _RANGES for kind in ("range", "multirange")]
    for name in (*_TEXTS, *ranges, *_CONVERSIONS):
        connection.adapters.register_loader(name, TextLoader)


def converters(connection: AsyncConnection[Any], columns: Sequence[Column]) -> list[tuple[int, Convert]]:
    """Of the columns that have one, by their place."""
    by_number: dict[int, Convert] = {}
    for name, convert in _CONVERSIONS.items():
        kind = connection.adapters.types[name]
        by_number[kind.oid] = convert
        by_number[kind.array_oid] = _each(convert)
    return [
        (place, by_number[column.type_code])
        for place, column in enumerate(columns)
        if column.type_code in by_number
    ]


def convert(rows: list[list[Any]], wanted: Sequence[tuple[int, Convert]]) -> None:
    for place, convert_one in wanted:
        for row in rows:
            value = row[place]
            if value is not None:
                row[place] = convert_one(value)


def _numeric(text: str) -> float | int | str:
    if len(text) > _EXACT_DIGITS:
        return json_value(Decimal(text))
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text  # NaN and the infinities


def _float(text: str) -> float | str:
    return json_value(float(text))


def _hex(text: str) -> str:
    return text.removeprefix("\\x")


def _each(convert_one: Convert) -> Callable[[Any], Any]:
    def all_of(value: Any) -> Any:
        if isinstance(value, list):
            return [all_of(part) for part in cast("list[Any]", value)]
        return None if value is None else convert_one(value)

    return all_of


_CONVERSIONS: dict[str, Convert] = {
    "numeric": _numeric,
    "timestamp": iso_timestamp,
    "timestamptz": iso_timestamp,
    "float4": _float,
    "float8": _float,
    "bytea": _hex,
}


CONNECTIONS = 4
CONNECT_SECONDS = 10
LOOK_SECONDS = 30.0
_CHUNK = 1000
_GRACE = 5.0
"""Seconds more than the server's own limit before the line itself is given up."""

PostgresConnection = AsyncConnection[TupleRow]


class PostgresDatabase:
    dialect = "postgres"

    def __init__(self, url: str, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self.name = place_of(url)
        self._url = url
        self._lines: list[_Line] = []
        self._shares = FairLimiter(CONNECTIONS)
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        statement = clean_statement(sql)
        async with self._shares.slot(caller):
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
        async with self._shares.slot(TABLES_CALLER):
            line = await self._begun(LOOK_SECONDS)
            try:
                tables = await read_tables(line.connection)
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

    def __init__(self, connection: PostgresConnection, rights: str) -> None:
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


async def _rights(connection: PostgresConnection) -> str:
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


async def _read(connection: PostgresConnection, statement: str, rows: int, bytes: int) -> Rows:
    kept = RowBuffer(rows, bytes)
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
