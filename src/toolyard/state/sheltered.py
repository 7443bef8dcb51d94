"""A store that may be away: meanwhile this process's memory stands in for it.

For what can be made anew, such as sessions. What must not be lost has to see the error instead.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from .errors import BadEntry, StateError
from .memory import MemoryState
from .state import State

logger = logging.getLogger("toolyard.state")

AGAIN_SECONDS = 5.0
"""How long a store is left alone that failed: it may take seconds to fail."""
REMEMBERED_SECONDS = 600.0
"""How long what the store said is known without it."""
MAX_OWED = 10_000
"""Entries written during an outage that are handed over after it; of the others the store is not told."""

T = TypeVar("T")


class _Answer(Enum):
    AWAY = "away"


AWAY = _Answer.AWAY


class Sheltered:
    """Raises nothing but BadEntry. `what` is kept there, for the log."""

    def __init__(self, state: State, what: str, again: float = AGAIN_SECONDS) -> None:
        self._state = state
        self._what = what
        self._again = again
        self._memory = MemoryState()
        self._away_until: float | None = None
        self._settling: asyncio.Task[None] | None = None
        # What was written here and the store does not know of.
        self._owed: set[str] = set()

    async def get(self, key: str) -> bytes | None:
        value = await self._ask(lambda state: state.get(key))
        if value is AWAY:
            return await self._memory.get(key)
        await self._remember(key, value, None)
        return value

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        if await self._ask(lambda state: state.put(key, value, ttl)) is AWAY:
            self._owe(key, value)
            await self._memory.put(key, value, ttl)
        else:
            await self._remember(key, value, ttl)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        """While the store is away, nobody but this process is asked."""
        done = await self._ask(lambda state: state.swap(key, old, new, ttl))
        if done is AWAY:
            self._owe(key, new)
            return await self._memory.swap(key, old, new, ttl)
        await self._remember(key, new if done else None, ttl)
        return done

    async def delete(self, key: str) -> bool:
        there = await self._ask(lambda state: state.delete(key))
        self._owe(key, None)
        here = await self._memory.delete(key)
        return here if there is AWAY else there

    async def keys(self, prefix: str) -> list[str]:
        found = await self._ask(lambda state: state.keys(prefix))
        return await self._memory.keys(prefix) if found is AWAY else found

    async def close(self) -> None:
        """The store itself is closed by whoever opened it."""
        if self._settling is not None:
            self._settling.cancel()
        await self._memory.close()

    async def _ask(self, action: Callable[[State], Awaitable[T]]) -> T | _Answer:
        if self._away_until is not None:
            if time.monotonic() >= self._away_until and (self._settling is None or self._settling.done()):
                # Beside the calls: none of them waits for a store that may take seconds to fail again.
                self._settling = asyncio.create_task(self._settle())
            return AWAY
        try:
            return await action(self._state)
        except BadEntry:
            raise
        except StateError as error:
            if self._away_until is None:
                logger.warning("%s are kept in this process alone for now: %s", self._what, error)
            self._away_until = time.monotonic() + self._again
            return AWAY

    async def _settle(self) -> None:
        """Hand over what was kept here meanwhile. What somebody else has put there in that time stays."""
        try:
            await self._state.get("there")
            while self._owed:
                key = next(iter(self._owed))
                value = await self._memory.get(key)
                if value is not None:
                    await self._state.swap(key, None, value, self._memory.left(key))
                self._owed.discard(key)
        except StateError:
            self._away_until = time.monotonic() + self._again
        else:
            self._away_until = None
            logger.info("%s are kept in the store again", self._what)

    async def _remember(self, key: str, value: bytes | None, ttl: float | None) -> None:
        if value is None:
            await self._memory.delete(key)
        else:
            await self._memory.put(key, value, min(REMEMBERED_SECONDS, ttl or REMEMBERED_SECONDS))

    def _owe(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._owed.discard(key)
        elif len(self._owed) < MAX_OWED:
            self._owed.add(key)
