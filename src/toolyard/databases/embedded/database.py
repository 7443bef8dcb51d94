"""SQLite and DuckDB from outside: each statement runs in a worker process with hard limits.

A statement that takes too long, or whose caller has gone, ends with its worker. Owns no SQL: `sqlite` and
`duckdb` are the engines, `worker` is the process they run in.
"""

import signal
import time
from pathlib import Path

import msgspec

from ...workers.pool import WorkerDiedError, WorkerPool, WorkerStartError, WorkerTimeoutError
from ..model import CACHE_SECONDS, MEMORY, DatabaseError, Rows, Table, clean_statement, timed_out
from ..table_cache import TABLES_CALLER, CachedTables
from .worker import StatementReply, StatementRequest, too_much_memory

STATEMENTS = 4
"""At once, each in a process of its own."""
LOOK_SECONDS = 30.0
_LONGEST_LOOK = 64 * 2**20
_AROUND_ROWS = 2**21
"""Bytes of an answer beside its rows: names and types of columns, written as JSON."""
_LEAST_SECONDS = 0.1
_CRASHES = tuple(-getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"))


class EmbeddedDatabase:
    def __init__(
        self,
        dialect: str,
        name: str,
        path: Path | None,
        *,
        memory: int = MEMORY,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        """Without a path it is the sample."""
        self.dialect = dialect
        self.name = name
        self._path = str(path.absolute()) if path else ""
        self._memory = memory
        self._workers = WorkerPool("toolyard.databases.embedded.worker", max_workers=STATEMENTS)
        self._tables = CachedTables(self._look, cache_seconds)

    async def tables(self) -> list[Table]:
        return await self._tables.all()

    async def table(self, name: str) -> Table | None:
        return await self._tables.named(name)

    async def query(self, sql: str, *, seconds: float, rows: int, bytes: int, caller: str = "") -> Rows:
        request = StatementRequest(self._path, self._memory, clean_statement(sql), rows, bytes)
        found = (await self._asked(request, seconds, bytes + _AROUND_ROWS, caller)).rows
        assert found is not None
        return found

    async def close(self) -> None:
        await self._workers.close()

    async def _look(self) -> list[Table]:
        request = StatementRequest(self._path, self._memory)
        found = (await self._asked(request, LOOK_SECONDS, _LONGEST_LOOK, TABLES_CALLER)).tables
        assert found is not None
        return found

    async def _asked(
        self, request: StatementRequest, seconds: float, longest: int, caller: str
    ) -> StatementReply:
        began = time.monotonic()
        try:
            reply = await self._replied(request, seconds, longest, caller, fresh=False)
            if reply.failure is not None and reply.failure.kind == "memory" and not reply.is_first:
                # It had less than it may take: an engine keeps some for later.
                left = max(_LEAST_SECONDS, seconds - (time.monotonic() - began))
                reply = await self._replied(request, left, longest, caller, fresh=True)
        except WorkerTimeoutError:
            raise timed_out(seconds) from None
        if reply.failure is not None:
            raise DatabaseError(reply.failure.reason, reply.failure.kind)
        return reply

    async def _replied(
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
            raise DatabaseError(
                f"no process can be started for {self.name!r}: {error}", "unreachable"
            ) from None
        except WorkerDiedError as error:
            if error.status in _CRASHES or (error.status or 0) > 0:
                raise DatabaseError(f"{self.dialect} crashed on this statement", "other") from None
            # An engine that gets no more memory ends its process where it does not know what else to do.
            return StatementReply(error.was_fresh, failure=too_much_memory(self._memory))
        return msgspec.json.decode(answer, type=StatementReply)
