"""SQLite and DuckDB: each statement runs in a worker process with hard limits.

A statement that takes too long, or whose caller has disconnected, ends with its worker. Owns no SQL: `sqlite`
and `duckdb` are the engines, `worker` is the process they run in.
"""

import signal
import time
from pathlib import Path

import msgspec

from ...languages import Locale
from ...workers.pool import WorkerDiedError, WorkerPool, WorkerStartError, WorkerTimeoutError
from ..model import CACHE_SECONDS, MEMORY, DatabaseError, Rows, Table, clean_statement, timed_out
from ..table_cache import TABLES_CALLER, CachedTables
from .worker import StatementReply, StatementRequest, too_much_memory

STATEMENTS = 4
"""How many run at once, each in its own process."""
TABLES_SECONDS = 30.0
_MAX_TABLES_BYTES = 64 * 2**20
_AROUND_ROWS = 2**21
"""Bytes of a reply beside its rows: names and types of columns as JSON."""
_LEAST_SECONDS = 0.1
_CRASHES = tuple(-getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"))


class EmbeddedDatabase(CachedTables):
    def __init__(
        self,
        dialect: str,
        name: str,
        path: Path | None,
        *,
        memory: int = MEMORY,
        cache_seconds: float = CACHE_SECONDS,
        locale: Locale = "en",
    ) -> None:
        """Without a path it is the sample, whose tables are described in this language."""
        super().__init__(cache_seconds)
        self.dialect = dialect
        self.name = name
        self._path = str(path.absolute()) if path else ""
        self._memory = memory
        self._locale: Locale = locale
        self._workers = WorkerPool("toolyard.databases.embedded.worker", max_workers=STATEMENTS)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        request = StatementRequest(self._path, self._memory, clean_statement(sql), rows, bytes, self._locale)
        reply = await self._ask(request, seconds, bytes + _AROUND_ROWS, caller)
        assert reply.rows is not None
        return reply.rows

    async def close(self) -> None:
        await self._workers.close()

    async def _read_tables(self) -> list[Table]:
        request = StatementRequest(self._path, self._memory, locale=self._locale)
        reply = await self._ask(request, TABLES_SECONDS, _MAX_TABLES_BYTES, TABLES_CALLER)
        assert reply.tables is not None
        return reply.tables

    async def _ask(
        self, request: StatementRequest, seconds: float, longest: int, caller: str
    ) -> StatementReply:
        began = time.monotonic()
        try:
            reply = await self._ask_worker(request, seconds, longest, caller, fresh=False)
            if reply.failure is not None and reply.failure.kind == "memory" and not reply.is_first:
                # It had less than its limit, because an engine keeps memory. Try in a new worker.
                left = max(_LEAST_SECONDS, seconds - (time.monotonic() - began))
                reply = await self._ask_worker(request, left, longest, caller, fresh=True)
        except WorkerTimeoutError:
            raise timed_out(seconds) from None
        if reply.failure is not None:
            raise DatabaseError(reply.failure.reason, reply.failure.kind)
        return reply

    async def _ask_worker(
        self, request: StatementRequest, seconds: float, longest: int, caller: str, *, fresh: bool
    ) -> StatementReply:
        try:
            answer = await self._workers.ask(
                msgspec.json.encode(request),
                seconds=seconds,
                max_bytes=longest,
                caller=caller,
                kind=self.dialect,
                fresh=fresh,
            )
        except WorkerStartError as error:
            raise DatabaseError(f"cannot start a process for {self.name!r}: {error}", "unreachable") from None
        except WorkerDiedError as error:
            if error.status in _CRASHES or (error.status or 0) > 0:
                raise DatabaseError(f"{self.dialect} crashed on this statement", "other") from None
            # Some engines end the process when they get no more memory.
            return StatementReply(error.was_fresh, failure=too_much_memory(self._memory))
        return msgspec.json.decode(answer, type=StatementReply)
