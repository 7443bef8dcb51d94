"""Child processes that do not outlive the run, however it ends."""

import contextlib
import subprocess
import threading
from collections.abc import Generator
from typing import Any

STOP_S = 15

_alive: set[subprocess.Popen[Any]] = set()
_lock = threading.Lock()
_closing = threading.Event()


class Interrupted(Exception):
    """The run is being ended; nothing new is started."""


@contextlib.contextmanager
def child(command: list[str], **options: Any) -> Generator[subprocess.Popen[Any]]:
    with _lock:
        if _closing.is_set():
            raise Interrupted
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        _alive.add(process)
    try:
        yield process
    finally:
        stop(process)
        with _lock:
            _alive.discard(process)


def stop(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def stop_all() -> None:
    """Whoever waits for one of them, in whatever thread, goes on at once."""
    _closing.set()
    with _lock:
        for process in _alive:
            process.terminate()
