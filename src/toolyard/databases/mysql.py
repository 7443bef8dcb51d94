"""MySQL and MariaDB: each statement on a line and in a READ ONLY transaction of its own, with a time limit.

The driver blocks, so it has threads; a cancelled statement is killed in the server, over another connection.
One message is one statement there: the driver does not ask for more.
"""

import ssl
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import Cursor, SSCursor

from .addresses import place_of, without_secrets
from .blocking import Threads
from .cached import LOOKING, CachedTables
from .model import CACHE_SECONDS, DatabaseError, ErrorKind, Rows, Table
from .mysql_tables import look
from .sending import sendable
from .values import gather, in_chunks, plain_rows

CONNECT_SECONDS = 10
LOOK_SECONDS = 30.0
_TYPES = {code: name for name, code in vars(FIELD_TYPE).items() if isinstance(code, int)}
_ENCRYPTED = {"required", "verify_ca", "verify_identity"}
T = TypeVar("T")
Line: TypeAlias = "Connection[Cursor]"


class MysqlDatabase:
    dialect = "mysql"

    def __init__(self, url: str, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self.name = place_of(url)
        self._url = url
        self._threads = Threads()
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        statement = sendable(sql)
        return await self._run(lambda line: _read(line, statement, rows, bytes), seconds, caller)

    async def close(self) -> None:
        self._threads.close()

    async def _look(self) -> list[Table]:
        return await self._run(look, LOOK_SECONDS, LOOKING)

    async def _run(self, work: Callable[[Line], T], seconds: float, caller: str) -> T:
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

    def _connect(self) -> Line:
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


def _begin(line: Line, seconds: float) -> int:
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


def _read(line: Line, sql: str, rows: int, bytes: int) -> Rows:
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
    from .grammar import check_grammar
    from .refusing import Refused
    from .shape import parsed

    try:
        check_grammar(*parsed(sql, "mysql"))
    except Refused as refused:
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
