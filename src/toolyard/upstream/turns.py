"""Long work in slices: one slice in each turn of the event loop, whoever's it is.

A result of a hundred megabytes, or a list of a hundred thousand tools, is handled a slice at a time. Awaiting
a turn between two slices lets everything else that is ready go first; and since there is one line of those
who wait, ten such results hold a turn of the loop no longer than one does.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from weakref import WeakKeyDictionary

SLICE = 32 * 1024
"""Bytes that are looked at in one turn: a quarter of a millisecond for most texts."""


class _Line:
    """Those who wait on one loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting:
            loop.call_soon(self._next, loop)
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # else whoever waited was cancelled
                first.set_result(None)
                break
        if self._waiting:
            loop.call_soon(self._next, loop)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


async def turn() -> None:
    """Go on when it is our turn: after everything that is ready now, and alone among those who wait here."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line()
    await line.wait(loop)


def slices(data: bytes, size: int = SLICE) -> Iterator[bytes]:
    """Itself, when it is no longer than one."""
    if len(data) <= size:
        yield data
        return
    for start in range(0, len(data), size):
        yield data[start : start + size]
