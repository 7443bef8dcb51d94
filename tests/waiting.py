"""Waiting for something to become true, by looking; the limit is reached only when a test fails."""

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE = 120.0
"""Seconds that nothing is asserted about: a busy machine may need them, an idle one never waits so long."""


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110  a store has no event to wait for
            await asyncio.sleep(0.01)
