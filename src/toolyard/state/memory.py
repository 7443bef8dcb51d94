"""A bounded store in this process's memory, alone or as the fallback of another store that may be away.

The fallback is for what can be made anew, such as session leases. Callers that must not lose data use the
store itself.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TypeVar

from .store import State, StateEntryError, StateError, StateFullError, check_entry, checked_ttl

MAX_ENTRIES = 100_000
MAX_BYTES = 64 << 20
"""Of keys and values together, as they are counted: Python adds about 300 bytes to each entry."""


class MemoryState:
    """When it is full, what has a time limit goes first, the longest unwritten before the others; what has
    none is never dropped, and a new entry is refused instead."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: dict[str, bytes] = {}
        # In the order they were written.
        self._expiries: dict[str, float] = {}
        # May hold times that are not good any more: `_expiries` has the true ones.
        self._queue: list[tuple[float, str]] = []

    async def get(self, key: str) -> bytes | None:
        check_entry(key)
        self._sweep()
        return self._values.get(key)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check_entry(key, value)
        self._sweep()
        self._set(key, value, ttl)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check_entry(key, new)
        self._sweep()
        if self._values.get(key) != old:
            return False
        if new is not None:
            self._set(key, new, ttl)
        else:
            self._drop(key)
        return True

    async def delete(self, key: str) -> bool:
        check_entry(key)
        self._sweep()
        return self._drop(key)

    async def keys(self, prefix: str) -> list[str]:
        self._sweep()
        return sorted(key for key in self._values if key.startswith(prefix))

    async def close(self) -> None:
        self._values.clear()
        self._expiries.clear()
        self._queue.clear()
        self._bytes = 0

    def left(self, key: str) -> float | None:
        """Seconds until it expires; None when it does not."""
        expires = self._expiries.get(key)
        return None if expires is None else max(0.0, expires - time.monotonic())

    def _set(self, key: str, value: bytes, ttl: float | None) -> None:
        seconds = checked_ttl(ttl)
        if seconds != 0:
            self._make_room(key, len(key) + len(value))
        self._drop(key)
        if seconds == 0:
            return
        self._values[key] = value
        self._bytes += len(key) + len(value)
        if seconds is not None:
            expires = time.monotonic() + seconds
            self._expiries[key] = expires
            heappush(self._queue, (expires, key))
            self._tidy()

    def _make_room(self, key: str, size: int) -> None:
        before = self._values.get(key)
        entries = len(self._values) + (before is None)
        total = self._bytes + size - (0 if before is None else len(key) + len(before))
        if entries <= self._max_entries and total <= self._max_bytes:
            return
        leaving: list[str] = []
        for victim in self._expiries:
            if victim != key:
                leaving.append(victim)
                entries -= 1
                total -= len(victim) + len(self._values[victim])
            if entries <= self._max_entries and total <= self._max_bytes:
                break
        else:
            raise StateFullError(
                f"the store in memory is full ({len(self._values)} entries, {self._bytes} bytes)",
                "keep state in sqlite:, redis:// or postgresql://",
            )
        for victim in leaving:
            self._drop(victim)

    def _drop(self, key: str) -> bool:
        value = self._values.pop(key, None)
        if value is None:
            return False
        self._bytes -= len(key) + len(value)
        self._expiries.pop(key, None)
        return True

    def _sweep(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            expires, key = heappop(self._queue)
            if self._expiries.get(key) == expires:
                self._drop(key)

    def _tidy(self) -> None:
        """Keys that are written again and again leave their old times behind."""
        if len(self._queue) > 2 * len(self._expiries) + 64:
            self._queue = [(expires, key) for key, expires in self._expiries.items()]
            heapify(self._queue)


logger = logging.getLogger("toolyard.state")

AGAIN_SECONDS = 5.0
"""How long a store is left alone that failed: it may take seconds to fail."""
REMEMBERED_SECONDS = 600.0
"""How long what the store said is known without it."""
MAX_OWED = 10_000
"""Entries written during an outage that are handed over after it; of the others the store is not told."""

T = TypeVar("T")


class _Absence(Enum):
    AWAY = "away"


AWAY = _Absence.AWAY


class FallbackState:
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

    async def _ask(self, action: Callable[[State], Awaitable[T]]) -> T | _Absence:
        if self._away_until is not None:
            if time.monotonic() >= self._away_until and (self._settling is None or self._settling.done()):
                # Beside the calls: none of them waits for a store that may take seconds to fail again.
                self._settling = asyncio.create_task(self._settle())
            return AWAY
        try:
            return await action(self._state)
        except StateEntryError:
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
