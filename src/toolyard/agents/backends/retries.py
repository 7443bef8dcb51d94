"""When a request to a model is sent again, and how long that waits.

Waits as long as the API asks, or twice as long from time to time, with a spread so that many runs do not
come back at once. The waiting function comes in by the constructor, so that it can be cancelled, shown and
tested.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TypeVar

from .base import ModelError

T = TypeVar("T")
logger = logging.getLogger("toolyard.agents")

RETRIED = frozenset({"unreachable", "overloaded", "rate_limited", "cut"})
FIRST_WAIT = 0.5
SPREAD = 0.25
"""The part of a wait that is added at random; what the API asks for is never cut."""
LONG_WAIT = 5.0
"""From when on a person should know why nothing happens."""


class Retries:
    """Bounds attempts by number and by the sum of their waits. Answers that broke off cost: fewer `cuts`."""

    def __init__(
        self,
        attempts: int = 8,
        cuts: int = 3,
        longest_wait: float = 60.0,
        total_wait: float = 300.0,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._attempts = attempts
        self._cuts = cuts
        self._longest_wait = longest_wait
        self._total_wait = total_wait
        self._wait = wait
        self._spread = spread

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Raises the last ModelError, which says how often it was tried."""
        waited, attempts, cuts = 0.0, 0, 0
        while True:
            try:
                return await attempt()
            except ModelError as error:
                if error.kind not in RETRIED:
                    raise
                attempts += 1
                cuts += error.kind == "cut"
                seconds = self._pause(attempts, error.retry_after)
                if attempts >= self._attempts or cuts >= self._cuts or waited + seconds > self._total_wait:
                    raise _given_up(error, attempts, self._total_wait - waited) from None
                level = logging.WARNING if seconds >= LONG_WAIT else logging.INFO
                logger.log(level, "%s; trying again in %.1f s", error.message, seconds)
                waited += seconds
                await self._wait(seconds)

    def _pause(self, attempt: int, asked: float | None) -> float:
        pause = min(FIRST_WAIT * 2 ** (attempt - 1), self._longest_wait) if asked is None else asked
        return pause * (1 + SPREAD * self._spread())


def _given_up(error: ModelError, attempts: int, left: float) -> ModelError:
    asked = error.retry_after
    if asked is not None and asked > left:
        hint = f"it asks to wait {asked:.0f} s, longer than a run waits; try again then"
        return ModelError(error.kind, error.message, hint, error.status, asked)
    times = f" ({attempts} attempts)" if attempts > 1 else ""
    return ModelError(error.kind, f"{error.message}{times}", error.hint, error.status, asked)


def asked_wait(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    """Seconds that `retry-after-ms` or `retry-after` ask for; None if neither holds a time to wait for."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _until(text, headers.get("date", ""), now)
        if seconds is not None and 0 <= seconds < float("inf"):
            return seconds
    return None


def _until(text: str, server_time: str, now: Callable[[], float]) -> float | None:
    """From the server's clock where it shows it, because ours may differ."""
    try:
        end = parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
    try:
        begin = parsedate_to_datetime(server_time).timestamp()
    except ValueError:
        begin = now()
    return max(0.0, end - begin)
