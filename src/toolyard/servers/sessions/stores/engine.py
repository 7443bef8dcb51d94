"""What carries scripts out. Two of them: `sqlite.py` and `postgres.py`."""

from __future__ import annotations

from typing import Protocol, TypeVar

from .dialect import Dialect
from .script import Script

T = TypeVar("T")


class Engine(Protocol):
    """Raises StoreError when the database cannot do its part."""

    dialect: Dialect

    async def read(self, script: Script[T]) -> T: ...

    async def write(self, script: Script[T]) -> T:
        """In one transaction."""
        ...

    def elsewhere(self) -> Engine:
        """The same tables, for use in another thread with an event loop of its own."""
        ...

    async def close(self) -> None: ...
