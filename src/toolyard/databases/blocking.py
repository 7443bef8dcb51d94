"""Blocking drivers, used from asyncio: a few threads, a time limit, and a statement that is stopped for real.

A thread cannot be cancelled, so the driver is told to stop, and the task waits until it has: when it goes on,
nothing of it runs any more.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..workers.shares import Shares
from .model import timed_out

T = TypeVar("T")

THREADS = 4
_NUDGE = 0.05
"""Seconds between two requests to stop. The first may come before the statement has begun: it is lost."""


class Threads:
    """A few threads for one database; `run` waits for one, and that wait is not part of the time limit."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="database")
        self._shares = Shares(THREADS)

    async def run(
        self, work: Callable[[], T], *, interrupt: Callable[[], None], seconds: float, caller: str
    ) -> T:
        async with self._shares.place(caller):
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            try:
                done, _ = await asyncio.wait({running}, timeout=seconds)
            except asyncio.CancelledError:
                await _stopped(running, interrupt)
                raise
            if not done:
                await _stopped(running, interrupt)
                raise timed_out(seconds)
            return running.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _stopped(running: "asyncio.Future[T]", interrupt: Callable[[], None]) -> None:
    """Even a second cancellation does not leave before the thread has stopped."""
    while not running.done():
        interrupt()
        try:
            await asyncio.wait({running}, timeout=_NUDGE)
        except asyncio.CancelledError:
            continue
    # Its end is looked at, so that nobody is told of an exception that was never retrieved.
    if not running.cancelled():
        running.exception()
