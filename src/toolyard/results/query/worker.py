"""`python -m toolyard.results.query.worker`: runs queries over stored results in a process of its own.

Queries and results come from strangers, and either may take all the time and memory there is. This
process has limits on both, sees one file at a time, and is killed from outside when it takes too long.
Of the kind `sql` it has DuckDB; of the kind `values` it has the memory that DuckDB would take.
"""

import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from ...workers.process import limit_memory, memory_used, restrict_process, serve
from ..formats.tables import cut
from ..formats.truncation import size_of
from .content import PositionIndex, QueryFailedError, ResultPage, index_file, load_value, page_of_value

if TYPE_CHECKING:
    from .sql import ResultDatabase

SPARE, SPARE_FOR_SQL = 64 * 2**20, 512 * 2**20
"""Beyond the memory that a query may have: DuckDB sets some aside, and dies where it gets none. It also
reserves more than a gigabyte of addresses that it never uses, so it is not those that are limited."""
LARGEST_FILE = 2**30
"""A result that DuckDB cannot read as it is gets written anew for it, with a name at each value."""
LONGEST_PATH = 100
LONGEST_NOTE = 600


class QueryRequest(Struct, frozen=True):
    way: str
    """`page`, `query`, `sql`, or `index` for where the items are."""
    path: str
    json: bool
    text: str
    offset: int
    limit: int
    room: int
    """How many bytes of JSON the answer may have."""
    memory: int

    @property
    def kind(self) -> str:
        """Of the worker that may answer it."""
        return "sql" if self.way == "sql" else "values"


class QueryAnswer(Struct, frozen=True):
    part: ResultPage | None = None
    index: PositionIndex | None = None
    failed: str = ""


class QueryWorker:
    """What one process has from one request to the next."""

    def __init__(self, database: "ResultDatabase | None") -> None:
        self._database = database
        self._taken = 0

    def answer(self, given: bytes) -> bytes:
        found = self._answer(msgspec.json.decode(given, type=QueryRequest))
        try:
            return msgspec.json.encode(found)
        except (TypeError, UnicodeEncodeError, RecursionError):
            return msgspec.json.encode(QueryAnswer(failed="What it gives is not a value that can be shown"))

    def _answer(self, request: QueryRequest) -> QueryAnswer:
        try:
            self._limit(request)
            if request.way == "index":
                return QueryAnswer(index=index_file(Path(request.path), request.json))
            return QueryAnswer(self._part(request))
        except QueryFailedError as error:
            return QueryAnswer(failed=str(error))
        except RecursionError:
            return QueryAnswer(failed="It is nested too deeply to be queried")
        except OSError as error:
            if error.errno == errno.EFBIG:
                return QueryAnswer(failed="It is too long to be read as a table; read it by pages")
            return QueryAnswer(failed="The stored result cannot be read now")
        except MemoryError:
            pass  # the memory is freed with the error; answer after that
        except Exception:  # its message may reveal internals
            return QueryAnswer(failed="The query failed with an unexpected error")
        most = request.memory // 2**20
        return QueryAnswer(failed=f"It needs more than the {most} MiB that a query may take")

    def _part(self, request: QueryRequest) -> ResultPage:
        path = Path(request.path)
        if request.way == "sql":
            return self._selected(path, request)
        value = load_value(path, request.json)
        note = ""
        found = value.root
        if request.way == "query":
            from .expressions import evaluate  # 15 ms of CPU, in a process that mostly needs something else

            found, note = evaluate(request.text, value)
        note = cut(note, LONGEST_NOTE)
        part = page_of_value(found, request.offset, request.limit, request.room - size_of(note))
        at = cut(".".join(value.path), LONGEST_PATH) if request.way == "page" else ""
        return structs.replace(part, note=note, path=at)

    def _selected(self, path: Path, request: QueryRequest) -> ResultPage:
        import duckdb

        assert self._database is not None
        found = self._database.select(path, request.json, request.text, request.memory)
        try:
            return found.part(request.offset, request.limit, request.room)
        except duckdb.Error as error:
            raise self._database.failure(error, request.text, request.memory) from None
        finally:
            found.close()

    def _limit(self, request: QueryRequest) -> None:
        """By what was taken in the beginning, so that nobody gets more for having taken much before."""
        self._taken = self._taken or memory_used()
        spare = SPARE_FOR_SQL if request.way == "sql" else SPARE
        if request.way == "index":  # of a long one pages can be had, though nothing can be asked of it
            spare += Path(request.path).stat().st_size
        limit_memory(request.memory + spare, beyond=self._taken)


def main(kind: str) -> None:
    restrict_process(LARGEST_FILE)
    database = None
    if kind == "sql":
        # 100 ms of CPU: before the first request, whose time it would take.

        from .sql import ResultDatabase

        database = ResultDatabase()
    serve(QueryWorker(database).answer)


if __name__ == "__main__":
    main(sys.argv[1])
