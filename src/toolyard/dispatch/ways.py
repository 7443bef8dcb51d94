"""The MCP connections of many sessions with one upstream: one for each, opened when needed, closed when idle.

What goes over one was begun for one tenant and conversation; another's calls never meet it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from ..upstream.link import About
from ..wire.call import Call

MAX_WAYS = 256
IDLE_SECONDS = 300.0
LEAVING_SECONDS = 60.0


class Way(Protocol):
    """To one session."""

    async def handle(self, call: Call) -> Any: ...

    async def about(self) -> About:
        """What the server says of itself."""
        ...

    async def idle(self) -> None:
        """Wait until no call is parked in it."""
        ...

    async def close(self) -> None: ...


class _Open:
    def __init__(self, way: Way) -> None:
        self.way = way
        self.users = 0
        self.used = time.monotonic()
        self._unused = asyncio.Event()

    def leave(self) -> None:
        self.users -= 1
        self.used = time.monotonic()
        self._unused.set()

    async def idle(self) -> None:
        """Until nobody uses it, and no call is parked in it."""
        while self.users:
            self._unused.clear()
            await self._unused.wait()
        await self.way.idle()


class Ways:
    def __init__(self, most: int = MAX_WAYS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._ways: dict[str, _Open] = {}
        self._leaving: dict[_Open, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._ways)

    @asynccontextmanager
    async def use(self, session: str, make: Callable[[], Way]) -> AsyncGenerator[Way]:
        """The way to a session, for as long as the block lasts."""
        held = self._ways.get(session)
        if held is None:
            self._make_room()
            held = self._ways[session] = _Open(make())
        held.users += 1
        try:
            yield held.way
        finally:
            held.leave()

    def drop(self, session: str) -> None:
        """Nobody gets this one any more; it is closed when those who have it have left."""
        held = self._ways.pop(session, None)
        if held is not None:
            self._leaving[held] = asyncio.create_task(self._left(held))

    def close_idle(self) -> None:
        now = time.monotonic()
        for session, held in list(self._ways.items()):
            if not held.users and now - held.used >= self._idle_seconds:
                self.drop(session)

    def _make_room(self) -> None:
        """Those in use are never closed: how many there are is limited where calls are let in."""
        unused = [session for session, held in self._ways.items() if not held.users]
        unused.sort(key=lambda session: self._ways[session].used)
        for session in unused[: max(0, len(self._ways) - self._most + 1)]:
            self.drop(session)

    async def _left(self, held: _Open) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                await held.idle()
        await held.way.close()
        self._leaving.pop(held, None)

    async def idle(self) -> None:
        """Wait until no call is parked anywhere."""
        for held in [*self._ways.values(), *self._leaving]:
            await held.way.idle()

    async def close(self) -> None:
        """All of them, at once."""
        leaving = list(self._leaving.values())
        for task in leaving:
            task.cancel()
        held = [*self._ways.values(), *self._leaving]
        self._ways, self._leaving = {}, {}
        await asyncio.gather(*(one.way.close() for one in held))
        await asyncio.gather(*leaving, return_exceptions=True)
