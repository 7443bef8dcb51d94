"""`python -m toolyard.databases.embedded.worker DIALECT`: runs statements in a process of its own.

One step of a statement may take any time and memory, and an engine's own limits do not hold for every
function. So this process has limits, and `database` ends it in time.
"""

import sys
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from ...languages import Locale, answering
from ...workers.process import limit_memory, restrict_process, serve
from ..model import DatabaseError, ErrorKind, Rows, Table

SPARE = 64 * 2**20
"""Bytes beyond the memory of a statement: for the reply, and for the engine to fail cleanly."""
OPENING = 512 * 2**20
"""Bytes that an engine may reserve when it opens a database, mostly for stacks of threads."""

MAX_NAMES = 250_000
"""Characters of all names and types of columns. A type may be far longer than the statement."""


class StatementRequest(Struct, frozen=True):
    path: str
    """Empty for the sample."""
    memory: int
    """Bytes that a statement may use."""
    sql: str | None = None
    """None: list the tables."""
    rows: int = 0
    bytes: int = 0
    locale: Locale = "en"


class StatementFailure(Struct, frozen=True):
    reason: str
    kind: ErrorKind


class StatementReply(Struct, frozen=True):
    """`is_first`: the first of its worker. An engine keeps some memory from one statement to the next."""

    is_first: bool
    rows: Rows | None = None
    tables: list[Table] | None = None
    failure: StatementFailure | None = None


class EmbeddedEngine(Protocol):
    def open(self) -> None:
        """Reserve what the engine needs for any statement."""
        ...

    def tables(self) -> list[Table]: ...

    def query(self, sql: str, rows: int, bytes: int) -> Rows: ...


def too_much_memory(memory: int) -> StatementFailure:
    reason = f"the statement exceeds its memory limit of {memory // 2**20} MiB"
    return StatementFailure(reason, "memory")


class StatementWorker:
    """Keeps one database open from one statement to the next."""

    def __init__(self, open_engine: Callable[[str, int], EmbeddedEngine]) -> None:
        self._open_engine = open_engine
        self._engine: EmbeddedEngine | None = None
        self._is_first = True

    def answer(self, body: bytes) -> bytes:
        request = msgspec.json.decode(body, type=StatementRequest)
        with answering(request.locale):
            reply = self._answer(request)
        self._is_first = False
        return reply

    def _answer(self, request: StatementRequest) -> bytes:
        try:
            return msgspec.json.encode(self._reply(request))
        except DatabaseError as error:
            return self._failed(StatementFailure(error.reason, error.kind))
        except RecursionError:
            return self._failed(
                StatementFailure("the statement or its result is nested too deeply", "too_big")
            )
        except (ValueError, OverflowError, TypeError) as error:
            # A driver cannot convert a value to Python.
            message = (str(error).splitlines() or [type(error).__name__])[0][:200]
            return self._failed(StatementFailure(f"a value cannot be shown: {message}", "other"))
        except MemoryError:
            pass  # replying needs memory too, which is free once the error is gone
        return self._failed(too_much_memory(request.memory))

    def _failed(self, failure: StatementFailure) -> bytes:
        return msgspec.json.encode(StatementReply(self._is_first, failure=failure))

    def _reply(self, request: StatementRequest) -> StatementReply:
        if self._engine is None:
            limit_memory(OPENING + request.memory)
            engine = self._open_engine(request.path, request.memory)
            engine.open()
            limit_memory(request.memory + SPARE)
            self._engine = engine
        if request.sql is None:
            return StatementReply(self._is_first, tables=self._engine.tables())
        rows = self._engine.query(request.sql, request.rows, request.bytes)
        if sum(map(len, rows.columns)) + sum(map(len, rows.types)) > MAX_NAMES:
            raise DatabaseError("the names and types of its columns are too long", "too_big")
        return StatementReply(self._is_first, rows=rows)


def main(dialect: str) -> None:
    restrict_process()
    # Imported before the first request, so that it does not use its time: DuckDB takes 100 ms.
    if dialect == "sqlite":
        from .sqlite import SqliteReader as open_engine
    else:
        from .duckdb import DuckdbReader as open_engine
    serve(StatementWorker(open_engine).answer)


if __name__ == "__main__":
    main(sys.argv[1])
