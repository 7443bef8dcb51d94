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
    group_by_table,
    place_of,
    qualified_name,
    timed_out,
    without_secrets,
)
from .table_cache import TABLES_CALLER, CachedTables
from .values import gather, in_chunks, plain_rows

T = TypeVar("T")
MysqlConnection: TypeAlias = "Connection[Cursor]"

CONNECT_SECONDS = 10
TABLES_SECONDS = 30.0
_TYPES = {code: name for name, code in vars(FIELD_TYPE).items() if isinstance(code, int)}
_ENCRYPTED = {"required", "verify_ca", "verify_identity"}
THREADS = 4
_STOP_INTERVAL = 0.05
"""Seconds between two requests to stop: the first has no effect if the statement has not begun."""


class MysqlDatabase(CachedTables):
    dialect = "mysql"

    def __init__(self, url: str, *, cache_seconds: float = CACHE_SECONDS) -> None:
        super().__init__(cache_seconds)
        self.name = place_of(url)
        self._url = url
        self._threads = BlockingThreads()

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        statement = clean_statement(sql)
        return await self._run(lambda connection: _read(connection, statement, rows, bytes), seconds, caller)

    async def close(self) -> None:
        self._threads.close()

    async def _read_tables(self) -> list[Table]:
        return await self._run(read_tables, TABLES_SECONDS, TABLES_CALLER)

    async def _run(self, work: Callable[[MysqlConnection], T], seconds: float, caller: str) -> T:
        connection_ids: list[int] = []
        stop = threading.Event()

        def run() -> T:
            connection = self._connect()
            try:
                connection_ids.append(_begin(connection, seconds))
                if stop.is_set():
                    raise DatabaseError("the statement was stopped before it began", "timeout")
                return work(connection)
            except pymysql.MySQLError as error:
                raise self._translate_error(error) from error
            finally:
                # The server rolls back when the connection ends; unread rows are dropped.
                connection.close()

        def interrupt() -> None:
            stop.set()
            for connection_id in list(connection_ids):
                # In a thread: connecting must not block the event loop.
                threading.Thread(target=self._kill, args=(connection_id,), daemon=True).start()

        return await self._threads.run(run, interrupt=interrupt, seconds=seconds, caller=caller)

    def _connect(self) -> MysqlConnection:
        try:
            return pymysql.connect(**_settings(self._url))
        except (pymysql.MySQLError, OSError, ValueError) as error:
            message = without_secrets(str(error.args[-1] if error.args else error), self._url)
            raise DatabaseError(f"cannot reach {self.name}: {message}", "unreachable") from error

    def _kill(self, connection_id: int) -> None:
        try:
            connection = self._connect()
        except DatabaseError:
            return  # the server still has its own time limit
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"KILL QUERY {connection_id:d}")
        except pymysql.MySQLError:
            pass  # the statement has ended
        finally:
            connection.close()

    def _translate_error(self, error: pymysql.MySQLError) -> DatabaseError:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        message = without_secrets(str(error.args[-1] if error.args else error), self._url)
        return DatabaseError(message, _KINDS.get(code, "other"))


def _begin(connection: MysqlConnection, seconds: float) -> int:
    """Begin a read-only transaction with a time limit; returns the server's id of the connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT version(), connection_id()")
        version, connection_id = cursor.fetchall()[0]
        if "mariadb" in str(version).lower():
            cursor.execute(f"SET SESSION max_statement_time = {seconds:f}")
        else:
            cursor.execute(f"SET SESSION max_execution_time = {max(1, round(seconds * 1000)):d}")
        cursor.execute("SET SESSION TRANSACTION READ ONLY")
        cursor.execute("START TRANSACTION READ ONLY")
        return int(connection_id)


def _read(connection: MysqlConnection, sql: str, rows: int, bytes: int) -> Rows:
    _check_only_reads(sql)
    # Unbuffered: rows over the limits are not held in memory.
    cursor: Any = connection.cursor(SSCursor)
    cursor.execute(sql)
    columns = [str(column[0]) for column in cursor.description]
    types = [_TYPES.get(column[1], "") for column in cursor.description]
    kept = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=plain_rows)
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


def _check_only_reads(sql: str) -> None:
    """Refuse `SELECT … INTO OUTFILE`, which writes a file even in a READ ONLY transaction."""
    from .guard.grammar import check_grammar, parse
    from .model import StatementRefusedError

    try:
        check_grammar(*parse(sql, "mysql"))
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
    """Cached: loading the certificates of this machine takes 30 ms."""
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


class BlockingThreads:
    """A few threads for one database. Waiting for a free thread is not part of the time limit."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="database")
        self._limiter = FairLimiter(THREADS)

    async def run(
        self, work: Callable[[], T], *, interrupt: Callable[[], None], seconds: float, caller: str
    ) -> T:
        async with self._limiter.place(caller):
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            try:
                done, _ = await asyncio.wait({running}, timeout=seconds)
            except asyncio.CancelledError:
                await _stop(running, interrupt)
                raise
            if not done:
                await _stop(running, interrupt)
                raise timed_out(seconds)
            return running.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _stop(running: "asyncio.Future[T]", interrupt: Callable[[], None]) -> None:
    """Wait until the thread has stopped, even if cancelled again."""
    while not running.done():
        interrupt()
        try:
            await asyncio.wait({running}, timeout=_STOP_INTERVAL)
        except asyncio.CancelledError:
            continue
    # Retrieve the exception, so that asyncio does not log it as never retrieved.
    if not running.cancelled():
        running.exception()


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


def read_tables(connection: "MysqlConnection") -> list[Table]:
    with connection.cursor() as cursor:

        def rows(statement: str) -> tuple[tuple[Any, ...], ...]:
            cursor.execute(statement)
            return cursor.fetchall()

        default = rows("SELECT database()")[0][0]
        columns, keys, indices = (group_by_table(rows(sql)) for sql in (_COLUMNS, _KEYS, _INDICES))
        return [
            _table(row, default, columns[row[:2]], keys[row[:2]], indices[row[:2]]) for row in rows(_TABLES)
        ]


def _table(
    row: tuple[Any, ...],
    default: str | None,
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    schema, name, is_view, description, estimate = row
    return Table(
        name=qualified_name(schema, name, default),
        schema=schema,
        kind="view" if is_view else "table",
        # MySQL gives VIEW as the comment of a view without one.
        description="" if is_view else description,
        columns=tuple(
            TableColumn(column, kind, bool(nullable), default_value, comment)
            for column, kind, nullable, default_value, comment in columns
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
            grouped[constraint].append((column, qualified_name(schema, table, default), referenced))
    return tuple(
        ForeignKey(tuple(part[0] for part in parts), parts[0][1], tuple(part[2] for part in parts))
        for parts in grouped.values()
    )


def _indices(rows: list[tuple[Any, ...]]) -> tuple[TableIndex, ...]:
    grouped: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name, column, non_unique in rows:
        grouped[name, not non_unique].append(column)
    return tuple(TableIndex(name, tuple(columns), unique) for (name, unique), columns in grouped.items())
