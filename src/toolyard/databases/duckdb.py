"""DuckDB: a file opened read-only, with no way out of it: no other files, no network, extensions or settings.

DuckDB's own parser says whether the text is one SELECT before anything runs.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from .blocking import Threads
from .cached import CACHE_SECONDS, CachedTables
from .duckdb_tables import look
from .model import DatabaseError, ErrorKind, Rows, Table
from .sending import sendable
from .values import gather, in_chunks, iso_timestamp, plain_rows

LOOK_SECONDS = 30.0
_LOCKED_UP: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # Otherwise a table that is not there is looked for among the variables of this program.
    "python_enable_replacements": "false",
    # What does not fit in memory is an error, not a file beside the database.
    "temp_directory": "",
    "memory_limit": "2GB",
    "lock_configuration": "true",
}
T = TypeVar("T")


class DuckDatabase:
    dialect = "duckdb"

    def __init__(self, path: Path, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self.name = path.name
        self._path = path
        self._root: DuckDBPyConnection | None = None
        self._opening = threading.Lock()
        self._threads = Threads()
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int) -> Rows:
        statement = sendable(sql)
        return await self._run(lambda cursor: _read(cursor, statement, rows, bytes), seconds)

    async def close(self) -> None:
        self._threads.close()
        if self._root is not None:
            self._root.close()
            self._root = None

    async def _look(self) -> list[Table]:
        return await self._run(look, LOOK_SECONDS)

    async def _run(self, work: Callable[[DuckDBPyConnection], T], seconds: float) -> T:
        """On a connection of its own, so nothing (a temporary table, a prepared statement) outlives it."""
        running: list[DuckDBPyConnection] = []

        def worked() -> T:
            cursor = self._open().cursor()
            running.append(cursor)
            try:
                return work(cursor)
            except duckdb.Error as error:
                raise _explained(error) from error
            finally:
                running.clear()
                cursor.close()

        def interrupt() -> None:
            for cursor in list(running):
                cursor.interrupt()

        return await self._threads.run(worked, interrupt=interrupt, seconds=seconds)

    def _open(self) -> DuckDBPyConnection:
        with self._opening:
            if self._root is None:
                try:
                    self._root = duckdb.connect(str(self._path), read_only=True, config=_LOCKED_UP)
                except duckdb.Error as error:
                    said = str(error).replace(str(self._path), self.name)
                    raise DatabaseError(f"cannot open {self.name!r}: {said}", "unreachable") from error
            return self._root


def _read(cursor: DuckDBPyConnection, sql: str, rows: int, bytes: int) -> Rows:
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        raise DatabaseError(f"there are {len(statements)} statements; one is run", "syntax")
    if statements[0].type is not StatementType.SELECT:
        raise DatabaseError(f"only SELECT is run, and this is {statements[0].type.name}", "read_only")
    asked = cursor.sql(sql)
    columns, types = asked.columns, [str(kind) for kind in asked.types]
    zoned = [place for place, kind in enumerate(types) if "TIME ZONE" in kind]
    # The new line ends a comment that the statement may end with.
    cursor.execute(f"SELECT {_projection(len(types), zoned)} FROM ({sql}\n) AS asked LIMIT {rows + 1}")
    kept, truncated = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=plain_rows)
    for row in kept:
        for place in zoned:
            row[place] = row[place] and iso_timestamp(row[place])
    return Rows(columns, types, kept, truncated)


def _projection(width: int, zoned: list[int]) -> str:
    """Times with a zone as text: the driver gives them only with the help of another package."""
    if not zoned:
        return "*"
    return ", ".join(f"CAST(#{n + 1} AS VARCHAR)" if n in zoned else f"#{n + 1}" for n in range(width))


def _explained(error: duckdb.Error) -> DatabaseError:
    said = str(error).strip().splitlines()[0]
    _, _, shorter = said.partition("Error: ")
    kinds: list[ErrorKind] = [kind for error_type, kind in _KINDS if isinstance(error, error_type)]
    return DatabaseError(shorter or said, kinds[0] if kinds else "other")


_KINDS: tuple[tuple[type[duckdb.Error], ErrorKind], ...] = (
    (duckdb.InterruptException, "timeout"),
    (duckdb.PermissionException, "read_only"),
    (duckdb.ParserException, "syntax"),
    (duckdb.SyntaxException, "syntax"),
    (duckdb.CatalogException, "unknown"),
    (duckdb.BinderException, "unknown"),
    (duckdb.OutOfMemoryException, "too_big"),
    (duckdb.IOException, "unreachable"),
)
