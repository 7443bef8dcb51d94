"""PostgreSQL: a few connections, each in its own thread, and a tsvector for words; no extension."""

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from ....databases.model import without_secrets
from ..errors import MemoryStoreError
from .database import MEMORIES, MemoryConnection, Row, tables

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

CONNECTIONS = 4
CONNECT_SECONDS = 5
STATEMENT_SECONDS = 30
MAX_RANKED = 5_000
"""How many memories are ranked at most; if more have the words, the newest."""

_TYPES = {
    "id": "bigserial PRIMARY KEY",
    "text": 'text COLLATE "C"',
    "bytes": "bytea",
    "float": "double precision",
    "more": ", words tsvector",
}
_WORDS = f"CREATE INDEX IF NOT EXISTS {MEMORIES}_words ON {MEMORIES} USING gin (words)"
# Prevents two processes from creating the tables at once. An arbitrary number.
_LOCK = "SELECT pg_advisory_xact_lock(7276941503)"
# For this transaction only: behind a pooler others use the connection next.
_STATEMENT_TIMEOUT = f"SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'".encode()
_INDEX = f"UPDATE {MEMORIES} SET words = to_tsvector('simple', :words) WHERE id = :id"
_UNINDEX = f"UPDATE {MEMORIES} SET words = NULL WHERE id = ANY(:ids)"
_MATCH = f"""
SELECT id FROM (
    SELECT id, words FROM {MEMORIES} WHERE words @@ to_tsquery('simple', :query)
    ORDER BY id DESC LIMIT {MAX_RANKED}
) found ORDER BY ts_rank(words, to_tsquery('simple', :query)) DESC, id DESC LIMIT :limit
"""


class PostgresMemoryDatabase:
    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="toolyard-memory")
        self._local = threading.local()
        self._open: list[Connection[Row]] = []
        self._prepared = False

    async def read(self, work: Callable[[MemoryConnection], T]) -> T:
        return await self._in_thread(work, 2)

    async def write(self, work: Callable[[MemoryConnection], T]) -> T:
        # Without a retry: after a broken connection it is unknown whether the write was done.
        return await self._in_thread(work, 1)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._open:
            connection.close()

    async def _in_thread(self, work: Callable[[MemoryConnection], T], tries: int) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._run_with_retries, work, tries
        )

    def _run_with_retries(self, work: Callable[[MemoryConnection], T], tries: int) -> T:
        import psycopg  # 80 to 110 ms of CPU, on first use

        while True:
            tries -= 1
            try:
                connection = self._connection()
                with connection.transaction():
                    connection.execute(_STATEMENT_TIMEOUT)
                    return work(_PostgresSession(connection))
            except psycopg.OperationalError as error:
                self._drop()
                if tries <= 0:
                    raise self._failed(error) from None
            except psycopg.Error as error:
                self._drop()
                raise self._failed(error) from None

    def _connection(self) -> "Connection[Row]":
        found: Connection[Row] | None = getattr(self._local, "connection", None)
        if found is None or found.closed:
            import psycopg

            found = psycopg.connect(
                self._url,
                autocommit=True,
                # Prepared statements belong to a connection, and a pooler may switch it.
                prepare_threshold=None,
                connect_timeout=CONNECT_SECONDS,
                application_name="toolyard memory",
            )
            self._local.connection = found
            self._open.append(found)
            if not self._prepared:
                _prepare(found)
                self._prepared = True
        return found

    def _drop(self) -> None:
        found: Connection[Row] | None = getattr(self._local, "connection", None)
        if found is not None:
            self._local.connection = None
            self._open.remove(found)
            found.close()

    def _failed(self, error: Exception) -> MemoryStoreError:
        words = str(error).strip().partition("\n")[0]
        return MemoryStoreError(f"PostgreSQL: {without_secrets(words, self._url) or type(error).__name__}")


class _PostgresSession:
    def __init__(self, connection: "Connection[Row]") -> None:
        self._connection = connection

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        return self._connection.execute(_psycopg_statement(statement), values).fetchall()

    def count(self, statement: str, /, **values: Any) -> int:
        return self._connection.execute(_psycopg_statement(statement), values).rowcount

    def index(self, id: int, words: Sequence[str]) -> None:
        self.count(_INDEX, id=id, words=" ".join(words))

    def unindex(self, ids: Sequence[int]) -> None:
        self.count(_UNINDEX, ids=list(ids))

    def match(self, words: Sequence[str], limit: int) -> list[int]:
        return [row[0] for row in self.rows(_MATCH, query=" | ".join(words), limit=limit)]


def _prepare(connection: "Connection[Row]") -> None:
    with connection.transaction():
        connection.execute(_LOCK)
        for statement in (*tables(**_TYPES), _WORDS):
            connection.execute(statement.encode())


@lru_cache(256)
def _psycopg_statement(statement: str) -> bytes:
    """Replaces `:name` by psycopg's placeholders."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement).encode()
