"""The list of a database's tables, cached for a while.

Not in `model`, because workers load that, and it imports no asyncio.
"""

import asyncio
import time
from abc import ABC, abstractmethod

from .model import Table

TABLES_CALLER = "\0tables"
"""The caller for reading tables in a `FairLimiter`: every caller waits for it, so it has its own share."""


class CachedTables(ABC):
    """The half of a `Database` that lists tables; a database implements `_read_tables`."""

    def __init__(self, cache_seconds: float) -> None:
        self._cache_seconds = cache_seconds
        self._tables: list[Table] | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    @abstractmethod
    async def _read_tables(self) -> list[Table]: ...

    async def tables(self) -> list[Table]:
        async with self._reading:
            if self._tables is None or time.monotonic() - self._read_at > self._cache_seconds:
                self._tables = await self._read_tables()
                self._read_at = time.monotonic()
            return list(self._tables)

    async def table(self, name: str) -> Table | None:
        bare = name.replace('"', "").replace("`", "")
        tables = await self.tables()
        # There may be `orders` and `Orders`: the exact one wins.
        return next((table for table in tables if bare in _names(table)), None) or next(
            (table for table in tables if bare.casefold() in map(str.casefold, _names(table))), None
        )


def _names(table: Table) -> tuple[str, str]:
    prefix = f"{table.schema}."
    return table.name, table.name if table.name.startswith(prefix) else prefix + table.name
