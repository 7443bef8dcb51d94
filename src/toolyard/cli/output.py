"""Standard output, kept for the command's data while somebody else's code runs."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def stdout_kept_clean() -> Generator[None, None, None]:
    """What a target prints goes to standard error, and what its children and its C code print too."""
    try:
        kept = os.dup(1)
    except OSError:  # closed before we started: there is nothing to keep
        yield
        return
    _flush()
    _lead_to_stderr(1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()  # what was printed by somebody who held on to the stream
        os.dup2(kept, 1)
        os.close(kept)


def _lead_to_stderr(fd: int) -> None:
    try:
        os.dup2(2, fd)
    except OSError:  # that one is closed
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, fd)
        os.close(nothing)


def _flush() -> None:
    if sys.stdout:
        sys.stdout.flush()
