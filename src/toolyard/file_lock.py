"""Locks between processes. The system ends a lock with the process that holds it, however that dies."""

import math
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None

_MADE = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_PAUSE = 0.01


@contextmanager
def locked(path: Path, *, patience: float = math.inf) -> Generator[None]:
    """Hold the lock of a file, which is made for this user if it is missing, or of a folder. Blocks.

    What is replaced by a rename needs a file beside it for its lock; that one is never removed. On a network
    file system the lock of a file holds for all machines, that of a folder for one. Raises BlockingIOError if
    another process still has the lock after `patience` seconds.
    """
    handle = os.open(path, os.O_RDONLY if path.is_dir() else _MADE, 0o600)
    try:
        deadline = time.monotonic() + patience
        while fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)
