"""`python -m toolyard.databases.worker`: statements on SQLite and DuckDB, in a process of their own.

A statement is a stranger's, and in one step it may take all the time and memory there is: no limit of the
engine's own holds for every function. So this process has limits, and `embedded` ends it in time.
"""

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..workers.serving import be_modest, limit_memory, serve
from .model import DatabaseError, ErrorKind, Rows, Table

SPARE = 64 * 2**20
"""Beyond the memory of a statement: for the answer, and for the engine to end in good order."""
OPENING = 512 * 2**20
"""What an engine may set aside when it opens a database: the stacks of its threads, most of it never used."""


class Request(Struct, frozen=True):
    dialect: str
    path: str
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
    rows: Rows | None = None
    tables: list[Table] | None = None
    failure: Failure | None = None


class Engine(Protocol):
    def look(self) -> list[Table]: ...

    def read(self, sql: str, rows: int, bytes: int) -> Rows: ...


def too_much_memory(memory: int) -> Failure:
    reason = f"the statement needs more than the {memory // 2**20} MiB of memory that it may take"
    return Failure(reason, "memory")


class Worker:
    """One database, which stays open from one statement to the next."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def answer(self, given: bytes) -> bytes:
        request = msgspec.json.decode(given, type=Request)
        try:
            return msgspec.json.encode(self._reply(request))
        except DatabaseError as error:
            return _failed(Failure(error.reason, error.kind))
        except RecursionError:
            return _failed(Failure("the statement or its answer is nested too deeply", "too_big"))
        except MemoryError:
            pass  # what took it is let go of with the error, and an answer takes some too
        return _failed(too_much_memory(request.memory))

    def _reply(self, request: Request) -> Reply:
        if self._engine is None:
            limit_memory(OPENING + request.memory)
            self._engine = _opened(request)
            limit_memory(request.memory + SPARE)
        if request.sql is None:
            return Reply(tables=self._engine.look())
        return Reply(rows=self._engine.read(request.sql, request.rows, request.bytes))


def _opened(request: Request) -> Engine:
    if request.dialect == "sqlite":
        from .sqlite import SqliteEngine

        return SqliteEngine(request.path, request.memory)
    from .duckdb import DuckEngine  # 100 ms of CPU

    return DuckEngine(request.path, request.memory)


def _failed(failure: Failure) -> Any:
    return msgspec.json.encode(Reply(failure=failure))


if __name__ == "__main__":
    be_modest()
    serve(Worker().answer)
