"""Questions that are not calls of a tool: each has its time.

One that was turned away for the moment is put again; to one who is known to be down it is not put at all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...upstream.errors import Busy, Down, Late, Lost, NotReached, UpstreamError
from ...wire.errors import McpError
from ..breaker import Breaker

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""Who is told to come back later than that does without an answer: there are others to ask."""
MAX_TRIES = 3


class Asking:
    def __init__(self, server: str, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self.breaker: Breaker | None = None

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        if self.breaker is not None:
            self.breaker.check()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._patiently(question)
        except TimeoutError as error:
            if isinstance(error, McpError):
                raise
            late = Late(self._server, f"it did not answer within {self._timeout:g} s")
            self._failed(late)
            raise late from None
        except (Lost, NotReached) as error:
            self._failed(error)
            raise

    def _failed(self, error: UpstreamError) -> None:
        if self.breaker is not None and not isinstance(error, Busy | Down):
            self.breaker.failed(error.reason)

    async def _patiently(self, question: Callable[[], Awaitable[T]]) -> T:
        """One that was turned away unread, with the word when to come back, comes back."""
        for _ in range(MAX_TRIES - 1):
            try:
                return await question()
            except NotReached as error:
                if error.retry_after is None or error.retry_after > PATIENCE_SECONDS:
                    raise
                await asyncio.sleep(error.retry_after)
        return await question()
