"""The threads that authors' `def` functions run in.

The loop's own pool has a handful (on two cores: six), and a few functions that block would stop all
others. Ours is wider, and a function that never returns does not keep the process from ending.
"""

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 64
_NAME = "toolyard-def"

_pool: ThreadPoolExecutor | None = None


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Like asyncio.to_thread, in our pool."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(THREADS, thread_name_prefix=_NAME)
    call = functools.partial(contextvars.copy_context().run, function, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


def all_done(grace: float) -> bool:
    """Whether the threads have ended within `grace` seconds of being told to. No new work is taken."""
    global _pool
    if _pool is None:
        return True
    _pool.shutdown(wait=False, cancel_futures=True)
    _pool = None
    deadline = time.monotonic() + grace
    for thread in threading.enumerate():
        if thread.name.startswith(_NAME):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return False
    return True
