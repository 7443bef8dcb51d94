"""How often the event loop turns while something runs: what holds it shows in turns that are missing.

A count of work and not of time, so that it is the same on every machine.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    count = 0


@asynccontextmanager
async def counting_turns() -> AsyncIterator[Turns]:
    turns = Turns()

    async def count() -> None:
        while True:
            turns.count += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        yield turns
    finally:
        counting.cancel()
