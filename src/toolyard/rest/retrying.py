"""Sending again, where it helps and does no harm."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from .connection import Reply
from .faults import Unreachable
from .table import Retry

TOO_MANY = 429
AFTER_FAILURE = (500, 502, 503, 504)
MOST_AFTER_FAILURE = 2
MAX_WAIT = 24 * 3600.0


async def persistently(
    send: Callable[[], Awaitable[Reply]], retry: Retry, repeatable: bool
) -> tuple[Reply, float | None]:
    """The last reply, and how many seconds it asks to wait when that is longer than we do."""
    tries = 0
    while True:
        wait = None
        try:
            reply = await send()
        except Unreachable as fault:
            if tries >= retry.most or (fault.sent and not repeatable):
                raise
        else:
            asked = seconds_asked(reply)
            if not _helps(reply.status, tries, retry, repeatable):
                return reply, asked if reply.status == TOO_MANY else None
            if asked is not None and asked > retry.longest:
                return reply, asked
            wait = asked
        await asyncio.sleep(_pause(retry, tries) if wait is None else wait)
        tries += 1


def _helps(status: int, tries: int, retry: Retry, repeatable: bool) -> bool:
    if tries >= retry.most:
        return False
    if status == TOO_MANY:
        return True
    return repeatable and status in AFTER_FAILURE and tries < MOST_AFTER_FAILURE


def _pause(retry: Retry, tries: int) -> float:
    return min(retry.pause * 2**tries * random.uniform(0.5, 1.5), retry.longest)


def seconds_asked(reply: Reply) -> float | None:
    """What `Retry-After` says, in either of its forms; nothing when it makes no sense."""
    said = reply.headers.get("retry-after", "").strip()
    if not said:
        return None
    if said.isdecimal():
        return min(float(said[:9]), MAX_WAIT)
    from email.utils import parsedate_to_datetime  # 5 ms of CPU, for a form that few use

    try:
        return min(max(parsedate_to_datetime(said).timestamp() - time.time(), 0.0), MAX_WAIT)
    except (ValueError, OverflowError):
        return None
