"""A number of places, shared fairly: whoever holds the fewest is next, and nobody holds all of them."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Shares:
    def __init__(self, places: int) -> None:
        self._free = places
        self._each = max(1, places - 1)
        """One place is kept for a newcomer."""
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By holder, those who were served longest ago first."""

    @asynccontextmanager
    async def place(self, holder: str) -> AsyncGenerator[None]:
        """Waits for a place; `holder` is whose share it is taken from."""
        given = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append(given)
        self._give()
        try:
            await given
        except asyncio.CancelledError:
            if given.cancelled():
                self._forget(holder, given)
            else:  # it was given a place in the same moment
                self._take_back(holder)
            raise
        try:
            yield
        finally:
            self._take_back(holder)

    def _give(self) -> None:
        while self._free:
            able = [holder for holder in self._waiting if self._held[holder] < self._each]
            if not able:
                return
            holder = min(able, key=lambda one: self._held[one])
            given = self._waiting[holder][0]
            self._forget(holder, given)
            if not given.done():
                self._free -= 1
                self._held[holder] += 1
                given.set_result(None)

    def _forget(self, holder: str, given: "asyncio.Future[None]") -> None:
        waiting = self._waiting.pop(holder, deque())
        if given in waiting:
            waiting.remove(given)
        if waiting:
            self._waiting[holder] = waiting  # at the end: the others come first

    def _take_back(self, holder: str) -> None:
        self._free += 1
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        self._give()
