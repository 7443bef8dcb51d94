"""`read_result`: some of a stored result, held to the limits of every other result.

A page of a list is read off the disk where its items are; expressions and SQL run in a process of their own.
Somebody else's id is an unknown id.
"""

import asyncio
from importlib.util import find_spec
from typing import Any, cast

import msgspec

from ...artifacts.store import Reading, Store, StoreError
from ...config import ResultsConfig
from ..cutting import shortened
from ..json_parts import value_of
from ..limits import Limits
from .asked import Asked, Wrong, asked
from .indexes import Index, Indexes, TooMany
from .worker import Request
from .workers import Workers

AROUND = 300
"""Bytes of an answer that are not the part itself."""


class Reader:
    def __init__(self, store: Store, settings: ResultsConfig) -> None:
        self._store = store
        self._indexes = Indexes()
        self._workers = Workers(settings.sql_seconds)
        self.reconfigure(settings)

    def reconfigure(self, settings: ResultsConfig) -> None:
        self._memory = settings.sql_memory
        self._workers.seconds = settings.sql_seconds
        self._limits = Limits(max_bytes=settings.max_bytes, max_items=settings.max_items)

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
        json = reading.artifact.content_type.startswith("application/json")
        if request.way == "page":
            index = self._indexes.get(request.id)
            if index is None:
                path = await reading.path()
                try:
                    index = await asyncio.to_thread(self._indexes.make, request.id, path, json)
                except TooMany:
                    return await self._asked_of_worker(request, reading, json)
            if index.kind != "members":
                return await self._page(request, reading, index)
        return await self._asked_of_worker(request, reading, json)

    async def _page(self, request: Asked, reading: Reading, index: Index) -> dict[str, Any]:
        room = self._limits.answer_bytes - AROUND
        start = min(request.offset, index.count)
        count = min(index.count - start, request.limit or self._limits.max_items)
        while count > 1 and index.starts[start + count] - index.starts[start] > room * 2:
            count = max(1, count // 2)
        begins, ends = index.starts[start], index.starts[start + count]
        if count and ends - begins > 64 * room:
            return self._told(request, [], index.count, "", f"an item of {ends - begins} bytes")
        body = await reading.read(begins, ends - begins)
        if index.kind == "lines":
            found: list[Any] = body.decode("utf-8", "replace").splitlines()[:count]
        else:
            found = cast(list[Any], value_of(b"[" + body.rstrip(b" \t\r\n,") + b"]"))
        shown: list[Any] = []
        for item in found:
            room -= len(msgspec.json.encode(item)) + 1
            if room < 0:
                break
            shown.append(item)
        first = shortened(found[0], self._limits.answer_bytes - AROUND) if found and not shown else None
        told = self._told(request, shown, index.count, index.kind, first)
        if index.path:
            told["path"] = ".".join(index.path)
        return told

    async def _asked_of_worker(self, request: Asked, reading: Reading, json: bool) -> dict[str, Any]:
        room = self._limits.answer_bytes - AROUND
        found = await self._workers.ask(
            Request(
                way=request.way,
                path=str(await reading.path()),
                json=json,
                text=request.text,
                offset=request.offset,
                limit=request.limit or self._limits.max_items,
                room=room,
                memory=self._memory,
            )
        )
        if "value" in found:
            value = found["value"] if "too_big" not in found else shortened(found["value"], room)
            cut = (
                {"cut": f"it has {found['too_big']} bytes; ask for a part of it"}
                if "too_big" in found
                else {}
            )
            return {"id": request.id, "value": value, **cut}
        first = shortened(found["first"], room) if "first" in found else None
        kind = "rows" if request.way == "sql" else "items"
        return self._told(request, found["items"], found["total"], kind, first)

    def _told(
        self, request: Asked, shown: list[Any], total: int, kind: str, first: Any = None
    ) -> dict[str, Any]:
        """A part, how much there is, and how to go on."""
        told: dict[str, Any] = {
            "id": request.id,
            "offset": request.offset,
            "total": total,
            "shown": len(shown),
            "left": max(0, total - request.offset - len(shown)),
            kind or "items": shown,
        }
        if first is not None:
            told["cut"] = "the first item is too big to be shown whole; ask for parts of it with 'query'"
            told["first"] = first
            told["left"] = max(0, told["left"] - 1)
        if told["left"]:
            told["next_offset"] = request.offset + max(1, len(shown))
        return told

    async def close(self) -> None:
        await self._workers.close()
