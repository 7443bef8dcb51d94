"""Running an edge to its end, and getting out even when a thread does not."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from .threads import all_done

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
    try:
        runner.run(main)
    finally:
        loop = runner.get_loop()
        if not loop.run_until_complete(_all_ended(loop)) or not all_done(GRACE):
            logger.warning("leaving while a tool still runs and does not react")
            sys.stderr.flush()
            os._exit(0)
        runner.close()


async def _all_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel what is left on the loop; whether it has ended, the loop's own threads too, in time."""
    left = {task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()}
    if not await ended(left):
        return False
    joining = loop.create_task(loop.shutdown_default_executor())
    return bool((await asyncio.wait({joining}, timeout=GRACE))[0])


async def ended(tasks: Collection["asyncio.Task[Any]"], grace: float = GRACE) -> bool:
    """Cancel tasks and give them a moment. One that swallows its cancellation is left behind."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return True
    _, left = await asyncio.wait(tasks, timeout=grace)
    return not left
