"""The process of a command: its standard streams, its logs, and its exit while threads still run."""

import atexit
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress

from .ui.messages import warn


@contextmanager
def stdout_for_data() -> Generator[None, None, None]:
    """Send to standard error what the target prints to standard output, its children and C code included."""
    for fd in (1, 2):
        _open_if_closed(fd)
    _flush_stdout()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush_stdout()  # printed by code that kept a reference to the stream
        os.dup2(kept, 1)
        os.close(kept)


def _open_if_closed(fd: int) -> None:
    """Open /dev/null in place of a closed stream, so that no other file gets its number."""
    try:
        os.fstat(fd)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != fd:
            os.dup2(nothing, fd)
            os.close(nothing)


def _flush_stdout() -> None:
    if sys.stdout:
        sys.stdout.flush()


GRACE = 1.0


def exit_despite_threads(status: int) -> None:
    """Exit with `status`, GRACE seconds after the main thread, even if other threads still run.

    Python waits for them as it exits, and some end only then, such as those of idle pools.
    """
    threading = sys.modules.get("threading")
    if threading is None:
        return
    main = threading.main_thread()
    left = [thread for thread in threading.enumerate() if thread is not main and not thread.daemon]
    if not left:
        return
    ended = threading.Event()
    # Runs when the threads have ended, before the handlers of others, which may take long.
    atexit.register(ended.set)

    def watch() -> None:
        if ended.wait(GRACE):
            return
        alive = [thread.name for thread in left if thread.is_alive()]
        try:
            warn(
                f"exited while threads of the target still ran: {', '.join(alive)}",
                "make them daemon threads",
            )
            _flush_streams()
        finally:  # standard error may have no reader
            os._exit(status)

    threading.Thread(target=watch, daemon=True).start()


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed, by us or by the reader
            stream.flush()


def log_to_stderr(debug: bool) -> None:
    import logging  # comes with asyncio; `toolyard --version` does without both

    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
