"""The MCP connections of many sessions with one upstream: one for each, opened when needed, closed when idle.

What goes over one was begun for one tenant and conversation; another's calls never meet it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
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


class Ways:
    def __init__(self, most: int = MAX_WAYS) -> None:
        self._most = most
        self._ways: dict[str, _Open] = {}
        self._closing: set[asyncio.Task[None]] = set()

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
            held.users -= 1
            held.used = time.monotonic()

    def drop(self, session: str) -> None:
        """The session is over: its calls under way find out for themselves."""
        held = self._ways.pop(session, None)
        if held is not None:
            self._close_later(held)

    def close_idle(self) -> None:
        now = time.monotonic()
        for session, held in list(self._ways.items()):
            if not held.users and now - held.used > IDLE_SECONDS:
                self.drop(session)

    def _make_room(self) -> None:
        """Those in use are never closed: how many there are is limited where calls are let in."""
        unused = [session for session, held in self._ways.items() if not held.users]
        unused.sort(key=lambda session: self._ways[session].used)
        for session in unused[: max(0, len(self._ways) - self._most + 1)]:
            self.drop(session)

    def _close_later(self, held: _Open) -> None:
        task = asyncio.create_task(_left(held.way))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def idle(self) -> None:
        """Wait until no call is parked anywhere."""
        for held in list(self._ways.values()):
            await held.way.idle()

    async def close(self) -> None:
        held, self._ways = list(self._ways.values()), {}
        for task in list(self._closing):
            task.cancel()
        closing = [asyncio.create_task(one.way.close()) for one in held]
        if closing or self._closing:
            await asyncio.wait([*closing, *self._closing])


async def _left(way: Way) -> None:
    """Calls that are parked in it have their time."""
    try:
        async with asyncio.timeout(LEAVING_SECONDS):
            await way.idle()
    except TimeoutError:
        pass
    finally:
        await way.close()
