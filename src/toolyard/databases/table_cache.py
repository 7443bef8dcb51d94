"""The tables of a database, read once and cached for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from .model import CACHE_SECONDS, Table

TABLES_CALLER = "\0tables"
"""In whose name tables are looked at: all callers wait for that, so it has a share of its own."""


class CachedTables:
    def __init__(
        self, look: Callable[[], Awaitable[list[Table]]], cache_seconds: float = CACHE_SECONDS
    ) -> None:
        self._look = look
        self._cache_seconds = cache_seconds
        self._tables: list[Table] | None = None
        self._looked_at = 0.0
        self._one_look = asyncio.Lock()

    async def all(self) -> list[Table]:
        async with self._one_look:
            if self._tables is None or time.monotonic() - self._looked_at > self._cache_seconds:
                self._tables = await self._look()
                self._looked_at = time.monotonic()
            return list(self._tables)

    async def named(self, name: str) -> Table | None:
        bare = name.replace('"', "").replace("`", "")
        tables = await self.all()
        # There may be `orders` and `Orders`: the exact one wins.
        return next((table for table in tables if bare in _names(table)), None) or next(
            (table for table in tables if bare.casefold() in map(str.casefold, _names(table))), None
        )


def _names(table: Table) -> tuple[str, str]:
    prefix = f"{table.schema}."
    return table.name, table.name if table.name.startswith(prefix) else prefix + table.name
