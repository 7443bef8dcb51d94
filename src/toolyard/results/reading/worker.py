"""`python -m toolyard.results.reading.worker`: queries over stored results, in a process of their own.

A query is a stranger's, and so is a result: either may take all the time and memory there is. So this process
has limits on both, sees one file at a time, and is ended from outside when it takes too long. One request a
line on standard input, one answer a line on standard output.
"""

import os
import sys
import time
from importlib import import_module
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from ..cutting import size_of
from ..tables import cut
from .indexes import Index, index_file
from .parts import Part, of_value
from .sql import Database
from .values import Failed, value_in_file

PAGE = 4096
SPARE, SPARE_FOR_SQL = 64 * 2**20, 512 * 2**20
"""Beyond the memory that a query may have: DuckDB sets some aside, and dies where it gets none. It also
reserves more than a gigabyte of addresses that it never uses, so it is not those that are limited."""
GRACE_SECONDS = 5
LONGEST_PATH = 100
LONGEST_NOTE = 600


class Request(Struct, frozen=True):
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
    seconds: float


class Answer(Struct, frozen=True):
    part: Part | None = None
    index: Index | None = None
    failed: str = ""


class Worker:
    """What one process has from one request to the next."""

    def __init__(self) -> None:
        self._database = Database()
        self._taken = 0

    def answer(self, request: Request) -> Answer:
        try:
            self._limit(request)
            if request.way == "index":
                return Answer(index=index_file(Path(request.path), request.json))
            return Answer(self._part(request))
        except Failed as error:
            return Answer(failed=str(error))
        except RecursionError:
            return Answer(failed="It is nested too deeply to be asked")
        except OSError:
            return Answer(failed="The stored result cannot be read now")
        except MemoryError:
            pass  # what took it is let go of with the error, and an answer takes some too
        except Exception:  # whatever it is, its words are for nobody outside
            return Answer(failed="The query cannot be answered, for a reason that was not foreseen")
        most = request.memory // 2**20
        return Answer(failed=f"It needs more than the {most} MiB that a query may take")

    def _part(self, request: Request) -> Part:
        path = Path(request.path)
        if request.way == "sql":
            return self._selected(path, request)
        value = value_in_file(path, request.json)
        note = ""
        found = value.root
        if request.way == "query":
            from .expressions import search  # 15 ms of CPU, in a process that mostly needs something else

            found, note = search(request.text, value)
        note = cut(note, LONGEST_NOTE)
        part = of_value(found, request.offset, request.limit, request.room - size_of(note))
        at = cut(".".join(value.path), LONGEST_PATH) if request.way == "page" else ""
        return structs.replace(part, note=note, path=at)

    def _selected(self, path: Path, request: Request) -> Part:
        import duckdb  # 100 ms of CPU, and only who asks in SQL needs it

        found = self._database.select(path, request.json, request.text, request.memory)
        try:
            return found.part(request.offset, request.limit, request.room)
        except duckdb.Error as error:
            raise self._database.failure(error, request.text, request.memory) from None
        finally:
            found.close()

    def _limit(self, request: Request) -> None:
        """By what was taken in the beginning, so that nobody gets more for having taken much before."""
        try:
            import resource
        except ImportError:  # Windows has no such limits; DuckDB's own holds there too
            return
        if request.way == "sql":
            import_module("duckdb")  # so that it is among what was taken
        self._taken = self._taken or _data_space()
        spare = SPARE_FOR_SQL if request.way == "sql" else SPARE
        if request.way == "index":  # of a long one pages can be had, though nothing can be asked of it
            spare += Path(request.path).stat().st_size
        _lower(resource.RLIMIT_DATA, self._taken + request.memory + spare)
        # Who started this ends it in time; should they be gone, this does.
        _lower(resource.RLIMIT_CPU, int(time.process_time() + request.seconds) + GRACE_SECONDS)


def _lower(what: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard < 0 else min(most, hard), hard))


def _data_space() -> int:
    """What this process has set aside to write to already."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[5]) * PAGE
    except OSError:
        return 2**29


def _encoded(found: Answer) -> bytes:
    try:
        return msgspec.json.encode(found)
    except (TypeError, UnicodeEncodeError, RecursionError):
        return msgspec.json.encode(Answer(failed="What it gives is not a value that can be shown"))


def main() -> None:
    """Until its standard input ends. What a library prints goes to stderr, never among the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin.buffer:
        answers.write(_encoded(worker.answer(msgspec.json.decode(line, type=Request))) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
