"""`read_result`: some of a stored result, held to the limits of every other result.

A page of a list is read off the disk where its items are; expressions and SQL run in a process of their own.
Somebody else's id is an unknown id.
"""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, cast

from ...artifacts.store import Reading, Store, StoreError
from ...config import ResultsConfig
from ..grids import as_record
from ..json_parts import value_of
from ..limits import Limits
from ..ndjson import value_in
from ..tables import cut
from .asked import Asked, Wrong, asked
from .indexes import Index, Indexes, TooMany, index_file, lines_of
from .parts import Part, of_items
from .worker import Request
from .workers import Workers

AROUND = 400
"""Bytes of an answer that are not the part itself."""
LONGEST_PATH = 100
WORTH_READING = 8
"""So many times what there is room for: white space between items takes some of it."""
LONGEST_READ = 2**20


class Reader:
    def __init__(self, store: Store, settings: ResultsConfig) -> None:
        self._store = store
        self._indexes = Indexes()
        self._workers = Workers()
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
                return await self._answer(request, reading)
            finally:
                await reading.close()
        except StoreError as error:
            raise Wrong(f"The stored result cannot be read now: {error.reason}") from None

    async def _answer(self, request: Asked, reading: Reading) -> dict[str, Any]:
        index = await self._index(request, reading) if request.way == "page" else None
        if index is None or index.kind == "members":
            return (await self._workers.ask(await self._request(request, reading))).told(request.id)
        told = (await self._page(request, reading, index)).told(request.id)
        return {**told, "path": cut(".".join(index.path), LONGEST_PATH)} if index.path else told

    async def _index(self, request: Asked, reading: Reading) -> Index | None:
        index = self._indexes.get(request.id)
        if index is None:
            try:
                index = await asyncio.to_thread(index_file, await reading.path(), _is_json(reading))
            except TooMany:
                return None
            self._indexes.put(request.id, index)
        return index

    async def _page(self, request: Asked, reading: Reading, index: Index) -> Part:
        start = min(request.offset, index.count)
        count = min(index.count - start, self._limit(request))
        begins, ends, skipped = index.span(start, count)
        while count > 1 and ends - begins > self._room * WORTH_READING:
            count = count // 2
            begins, ends, skipped = index.span(start, count)
        if ends - begins > LONGEST_READ:
            told = f"it has {ends - begins} bytes"
            return Part("items", [told], start, 1, index.count, cut=True)
        body = await reading.read(begins, ends - begins)
        read = _READ[index.kind](body)[skipped : skipped + count]
        found = [as_record(index.columns, item) for item in read]
        kind = "lines" if index.kind == "lines" else "items"
        return of_items(found, index.count, start, self._room, kind)

    async def _request(self, request: Asked, reading: Reading) -> Request:
        return Request(
            way=request.way,
            path=str(await reading.path()),
            json=_is_json(reading),
            text=request.text,
            offset=request.offset,
            limit=self._limit(request),
            room=self._room,
            memory=self._settings.sql_memory,
            seconds=self._settings.sql_seconds,
        )

    def _limit(self, request: Asked) -> int:
        return request.limit or self._settings.max_items

    async def close(self) -> None:
        await self._workers.close()


def _is_json(reading: Reading) -> bool:
    return reading.artifact.content_type.startswith("application/json")


def _items(body: bytes) -> list[Any]:
    """Of a part of a list, with the comma behind it."""
    return cast(list[Any], value_of(b"[" + body.rstrip(b" \t\r\n,") + b"]"))


def _records(body: bytes) -> list[Any]:
    return [value_in(line) for line in body.split(b"\n") if line.strip()]


_READ: dict[str, Callable[[bytes], list[Any]]] = {"items": _items, "records": _records, "lines": lines_of}
