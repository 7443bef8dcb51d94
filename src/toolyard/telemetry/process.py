"""The process as Prometheus' client libraries show it: CPU, memory, start, descriptors.

Memory and descriptors come from /proc; where there is none they are left out rather than guessed.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from .exposition import Family

_SELF = Path("/proc/self")
_imported_at = time.time()


def families() -> Iterator[Family]:
    yield _one("process_cpu_seconds_total", "counter", "User and system CPU time spent.", time.process_time())
    yield _one("process_start_time_seconds", "gauge", "Start of the process since the epoch.", _started_at)
    try:
        sizes = (_SELF / "statm").read_text().split()
        descriptors = len(os.listdir(_SELF / "fd"))
    except OSError:
        return
    page = os.sysconf("SC_PAGE_SIZE")
    yield _one("process_virtual_memory_bytes", "gauge", "Virtual memory size.", int(sizes[0]) * page)
    yield _one("process_resident_memory_bytes", "gauge", "Resident memory size.", int(sizes[1]) * page)
    yield _one("process_open_fds", "gauge", "Open file descriptors.", descriptors)


def _one(name: str, kind: str, explained: str, value: float) -> Family:
    return Family(name, kind, explained, [("", "", value)])


def _start_time() -> float:
    """Since the epoch; the kernel counts it in ticks since the boot."""
    try:
        # The second field is the program's name in parentheses, which may hold anything.
        fields = (_SELF / "stat").read_text().rpartition(")")[2].split()
        boots = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")]
        return float(boots[0].split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return _imported_at


_started_at = _start_time()
