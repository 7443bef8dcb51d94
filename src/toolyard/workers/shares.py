"""A number of places, shared fairly: whoever holds the fewest is next, and nobody holds all of them."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class NoPlaceError(Exception):
    """There is no place now.

    NoPlaceError
    ├── TooManyWaitingError  `count` requests of the same holder wait already
    └── WaitedTooLongError   nobody gave one back in time
    """


class TooManyWaitingError(NoPlaceError):
    def __init__(self, count: int) -> None:
        super().__init__(f"{count} requests are waiting already")
        self.count = count


class WaitedTooLongError(NoPlaceError):
    pass


class Shares:
    def __init__(self, places: int, *, most_waiting: int | None = None) -> None:
        """At most `most_waiting` requests of one holder wait; by default there is no end to them."""
        self._free = places
        self._each = max(1, places - 1)
        """One place is kept for a newcomer."""
        self._most_waiting = most_waiting
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By holder, those who were served longest ago first."""

    @asynccontextmanager
    async def place(self, holder: str, seconds: float | None = None) -> AsyncGenerator[None]:
        """Waits for a place, for so long at most; `holder` is whose share it is taken from."""
        await self._taken(holder, seconds)
        try:
            yield
        finally:
            self._take_back(holder)

    async def _taken(self, holder: str, seconds: float | None) -> None:
        waiting = self._waiting.setdefault(holder, deque())
        if self._most_waiting is not None and len(waiting) >= self._most_waiting:
            raise TooManyWaitingError(len(waiting))
        given = asyncio.get_running_loop().create_future()
        waiting.append(given)
        self._give()
        try:
            async with asyncio.timeout(seconds):
                await given
        except BaseException as error:
            if given.cancelled():
                self._leave(holder, given)
            else:  # it was given a place in the same moment
                self._take_back(holder)
            if isinstance(error, TimeoutError):
                raise WaitedTooLongError from None
            raise

    def _give(self) -> None:
        while self._free:
            able = [holder for holder in self._waiting if self._held[holder] < self._each]
            if not able:
                return
            holder = min(able, key=lambda one: self._held[one])
            waiting = self._waiting.pop(holder)
            given = waiting.popleft()
            if waiting:
                self._waiting[holder] = waiting  # at the end: the others come first
            if not given.done():  # it is when it was cancelled just now
                self._free -= 1
                self._held[holder] += 1
                given.set_result(None)

    def _leave(self, holder: str, given: "asyncio.Future[None]") -> None:
        """Without losing the turn of the holder's other requests."""
        waiting = self._waiting.get(holder, deque())
        if given in waiting:
            waiting.remove(given)
        if not waiting:
            self._waiting.pop(holder, None)

    def _take_back(self, holder: str) -> None:
        self._free += 1
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        self._give()
