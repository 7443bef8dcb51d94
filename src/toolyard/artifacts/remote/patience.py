"""How long we wait for a bucket, and that we do not wait for one that has just failed.

A result is late by one timeout at most when its store is down: whoever comes next is told at once.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from ..names import now
from ..store import Unreachable
from .bucket import Forbidden, NoBucket

LONGEST_REST = 15.0

T = TypeVar("T")


class Patience:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._fault: Unreachable | None = None
        self._until = 0.0

    async def step(self, work: Awaitable[T]) -> T:
        """One answer of the bucket; Unreachable when it does not come in time."""
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            self._fault = Unreachable(f"the store did not answer within {self._seconds:g} seconds")
        except (Forbidden, NoBucket):
            raise  # it answers, and quickly: the next one may be luckier
        except Unreachable as error:
            self._fault = error
        self._until = now() + min(self._seconds, LONGEST_REST)
        raise self._fault

    def check(self) -> None:
        """Unreachable while it is too early to try again."""
        if self._fault is not None and now() < self._until:
            raise Unreachable(f"{self._fault.reason}, a moment ago")
