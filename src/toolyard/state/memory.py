"""State in this process's memory, bounded: alone, or as the fallback while a shared store is unavailable.

The fallback is for data that can be made again, such as session leases. Callers that must not lose data use
the store itself.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TypeVar

from .counters import SECOND, Counter, end_of, readings, settle
from .store import (
    CounterReadings,
    Spend,
    SpendResult,
    State,
    StateEntryError,
    StateError,
    StateFullError,
    check_entry,
    checked_ttl,
)

logger = logging.getLogger("toolyard.state")

T = TypeVar("T")

MAX_ENTRIES = 100_000
MAX_BYTES = 64 << 20
"""The sum of keys and values. Python adds about 300 bytes for each entry."""


class MemoryState:
    """When full, drops entries with a time limit, least recently written first.

    Entries without a time limit are never dropped; a new entry is refused instead. Counters are kept apart,
    as many as there may be entries, and none is dropped before its end. `clock` is for them alone: they
    count in days and months, and nobody else sees them.
    """

    def __init__(
        self,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_entries = max_entries
        self.clock = clock
        self.live: dict[str, Counter] = {}
        """All counters, always the same dictionary. Whoever changes them does what `settle` would."""
        self._counters_swept = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: dict[str, bytes] = {}
        # In the order of writing.
        self._expiries: dict[str, float] = {}
        # A heap that may hold outdated times; `_expiries` has the current ones.
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

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        return self.spend_now(entries)

    def spend_now(self, entries: Sequence[Spend]) -> SpendResult:
        """`spend` without waiting, which memory can do."""
        now = int(self.clock() * SECOND)
        result, changes = settle(entries, self.live.get, now)
        if len(self.live) + len(changes) > self._max_entries:
            self._make_room_for_counters(sum(key not in self.live for key, _ in changes), now)
        self.live.update(changes)
        return result

    async def counters(self, prefix: str) -> CounterReadings:
        now = int(self.clock() * SECOND)
        found = [pair for pair in self.live.items() if pair[0].startswith(prefix)]
        return CounterReadings(now / SECOND, readings(found, now))

    async def close(self) -> None:
        self._values.clear()
        self.live.clear()
        self._expiries.clear()
        self._queue.clear()
        self._bytes = 0

    def seconds_left(self, key: str) -> float | None:
        """Seconds until the key expires; None if it does not."""
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
            self._compact()

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

    def _make_room_for_counters(self, count: int, now: int) -> None:
        if len(self.live) + count > self._max_entries and abs(now - self._counters_swept) > SECOND:
            self._counters_swept = now
            for key in [key for key, each in self.live.items() if end_of(each) <= now]:
                del self.live[key]
        if len(self.live) + count > self._max_entries:
            raise StateFullError(
                f"the store in memory is full ({len(self.live)} counters)",
                "keep state in sqlite:, redis:// or postgresql://",
            )

    def _sweep(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            expires, key = heappop(self._queue)
            if self._expiries.get(key) == expires:
                self._drop(key)

    def _compact(self) -> None:
        """Remove outdated times, which keys leave behind when they are written again."""
        if len(self._queue) > 2 * len(self._expiries) + 64:
            self._queue = [(expires, key) for key, expires in self._expiries.items()]
            heapify(self._queue)


RETRY_SECONDS = 5.0
"""How long a store that failed is not tried again: a failure may take seconds."""
CACHE_SECONDS = 600.0
"""How long entries read from the store are available without it."""
MAX_PENDING = 10_000
"""Entries written during an outage that are copied to the store after it. More are not copied."""


class _Unavailable(Enum):
    UNAVAILABLE = "unavailable"


UNAVAILABLE = _Unavailable.UNAVAILABLE


class FallbackState:
    """Uses the store, and this process's memory while the store fails. Raises only StateEntryError."""

    def __init__(self, state: State, what: str, retry_seconds: float = RETRY_SECONDS) -> None:
        """`what` names the entries in the log, as in "session leases"."""
        self._state = state
        self._what = what
        self._retry_seconds = retry_seconds
        self._memory = MemoryState()
        self._retry_at: float | None = None
        """None while the store is used."""
        self._flushing: asyncio.Task[None] | None = None
        # Keys written here that the store does not have.
        self._pending: set[str] = set()

    async def get(self, key: str) -> bytes | None:
        value = await self._try(lambda state: state.get(key))
        if value is UNAVAILABLE:
            return await self._memory.get(key)
        await self._cache(key, value, None)
        return value

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        if await self._try(lambda state: state.put(key, value, ttl)) is UNAVAILABLE:
            self._queue_write(key, value)
            await self._memory.put(key, value, ttl)
        else:
            await self._cache(key, value, ttl)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        """While the store is unavailable, only this process's memory is compared."""
        done = await self._try(lambda state: state.swap(key, old, new, ttl))
        if done is UNAVAILABLE:
            self._queue_write(key, new)
            return await self._memory.swap(key, old, new, ttl)
        await self._cache(key, new if done else None, ttl)
        return done

    async def delete(self, key: str) -> bool:
        stored = await self._try(lambda state: state.delete(key))
        self._queue_write(key, None)
        local = await self._memory.delete(key)
        return local if stored is UNAVAILABLE else stored

    async def keys(self, prefix: str) -> list[str]:
        found = await self._try(lambda state: state.keys(prefix))
        return await self._memory.keys(prefix) if found is UNAVAILABLE else found

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        """While the store is unavailable, this process counts for itself, from zero."""
        result = await self._try(lambda state: state.spend(entries))
        return await self._memory.spend(entries) if result is UNAVAILABLE else result

    async def counters(self, prefix: str) -> CounterReadings:
        found = await self._try(lambda state: state.counters(prefix))
        return await self._memory.counters(prefix) if found is UNAVAILABLE else found

    async def close(self) -> None:
        """Does not close the store, which belongs to the caller."""
        if self._flushing is not None:
            self._flushing.cancel()
        await self._memory.close()

    async def _try(self, action: Callable[[State], Awaitable[T]]) -> T | _Unavailable:
        if self._retry_at is not None:
            if time.monotonic() >= self._retry_at and (self._flushing is None or self._flushing.done()):
                # In the background: no call waits for a store that may take seconds to fail again.
                self._flushing = asyncio.create_task(self._flush())
            return UNAVAILABLE
        try:
            return await action(self._state)
        except StateEntryError:
            raise
        except StateError as error:
            if self._retry_at is None:
                logger.warning("%s are kept in memory for now: %s", self._what, error)
            self._retry_at = time.monotonic() + self._retry_seconds
            return UNAVAILABLE

    async def _flush(self) -> None:
        """Copy the entries written during the outage. Entries that others wrote meanwhile stay."""
        try:
            await self._state.get("probe")
            while self._pending:
                key = next(iter(self._pending))
                value = await self._memory.get(key)
                if value is not None:
                    await self._state.swap(key, None, value, self._memory.seconds_left(key))
                self._pending.discard(key)
        except StateError:
            self._retry_at = time.monotonic() + self._retry_seconds
        else:
            self._retry_at = None
            logger.info("%s are kept in the state store again", self._what)

    async def _cache(self, key: str, value: bytes | None, ttl: float | None) -> None:
        if value is None:
            await self._memory.delete(key)
        else:
            await self._memory.put(key, value, min(CACHE_SECONDS, ttl or CACHE_SECONDS))

    def _queue_write(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._pending.discard(key)
        elif len(self._pending) < MAX_PENDING:
            self._pending.add(key)
