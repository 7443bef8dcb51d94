"""MySQL and MariaDB: each statement on its own connection, in a READ ONLY transaction with a time limit.

The driver blocks, so it runs in a few threads; a cancelled statement is killed in the server over another
connection. The driver does not enable multiple statements, so one message is one statement.
"""

import asyncio
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import Cursor, SSCursor

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
from .values import gather, in_chunks, plain_rows

_TABLES = """
SELECT table_schema, table_name, table_type = 'VIEW', table_comment, table_rows FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY table_schema <> coalesce(database(), ''), table_schema, table_name
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, is_nullable = 'YES', column_default, column_comment
FROM information_schema.columns ORDER BY ordinal_position
"""
_KEYS = """
SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name,
       referenced_column_name
FROM information_schema.key_column_usage
WHERE constraint_name = 'PRIMARY' OR referenced_table_name IS NOT NULL
ORDER BY constraint_name, ordinal_position
"""
_INDICES = """
SELECT table_schema, table_name, index_name, coalesce(column_name, '(expression)'), non_unique
FROM information_schema.statistics ORDER BY index_name, seq_in_index
"""

RowsByTable = dict[tuple[str, str], list[tuple[Any, ...]]]


def read_tables(line: "Connection[Cursor]") -> list[Table]:
    with line.cursor() as cursor:
        cursor.execute("SELECT database()")
        default = cursor.fetchall()[0][0]
        columns, keys, indices = (_rows_by_table(cursor, asked) for asked in (_COLUMNS, _KEYS, _INDICES))
        cursor.execute(_TABLES)
        return [
            _table(row, default, columns[row[:2]], keys[row[:2]], indices[row[:2]])
            for row in cursor.fetchall()
        ]


def _rows_by_table(cursor: Cursor, asked: str) -> RowsByTable:
    """What was answered, by the table it is about."""
    found: RowsByTable = defaultdict(list)
    cursor.execute(asked)
    for schema, name, *rest in cursor.fetchall():
        found[schema, name].append(tuple(rest))
    return found


def _table(
    row: tuple[Any, ...],
    default: str | None,
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    schema, name, is_view, description, estimate = row
    return Table(
        name=name if schema == default else f"{schema}.{name}",
        schema=schema,
        kind="view" if is_view else "table",
        # MySQL says VIEW where a view has no comment.
        description="" if is_view else description,
        columns=tuple(
            TableColumn(column, kind, bool(nullable), default, said)
            for column, kind, nullable, default, said in columns
        ),
        primary_key=tuple(key[1] for key in keys if key[0] == "PRIMARY"),
        foreign_keys=_foreign_keys(keys, default),
        indices=_indices(indices),
        row_estimate=None if is_view else estimate,
    )


def _foreign_keys(keys: list[tuple[Any, ...]], default: str | None) -> tuple[ForeignKey, ...]:
    grouped: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for constraint, column, schema, table, referenced in keys:
        if table is not None:
            grouped[constraint].append(
                (column, table if schema == default else f"{schema}.{table}", referenced)
            )
    return tuple(
        ForeignKey(tuple(part[0] for part in parts), parts[0][1], tuple(part[2] for part in parts))
        for parts in grouped.values()
    )


def _indices(rows: list[tuple[Any, ...]]) -> tuple[TableIndex, ...]:
    grouped: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name, column, non_unique in rows:
        grouped[name, not non_unique].append(column)
    return tuple(TableIndex(name, tuple(columns), unique) for (name, unique), columns in grouped.items())


T = TypeVar("T")

THREADS = 4
_NUDGE = 0.05
"""Seconds between two requests to stop. The first may come before the statement has begun: it is lost."""


class BlockingThreads:
    """A few threads for one database; `run` waits for one, and that wait is not part of the time limit."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="database")
        self._shares = FairLimiter(THREADS)

    async def run(
        self, work: Callable[[], T], *, interrupt: Callable[[], None], seconds: float, caller: str
    ) -> T:
        async with self._shares.slot(caller):
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            try:
                done, _ = await asyncio.wait({running}, timeout=seconds)
            except asyncio.CancelledError:
                await _stopped(running, interrupt)
                raise
            if not done:
                await _stopped(running, interrupt)
                raise timed_out(seconds)
            return running.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _stopped(running: "asyncio.Future[T]", interrupt: Callable[[], None]) -> None:
    """Even a second cancellation does not leave before the thread has stopped."""
    while not running.done():
        interrupt()
        try:
            await asyncio.wait({running}, timeout=_NUDGE)
        except asyncio.CancelledError:
            continue
    # Its end is looked at, so that nobody is told of an exception that was never retrieved.
    if not running.cancelled():
        running.exception()


CONNECT_SECONDS = 10
LOOK_SECONDS = 30.0
_TYPES = {code: name for name, code in vars(FIELD_TYPE).items() if isinstance(code, int)}
_ENCRYPTED = {"required", "verify_ca", "verify_identity"}
MysqlConnection: TypeAlias = "Connection[Cursor]"


class MysqlDatabase:
    dialect = "mysql"

    def __init__(self, url: str, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self.name = place_of(url)
        self._url = url
        self._threads = BlockingThreads()
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        statement = clean_statement(sql)
        return await self._run(lambda line: _read(line, statement, rows, bytes), seconds, caller)

    async def close(self) -> None:
        self._threads.close()

    async def _look(self) -> list[Table]:
        return await self._run(read_tables, LOOK_SECONDS, TABLES_CALLER)

    async def _run(self, work: Callable[[MysqlConnection], T], seconds: float, caller: str) -> T:
        running: list[int] = []
        stop = threading.Event()

        def worked() -> T:
            line = self._connect()
            try:
                running.append(_begin(line, seconds))
                if stop.is_set():
                    raise DatabaseError("the statement was stopped before it began", "timeout")
                return work(line)
            except pymysql.MySQLError as error:
                raise self._explained(error) from error
            finally:
                # Not read to the end, and not rolled back: the server does that when the line is gone.
                line.close()

        def interrupt() -> None:
            stop.set()
            for number in list(running):
                # In a thread of its own: the loop does not wait for a connection.
                threading.Thread(target=self._kill, args=(number,), daemon=True).start()

        return await self._threads.run(worked, interrupt=interrupt, seconds=seconds, caller=caller)

    def _connect(self) -> MysqlConnection:
        try:
            return pymysql.connect(**_settings(self._url))
        except (pymysql.MySQLError, OSError, ValueError) as error:
            said = without_secrets(str(error.args[-1] if error.args else error), self._url)
            raise DatabaseError(f"cannot reach {self.name}: {said}", "unreachable") from error

    def _kill(self, number: int) -> None:
        try:
            line = self._connect()
        except DatabaseError:
            return  # the server's own limit is still there
        try:
            with line.cursor() as cursor:
                cursor.execute(f"KILL QUERY {number:d}")
        except pymysql.MySQLError:
            pass  # it has ended by itself
        finally:
            line.close()

    def _explained(self, error: pymysql.MySQLError) -> DatabaseError:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        said = without_secrets(str(error.args[-1] if error.args else error), self._url)
        return DatabaseError(said, _KINDS.get(code, "other"))


def _begin(line: MysqlConnection, seconds: float) -> int:
    """A transaction with a limit; gives the number by which the server knows the connection."""
    with line.cursor() as cursor:
        cursor.execute("SELECT version(), connection_id()")
        version, number = cursor.fetchall()[0]
        if "mariadb" in str(version).lower():
            cursor.execute(f"SET SESSION max_statement_time = {seconds:f}")
        else:
            cursor.execute(f"SET SESSION max_execution_time = {max(1, round(seconds * 1000)):d}")
        cursor.execute("SET SESSION TRANSACTION READ ONLY")
        cursor.execute("START TRANSACTION READ ONLY")
        return int(number)


def _read(line: MysqlConnection, sql: str, rows: int, bytes: int) -> Rows:
    _check_is_question(sql)
    # Unbuffered: what is over the limits is not held in memory.
    cursor: Any = line.cursor(SSCursor)
    cursor.execute(sql)
    columns = [str(column[0]) for column in cursor.description]
    types = [_TYPES.get(column[1], "") for column in cursor.description]
    kept = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=plain_rows)
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


def _check_is_question(sql: str) -> None:
    """A READ ONLY transaction does not keep `SELECT … INTO OUTFILE` from writing a file."""
    from .guard.grammar import check_grammar, parsed
    from .model import StatementRefusedError

    try:
        check_grammar(*parsed(sql, "mysql"))
    except StatementRefusedError as refused:
        raise DatabaseError(str(refused), "read_only") from refused


def _settings(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    settings: dict[str, Any] = {
        "host": parts.hostname or "localhost",
        "port": parts.port or 3306,
        "user": unquote(parts.username or options.get("user", "")),
        "password": unquote(parts.password or options.get("password", "")),
        "database": unquote(parts.path.lstrip("/")) or None,
        "connect_timeout": CONNECT_SECONDS,
        "charset": "utf8mb4",
        "autocommit": True,
        "local_infile": False,
    }
    mode = options.get("ssl-mode", "").lower()
    if "socket" in options:
        settings |= {"unix_socket": options["socket"], "ssl_disabled": True}
    elif mode == "disabled":
        settings["ssl_disabled"] = True
    elif mode in _ENCRYPTED:
        settings["ssl"] = _encryption(mode)
    return settings


@cache
def _encryption(mode: str) -> ssl.SSLContext:
    """Made once: reading the certificates of this machine takes 30 ms."""
    context = ssl.create_default_context()
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED
    return context


_KINDS: dict[int, ErrorKind] = {
    1044: "read_only",
    1142: "read_only",
    1227: "read_only",
    1290: "read_only",
    1792: "read_only",
    1049: "unknown",
    1054: "unknown",
    1146: "unknown",
    1305: "unknown",
    1064: "syntax",
    1153: "too_big",
    1301: "too_big",
    1317: "timeout",
    1969: "timeout",
    3024: "timeout",
    2006: "unreachable",
    2013: "unreachable",
}
