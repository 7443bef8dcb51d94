"""A store in this process's memory: gone with it, and bounded."""

import time
from heapq import heapify, heappop, heappush

from .errors import Full
from .state import check, lifetime

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
        check(key)
        self._sweep()
        return self._values.get(key)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check(key, value)
        self._sweep()
        self._set(key, value, ttl)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check(key, new)
        self._sweep()
        if self._values.get(key) != old:
            return False
        if new is not None:
            self._set(key, new, ttl)
        else:
            self._drop(key)
        return True

    async def delete(self, key: str) -> bool:
        check(key)
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
        seconds = lifetime(ttl)
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
            raise Full(
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
