"""`python -m toolyard.databases.worker DIALECT`: statements on SQLite or DuckDB, in a process of their own.

A statement is a stranger's, and in one step it may take all the time and memory there is: no limit of the
engine's own holds for every function. So this process has limits, and `embedded` ends it in time.
"""

import sys
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from ..workers.serving import be_modest, limit_memory, serve
from .model import DatabaseError, ErrorKind, Rows, Table

SPARE = 64 * 2**20
"""Beyond the memory of a statement: for the answer, and for the engine to end in good order."""
OPENING = 512 * 2**20
"""What an engine may set aside when it opens a database: the stacks of its threads, most of it never used."""

LONGEST_NAMES = 250_000
"""Characters of the names and types of columns. A type may be far longer than the statement."""


class Request(Struct, frozen=True):
    path: str
    """Empty for the sample."""
    memory: int
    """Bytes that a statement may take."""
    sql: str | None = None
    """None: what tables there are."""
    rows: int = 0
    bytes: int = 0


class Failure(Struct, frozen=True):
    reason: str
    kind: ErrorKind


class Reply(Struct, frozen=True):
    """`is_first`: of its worker. An engine keeps some memory from one statement to the next."""

    is_first: bool
    rows: Rows | None = None
    tables: list[Table] | None = None
    failure: Failure | None = None


class Engine(Protocol):
    def open(self) -> None:
        """Set aside what it needs before any statement."""
        ...

    def look(self) -> list[Table]: ...

    def read(self, sql: str, rows: int, bytes: int) -> Rows: ...


def too_much_memory(memory: int) -> Failure:
    reason = f"the statement needs more than the {memory // 2**20} MiB of memory that it may take"
    return Failure(reason, "memory")


class Worker:
    """One database, which stays open from one statement to the next."""

    def __init__(self, open_engine: Callable[[str, int], Engine]) -> None:
        self._open_engine = open_engine
        self._engine: Engine | None = None
        self._is_first = True

    def answer(self, given: bytes) -> bytes:
        found = self._answer(msgspec.json.decode(given, type=Request))
        self._is_first = False
        return found

    def _answer(self, request: Request) -> bytes:
        try:
            return msgspec.json.encode(self._reply(request))
        except DatabaseError as error:
            return self._failed(Failure(error.reason, error.kind))
        except RecursionError:
            return self._failed(Failure("the statement or its answer is nested too deeply", "too_big"))
        except (ValueError, OverflowError, TypeError) as error:
            # A driver's, which finds no value of Python for one of the database.
            said = (str(error).splitlines() or [type(error).__name__])[0][:200]
            return self._failed(Failure(f"a value of the answer cannot be shown: {said}", "other"))
        except MemoryError:
            pass  # what took it is let go of with the error, and an answer takes some too
        return self._failed(too_much_memory(request.memory))

    def _failed(self, failure: Failure) -> bytes:
        return msgspec.json.encode(Reply(self._is_first, failure=failure))

    def _reply(self, request: Request) -> Reply:
        if self._engine is None:
            limit_memory(OPENING + request.memory)
            engine = self._open_engine(request.path, request.memory)
            engine.open()
            limit_memory(request.memory + SPARE)
            self._engine = engine
        if request.sql is None:
            return Reply(self._is_first, tables=self._engine.look())
        found = self._engine.read(request.sql, request.rows, request.bytes)
        if sum(map(len, found.columns)) + sum(map(len, found.types)) > LONGEST_NAMES:
            raise DatabaseError("the names and types of its columns are too long", "too_big")
        return Reply(self._is_first, rows=found)


def main(dialect: str) -> None:
    be_modest()
    # Before the first request, so that its time is not spent on it: DuckDB takes 100 ms.
    if dialect == "sqlite":
        from .sqlite import SqliteEngine as Engine
    else:
        from .duckdb import DuckEngine as Engine
    serve(Worker(Engine).answer)


if __name__ == "__main__":
    main(sys.argv[1])
