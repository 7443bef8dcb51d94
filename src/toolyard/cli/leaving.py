"""Leaving, even when a thread of somebody else's does not.

Python waits for the threads that a target started, for ever if need be.
"""

import atexit
import os
import sys
from contextlib import suppress

from .failure import warn

GRACE = 1.0


def leave_soon(status: int) -> None:
    """End the process with `status` once the threads that are left have had a moment.

    They are waited for by Python as it exits, since some end only then (those of idle pools do).
    """
    threading = sys.modules.get("threading")
    if threading is None:
        return
    main = threading.main_thread()
    left = [thread for thread in threading.enumerate() if thread is not main and not thread.daemon]
    if not left:
        return
    ended = threading.Event()
    # Run when the threads have ended, before what anybody else registered: that may take its time.
    atexit.register(ended.set)

    def watch() -> None:
        if ended.wait(GRACE):
            return
        alive = [thread.name for thread in left if thread.is_alive()]
        try:
            warn(f"left while the target's threads still ran: {', '.join(alive)}", "make them daemon threads")
            _flush()
        finally:  # standard error may have no reader
            os._exit(status)

    threading.Thread(target=watch, daemon=True).start()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed, by us or by the reader
            stream.flush()
