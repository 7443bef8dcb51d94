"""Looking at processes from outside: who lives, who is a zombie, which descriptors are open."""

import os
import subprocess
import time
from collections.abc import Callable

from tests.waiting import PATIENCE


def everybody() -> dict[int, tuple[int, str]]:
    """All processes: their parent and the letter of their state."""
    if not os.path.exists("/proc/self/stat"):
        shown = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
        )
        rows = (line.split() for line in shown.stdout.splitlines())
        return {int(pid): (int(parent), state[0]) for pid, parent, state in rows}
    found = dict[int, tuple[int, str]]()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(name)] = (int(parent), state.decode())
    return found


def is_gone(pid: int) -> bool:
    return everybody().get(pid, (0, "Z"))[1] in "ZX"


def children() -> set[int]:
    """Our own children, zombies too."""
    return {pid for pid, (parent, _) in everybody().items() if parent == os.getpid()}


def open_files() -> list[str]:
    folder = "/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"
    return sorted(os.listdir(folder), key=int)


def until(true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait for something outside of this process, which has no way to tell us."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
