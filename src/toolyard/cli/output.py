"""Standard output, kept for the command's data while somebody else's code runs."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def stdout_kept_clean() -> Generator[None, None, None]:
    """What a target prints goes to standard error, and what its children and its C code print too."""
    for fd in (1, 2):
        _open(fd)
    _flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()  # what was printed by somebody who held on to the stream
        os.dup2(kept, 1)
        os.close(kept)


def _open(fd: int) -> None:
    """A stream that was closed before we started leads nowhere; its number must not go to another file."""
    try:
        os.fstat(fd)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != fd:
            os.dup2(nothing, fd)
            os.close(nothing)


def _flush() -> None:
    if sys.stdout:
        sys.stdout.flush()
