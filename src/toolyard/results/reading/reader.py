"""`read_result`: some of a stored result, held to the limits of every other result.

A page of a list is read off the disk where its items are; expressions and SQL run in a process of their own.
Somebody else's id is an unknown id.
"""

import asyncio
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ...artifacts.store import Reading, Store, StoreError
from ...config import ResultsConfig
from ...workers.pool import WorkerDied, WorkerNotStarted, WorkerPool, WorkerTimeout
from ...workers.shares import TooManyWaitingError, WaitedTooLongError
from ..csv_texts import record_of, rows_of
from ..envelopes import plain
from ..grids import as_record
from ..json_parts import items_of, value_of
from ..limits import Limits
from ..ndjson import value_in
from ..tables import cut
from .asked import Asked, Wrong, asked
from .indexes import Index, Indexes, index_file, lines_of
from .parts import Part, of_items
from .worker import LONGEST_PATH, Answer, Request

logger = logging.getLogger("toolyard.results")

AROUND = 400
"""Bytes of an answer that are not the part itself."""
WORTH_READING = 8
"""So many times what there is room for: white space between items takes some of it."""
LONGEST_READ = 2**20
IN_A_THREAD = 2**20
"""A longer result is looked through by a worker, which has a limit and can be ended, and whose start takes
50 ms. So much takes 10 ms in a thread, or 300 where every few bytes are an item."""

PROCESSES = 3
"""Each may take as much memory as a query may have."""
MOST_WAITING = 16
"""Queries of one tenant."""
LONGEST_ANSWER = 16 * 2**20


class Reader:
    def __init__(self, store: Store, settings: ResultsConfig) -> None:
        self._store = store
        self._indexes = Indexes()
        self._workers = WorkerPool(
            "toolyard.results.reading.worker", most=PROCESSES, most_waiting=MOST_WAITING
        )
        self.reconfigure(settings)

    def reconfigure(self, settings: ResultsConfig) -> None:
        self._settings = settings
        limits = Limits(max_bytes=settings.max_bytes)
        self._room = limits.answer_bytes - AROUND

    async def read(self, tenant: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer; Wrong with what its reader should know."""
        request = asked(arguments)
        if request.way == "sql" and find_spec("duckdb") is None:
            raise Wrong("SQL needs DuckDB: pip install 'toolyard[sql]'. Pages and 'query' work without it")
        try:
            reading = await self._store.open(tenant, request.id)
            if reading is None:
                raise Wrong(f"No result {request.id[:40]!r}: it has expired, or never was")
            try:
                return await self._answer(tenant, request, reading)
            finally:
                await reading.close()
        except StoreError as error:
            raise Wrong(f"The stored result cannot be read now: {error.reason}") from None

    async def _answer(self, tenant: str, request: Asked, reading: Reading) -> dict[str, Any]:
        index = await self._index(tenant, request, reading) if request.way == "page" else None
        if index is None or index.kind == "value":
            wanted = await self._request(request.way, request, reading)
            part = (await self._asked(tenant, wanted)).part
            assert part is not None
        else:
            part = await self._page(request, reading, index)
        return part.told(request.id)

    async def _index(self, tenant: str, request: Asked, reading: Reading) -> Index:
        index = self._indexes.get(request.id)
        if index is None:
            if reading.artifact.size <= IN_A_THREAD:
                index = await asyncio.to_thread(index_file, await reading.path(), _is_json(reading))
            else:
                wanted = await self._request("index", request, reading)
                index = (await self._asked(tenant, wanted)).index
                assert index is not None
            self._indexes.put(request.id, index)
        return index

    async def _page(self, request: Asked, reading: Reading, index: Index) -> Part:
        start = min(request.offset, index.count)
        count = min(index.count - start, self._limit(request))
        begins, ends, skipped = index.span(start, count)
        while count > 1 and ends - begins > self._room * WORTH_READING:
            count = count // 2
            begins, ends, skipped = index.span(start, count)
        path = cut(".".join(index.path), LONGEST_PATH)
        if ends - begins > LONGEST_READ:
            told = f"it has {ends - begins} bytes"
            return Part("items", [told], start, 1, index.count, cut=True, path=path)
        body = await reading.read(begins, ends - begins)
        found = _READ[index.kind](body, index)[skipped : skipped + count]
        kind = "lines" if index.kind == "lines" else "items"
        return replace(of_items(found, index.count, start, self._room, kind), path=path)

    async def _request(self, way: str, request: Asked, reading: Reading) -> Request:
        return Request(
            way=way,
            path=str(await reading.path()),
            json=_is_json(reading),
            text=request.text,
            offset=request.offset,
            limit=self._limit(request),
            room=self._room,
            memory=self._settings.sql_memory,
        )

    async def _asked(self, tenant: str, request: Request) -> Answer:
        seconds = self._settings.sql_seconds
        try:
            found = await self._workers.ask(
                msgspec.json.encode(request),
                seconds=seconds,
                longest=LONGEST_ANSWER,
                caller=tenant,
                wait_seconds=seconds,
                kind=request.kind,
                subject=request.path if request.kind == "sql" else "",
            )
        except TooManyWaitingError as error:
            raise Wrong(
                f"{error.count} queries of yours are waiting already; ask again when some are answered"
            ) from None
        except WaitedTooLongError:
            raise Wrong("Other queries are running and take long; ask again in a moment") from None
        except WorkerTimeout:
            raise Wrong(f"It took more than {seconds:g} s; ask for less, or for a part") from None
        except WorkerDied:
            raise Wrong("The query took more memory than it may, or ended the process it ran in") from None
        except WorkerNotStarted as error:
            logger.warning("no process can be started for queries: %s", error)
            raise Wrong("Queries cannot be run now: no process can be started for them") from None
        answer = msgspec.json.decode(found, type=Answer)
        if answer.failed:
            raise Wrong(answer.failed)
        return answer

    def _limit(self, request: Asked) -> int:
        return request.limit or self._settings.max_items

    async def close(self) -> None:
        await self._workers.close()


def _is_json(reading: Reading) -> bool:
    return reading.artifact.content_type.startswith("application/json")


def _items(body: bytes, index: Index) -> list[Any]:
    """Of a part of a list, with the comma behind it."""
    part = b"[" + body.rstrip(b" \t\r\n,") + b"]"
    try:
        found = cast(list[Any], value_of(part))
    except ValueError:  # one of them cannot be decoded
        items = items_of(part)
        found = [] if items is None else [plain(raw) for raw in items.parts]
    return [as_record(index.columns, item) for item in found]


def _records(body: bytes, index: Index) -> list[Any]:
    return [value_in(line) for line in body.split(b"\n") if line.strip()]


def _rows(body: bytes, index: Index) -> list[Any]:
    rows = rows_of(body.decode("utf-8", "replace"), index.separator)
    return [record_of(index.columns, row) for row in rows]


def _lines(body: bytes, index: Index) -> list[Any]:
    return lines_of(body)


_READ: dict[str, Callable[[bytes, Index], list[Any]]] = {
    "items": _items,
    "records": _records,
    "rows": _rows,
    "lines": _lines,
}
