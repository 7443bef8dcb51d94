"""The lists that need no session: every tool, every app.

The current version of the API is asked first, then the one before it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from . import reading
from .errors import ApiRefused
from .records import ToolkitRecord, ToolRecord
from .rest import Rest, path

T = TypeVar("T")

VERSIONS = ("v3.1", "v3")
NOT_THERE = (404, 405, 410)
MAX_PAGES = 20
SLUGS_AT_ONCE = 50


class Lists:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def tools(self, slugs: Sequence[str]) -> list[ToolRecord]:
        """By their names; the unknown are left out."""
        found: list[ToolRecord] = []
        for start in range(0, len(slugs), SLUGS_AT_ONCE):
            some = ",".join(slugs[start : start + SLUGS_AT_ONCE])
            found += await self._tools({"tool_slugs": some, "limit": str(SLUGS_AT_ONCE)}, SLUGS_AT_ONCE)
        return found

    async def tools_of(self, toolkit: str, limit: int) -> list[ToolRecord]:
        """None of an app that is not known."""
        try:
            return await self._tools({"toolkit_slug": toolkit, "limit": str(min(limit, 1000))}, limit)
        except ApiRefused as error:
            if error.status == 404:
                return []
            raise

    async def _tools(self, query: dict[str, str], limit: int) -> list[ToolRecord]:
        rows = await self._newest(lambda api: self.pages(f"/api/{api}/tools", query, limit))
        return [tool for row in rows if (tool := reading.tool(row)) is not None]

    async def toolkits(self, text: str, category: str, limit: int) -> list[ToolkitRecord]:
        query = {"limit": str(min(limit, 1000)), "search": text, "category": category}
        query = {name: value for name, value in query.items() if value}
        rows = await self._newest(lambda api: self.pages(f"/api/{api}/toolkits", query, limit))
        return [kit for row in rows if (kit := reading.toolkit(row)) is not None]

    async def toolkit(self, slug: str) -> ToolkitRecord | None:
        try:
            return reading.toolkit(
                await self._newest(lambda api: self.read(f"/api/{api}/toolkits{path(slug)}"))
            )
        except ApiRefused as error:
            if error.status in (400, 404):
                return None
            raise

    async def pages(self, path: str, query: dict[str, str], limit: int) -> list[dict[str, Any]]:
        """Items page by page, until there are enough."""
        rows: list[dict[str, Any]] = []
        for _ in range(MAX_PAGES):
            some, cursor = reading.page(await self.read(path, query))
            rows += some
            if not cursor or len(rows) >= limit:
                break
            query = {**query, "cursor": cursor}
        return rows[:limit]

    async def read(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        return self.decoded(await self._rest.get(path, query))

    async def put(self, path: str, body: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
        return self.decoded(await self._rest.post(path, body, headers))

    def decoded(self, body: bytes) -> dict[str, Any]:
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._rest.garbled(error) from None

    async def _newest(self, work: Callable[[str], Awaitable[T]]) -> T:
        newest, older = VERSIONS
        try:
            return await work(newest)
        except ApiRefused as error:
            if error.status not in NOT_THERE:
                raise
        return await work(older)


async def together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All at once. When one fails, or whoever waits has gone, none goes on."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
