"""`python -m toolyard.results.query.worker`: runs queries over stored results in a process of its own.

Queries and results are untrusted, and either may use up all time and memory. This process has limits on
both, reads one file at a time, and is killed by its parent if it takes too long. A worker of kind `sql`
has DuckDB; one of kind `values` does without, and needs less memory.
"""

import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from ...languages import Locale, answering, said
from ...workers.process import limit_memory, memory_used, restrict_process, serve
from ..formats.tables import cut
from ..formats.truncation import size_of
from .content import PositionIndex, QueryFailedError, ResultPage, index_file, load_value, page_of_value

if TYPE_CHECKING:
    from .sql import ResultDatabase

SPARE, SPARE_FOR_SQL = 64 * 2**20, 512 * 2**20
"""Memory beyond that of a query: DuckDB allocates some in advance, and crashes without it. It also reserves
over a gigabyte of addresses that it never uses, so the limit is not on the address space."""
LARGEST_FILE = 2**30
"""Bytes; a result that DuckDB cannot read directly is rewritten to a file, with a name for each value."""
LONGEST_PATH = 100
LONGEST_NOTE = 600


class QueryRequest(Struct, frozen=True):
    way: str
    """`page`, `query`, `sql`, or `index` for the positions of the items."""
    path: str
    json: bool
    text: str
    offset: int
    limit: int
    room: int
    """How many bytes of JSON the answer may have."""
    memory: int
    locale: Locale = "en"

    @property
    def kind(self) -> str:
        """The kind of worker that can answer it."""
        return "sql" if self.way == "sql" else "values"


class QueryAnswer(Struct, frozen=True):
    part: ResultPage | None = None
    index: PositionIndex | None = None
    failed: str = ""


class QueryWorker:
    """The state of a worker process between requests."""

    def __init__(self, database: "ResultDatabase | None") -> None:
        self._database = database
        self._taken = 0

    def answer(self, given: bytes) -> bytes:
        request = msgspec.json.decode(given, type=QueryRequest)
        with answering(request.locale):
            found = self._answer(request)
            try:
                return msgspec.json.encode(found)
            except (TypeError, UnicodeEncodeError, RecursionError):
                failed = said(
                    "The query returns a value that cannot be shown",
                    "A consulta devolve um valor que não pode ser mostrado",
                )
                return msgspec.json.encode(QueryAnswer(failed=failed))

    def _answer(self, request: QueryRequest) -> QueryAnswer:
        try:
            self._limit(request)
            if request.way == "index":
                return QueryAnswer(index=index_file(Path(request.path), request.json))
            return QueryAnswer(self._part(request))
        except QueryFailedError as error:
            return QueryAnswer(failed=str(error))
        except RecursionError:
            return QueryAnswer(
                failed=said(
                    "The result is nested too deeply to be queried",
                    "O resultado é aninhado demais para ser consultado",
                )
            )
        except OSError as error:
            if error.errno == errno.EFBIG:
                return QueryAnswer(
                    failed=said(
                        "The result is too long to be read as a table; read it by pages",
                        "O resultado é longo demais para ser lido como tabela; leia-o por páginas",
                    )
                )
            return QueryAnswer(
                failed=said(
                    "The stored result cannot be read now", "O resultado guardado não pode ser lido agora"
                )
            )
        except MemoryError:
            pass  # answer after the block: leaving it frees the memory
        except Exception:  # its message may have private details
            return QueryAnswer(
                failed=said(
                    "The query failed with an unexpected error", "A consulta falhou com um erro inesperado"
                )
            )
        most = request.memory // 2**20
        failed = said(
            f"The query needs more than the {most} MiB that a query may take",
            f"A consulta precisa de mais que os {most} MiB que uma consulta pode usar",
        )
        return QueryAnswer(failed=failed)

    def _part(self, request: QueryRequest) -> ResultPage:
        path = Path(request.path)
        if request.way == "sql":
            return self._selected(path, request)
        value = load_value(path, request.json)
        note = ""
        found = value.root
        if request.way == "query":
            from .expressions import evaluate  # 15 ms of CPU, not needed for pages

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
        """Limits the memory beyond what the process used at its start, whatever it uses now."""
        self._taken = self._taken or memory_used()
        spare = SPARE_FOR_SQL if request.way == "sql" else SPARE
        if request.way == "index":  # even a result too long for queries has pages
            spare += Path(request.path).stat().st_size
        limit_memory(request.memory + spare, beyond=self._taken)


def main(kind: str) -> None:
    restrict_process(LARGEST_FILE)
    database = None
    if kind == "sql":
        # 100 ms of CPU, spent before the first request.

        from .sql import ResultDatabase

        database = ResultDatabase()
    serve(QueryWorker(database).answer)


if __name__ == "__main__":
    main(sys.argv[1])
