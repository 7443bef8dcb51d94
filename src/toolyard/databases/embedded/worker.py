"""`python -m toolyard.databases.embedded.worker DIALECT`: runs statements in a process of its own.

A statement may take all time and memory in one step, and no limit of an engine holds for every function. So
this process has limits, and `database` ends it in time.
"""

import sys
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from ...workers.process import limit_memory, restrict_process, serve
from ..model import DatabaseError, ErrorKind, Rows, Table

SPARE = 64 * 2**20
"""Beyond the memory of a statement: for the answer, and for the engine to end in good order."""
OPENING = 512 * 2**20
"""What an engine may set aside when it opens a database: the stacks of its threads, most of it never used."""

LONGEST_NAMES = 250_000
"""Characters of the names and types of columns. A type may be far longer than the statement."""


class StatementRequest(Struct, frozen=True):
    path: str
    """Empty for the sample."""
    memory: int
    """Bytes that a statement may take."""
    sql: str | None = None
    """None: what tables there are."""
    rows: int = 0
    bytes: int = 0


class StatementFailure(Struct, frozen=True):
    reason: str
    kind: ErrorKind


class StatementReply(Struct, frozen=True):
    """`is_first`: of its worker. An engine keeps some memory from one statement to the next."""

    is_first: bool
    rows: Rows | None = None
    tables: list[Table] | None = None
    failure: StatementFailure | None = None


class EmbeddedEngine(Protocol):
    def open(self) -> None:
        """Set aside what it needs before any statement."""
        ...

    def look(self) -> list[Table]: ...

    def read(self, sql: str, rows: int, bytes: int) -> Rows: ...


def too_much_memory(memory: int) -> StatementFailure:
    reason = f"the statement needs more than the {memory // 2**20} MiB of memory that it may take"
    return StatementFailure(reason, "memory")


class StatementWorker:
    """One database, which stays open from one statement to the next."""

    def __init__(self, open_engine: Callable[[str, int], EmbeddedEngine]) -> None:
        self._open_engine = open_engine
        self._engine: EmbeddedEngine | None = None
        self._is_first = True

    def answer(self, given: bytes) -> bytes:
        found = self._answer(msgspec.json.decode(given, type=StatementRequest))
        self._is_first = False
        return found

    def _answer(self, request: StatementRequest) -> bytes:
        try:
            return msgspec.json.encode(self._reply(request))
        except DatabaseError as error:
            return self._failed(StatementFailure(error.reason, error.kind))
        except RecursionError:
            return self._failed(
                StatementFailure("the statement or its answer is nested too deeply", "too_big")
            )
        except (ValueError, OverflowError, TypeError) as error:
            # A driver's, which finds no value of Python for one of the database.
            said = (str(error).splitlines() or [type(error).__name__])[0][:200]
            return self._failed(StatementFailure(f"a value of the answer cannot be shown: {said}", "other"))
        except MemoryError:
            pass  # what took it is let go of with the error, and an answer takes some too
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
            return StatementReply(self._is_first, tables=self._engine.look())
        found = self._engine.read(request.sql, request.rows, request.bytes)
        if sum(map(len, found.columns)) + sum(map(len, found.types)) > LONGEST_NAMES:
            raise DatabaseError("the names and types of its columns are too long", "too_big")
        return StatementReply(self._is_first, rows=found)


def main(dialect: str) -> None:
    restrict_process()
    # Before the first request, so that its time is not spent on it: DuckDB takes 100 ms.
    if dialect == "sqlite":
        from .sqlite import SqliteReader as open_engine
    else:
        from .duckdb import DuckdbReader as open_engine
    serve(StatementWorker(open_engine).answer)


if __name__ == "__main__":
    main(sys.argv[1])
