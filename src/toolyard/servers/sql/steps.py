"""The steps of one answer: told to whoever waits, and kept with how long each took."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ...kit import Context


class Steps:
    def __init__(self, ctx: Context, total: int) -> None:
        self._ctx = ctx
        self._total = total
        self._begun = 0
        self._start = time.monotonic()
        self.taken: list[str] = []

    @asynccontextmanager
    async def step(self, words: str) -> AsyncGenerator[None]:
        await self._ctx.report_progress(self._begun, self._total, words)
        self._begun += 1
        start = time.monotonic()
        try:
            yield
        finally:
            self.taken.append(f"{words}: {_ms(start)} ms")

    def expect(self, more: int) -> None:
        """More steps than was thought."""
        self._total += more

    async def end(self) -> None:
        await self._ctx.report_progress(self._begun, self._begun)

    @property
    def elapsed_ms(self) -> int:
        return _ms(self._start)


def _ms(start: float) -> int:
    return round(1000 * (time.monotonic() - start))
