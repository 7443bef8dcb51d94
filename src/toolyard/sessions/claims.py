"""One process at a time: a short-lived entry in the store says that somebody is at it.

Owns the claim and that it ends with its holder. What is done under it, and what the others do meanwhile, is
their business.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from ..state.state import State

CLAIM_SECONDS = 3.0
"""What a holder that was killed costs those who wait."""


class Claims:
    def __init__(self, state: State, seconds: float = CLAIM_SECONDS) -> None:
        self._state = state
        self._seconds = seconds

    @asynccontextmanager
    async def claim(self, key: str) -> AsyncGenerator[bool]:
        """Whether it is ours; if so, it stays ours to the end of the block."""
        mine = uuid4().hex.encode()
        if not await self._state.swap(key, None, mine, self._seconds):
            yield False
            return
        holding = asyncio.create_task(self._hold(key, mine))
        try:
            yield True
        finally:
            holding.cancel()
            with suppress(asyncio.CancelledError):
                await holding
            await self._state.swap(key, mine, None)

    async def _hold(self, key: str, mine: bytes) -> None:
        while True:
            await asyncio.sleep(self._seconds / 4)
            await self._state.swap(key, mine, mine, self._seconds)
