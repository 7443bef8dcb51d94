"""Running an edge to its end, and getting out even when a thread does not."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from .threads import all_done

logger = logging.getLogger("toolyard.edge")

THREAD_GRACE = 1.0


def run_to_end(
    main: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Like asyncio.run, but a `def` tool that blocks its thread does not keep the process.

    Python joins such threads at exit, for ever if need be. By then the protocol's work is done and
    nobody waits for theirs.
    """
    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        runner.run(main)
    finally:
        loop = runner.get_loop()
        joined = loop.create_task(loop.shutdown_default_executor())
        loop.run_until_complete(asyncio.wait({joined}, timeout=THREAD_GRACE))
        if not joined.done() or not all_done(THREAD_GRACE):
            logger.warning("leaving while a tool still blocks its thread")
            sys.stderr.flush()
            os._exit(0)
        runner.close()
