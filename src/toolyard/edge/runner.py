"""Runs an edge to its end, runs authors' `def` functions in threads, and exits even if one does not."""

import asyncio
import contextvars
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine
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


def stop_threads(grace: float) -> bool:
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


logger = logging.getLogger("toolyard.edge")

GRACE = 1.0


def run_to_end(
    main: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Like asyncio.run, but neither a thread that blocks nor a task that swallows its cancellation keeps us.

    Python waits for both at exit, for ever if need be. By then the protocol's work is done and nobody
    waits for theirs.
    """
    runner = asyncio.Runner(loop_factory=loop_factory)
    failure: Exception | None = None
    try:
        runner.run(main)
    except Exception as error:
        failure = error
        raise
    finally:
        loop = runner.get_loop()
        if not loop.run_until_complete(_all_ended(loop)) or not stop_threads(GRACE):
            if failure is not None:
                logger.error("ended by an error", exc_info=failure)
            logger.warning("exiting although a tool is still running")
            sys.stderr.flush()
            os._exit(0 if failure is None else 1)
        runner.close()


async def _all_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel what is left on the loop; whether it has ended, the loop's own threads too, in time."""
    left = {task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()}
    if not await cancel_and_wait(left):
        return False
    joining = loop.create_task(loop.shutdown_default_executor())
    return bool((await asyncio.wait({joining}, timeout=GRACE))[0])


async def cancel_and_wait(tasks: Collection["asyncio.Task[Any]"], grace: float = GRACE) -> bool:
    """Cancel tasks and give them a moment. One that swallows its cancellation is left behind."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return True
    _, left = await asyncio.wait(tasks, timeout=grace)
    return not left
