"""Work in a thread that is waited for though whoever wanted it is cancelled: nothing writes after the end."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Callable[..., T], *arguments: Any) -> T:
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
