"""Process groups: lists their members and ends them.

A child leads a session and a group of the same number; "the group" here means all processes of that session.
Standard library only: run as a program, this file is the guardian's process, or an install's helper.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

PAGE = os.sysconf("SC_PAGE_SIZE")
HAS_PROC = sys.platform == "linux" and os.path.exists("/proc/self/stat")

GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.05
_SELECT_SECONDS = 0.5

ProcessEntry = tuple[int, int, int]
"""A living process: its number, its group and its resident memory in bytes."""


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if it does not exist or cannot be known."""
    fields = _stat(str(pid)) if HAS_PROC else None
    return None if fields is None else int(fields[19])


def census() -> dict[int, list[ProcessEntry]]:
    """List all living processes by session. Takes about 10 µs for each process of the machine."""
    sessions: dict[int, list[ProcessEntry]] = {}
    try:
        names = os.listdir("/proc") if HAS_PROC else []
    except OSError:  # no descriptor left
        names = []
    for name in names:
        fields = _stat(name) if name.isdigit() else None
        if fields is not None and fields[0] not in (b"Z", b"X"):
            entry = (int(name), int(fields[2]), int(fields[21]) * PAGE)
            sessions.setdefault(int(fields[3]), []).append(entry)
    return sessions


def _stat(pid: str) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the third on; the second, the name, may hold any character."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(fd, 4096)
    except OSError:  # it ended after the file was opened
        return None
    finally:
        os.close(fd)
    return line[line.rindex(b")") + 2 :].split()


def send(group: int, started: int | None, number: int, members: list[ProcessEntry] | None = None) -> None:
    """Signal a group, and those `members` of its session that moved to a group of their own.

    The system may reuse a group's number once the group is empty, so a leader that started at another time
    belongs to somebody else.
    """
    now = start_time(group)
    if now is not None and now != started:
        return
    _kill(os.killpg, group, number)
    for pid, its_group, _ in members or ():
        if its_group != group:
            _kill(os.kill, pid, number)


def is_alive(group: int) -> bool:
    """Whether the group has members. Where there is no /proc, zombies count as alive."""
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def reap(group: int, orphans: set[int]) -> None:
    """Reap the orphans of a child; they become children of this process only where it is process 1."""
    for pid in (-group, *orphans):
        with suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0]:
                pass


def _kill(kill: Callable[[int, int], None], target: int, number: int) -> None:
    with suppress(OSError):  # it has ended, or belongs to another user
        kill(target, number)


def end_all(groups: dict[int, int | None]) -> None:
    """Send SIGTERM, and SIGKILL to those left after a grace period."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        sessions = census()
        for group, started in groups.items():
            send(group, started, number, sessions.get(group))
        deadline = time.monotonic() + GRACE_SECONDS
        while _any_left(groups):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)


def _any_left(groups: dict[int, int | None]) -> bool:
    if HAS_PROC:
        sessions = census()
        return any(group in sessions for group in groups)
    return any(is_alive(group) for group in groups)


def guard(source: int) -> None:
    """Read `+GROUP` and `-GROUP` lines until the writer closes the pipe, then end the remaining groups."""
    groups: dict[int, int | None] = {}
    rest = b""
    while data := os.read(source, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line.startswith(b"+"):
                groups[group] = start_time(group)
            else:
                groups.pop(group, None)
    if groups:
        end_all(groups)


def finish_install(source: int, group: int, started: int | None, seconds: float, ends: list[int]) -> None:
    """Return on a message from `source`. If `source` closes without one, let the group finish its install.

    `ends` are its standard output and error, which are read so that it does not fail on a closed pipe. Its
    input is closed by then, so most programs end by themselves as soon as they run. A program that has
    answered and does not end is ended, and so is one that takes longer than `seconds`.
    """
    if os.read(source, 1):
        return
    output = ends[0]
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and _is_running(group, started):
        if not ends:
            time.sleep(_POLL_SECONDS)
            continue
        for end in select.select(ends, [], [], min(left, _SELECT_SECONDS))[0]:
            data = _read(end)
            if not data:
                ends.remove(end)
            elif end == output and data.lstrip().startswith(b"{"):
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
    end_all({group: started})


def _read(end: int) -> bytes:
    try:
        return os.read(end, 65536)
    except BlockingIOError:
        return b" "
    except OSError:
        return b""


def _is_running(group: int, started: int | None) -> bool:
    """Whether the leader of a group is alive."""
    if not HAS_PROC:
        return is_alive(group)
    fields = _stat(str(group))
    return fields is not None and int(fields[19]) == started and fields[0] not in (b"Z", b"X")


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    if "--finish-install" in sys.argv:
        number, since, limit, *outputs = map(int, sys.argv[2:])
        finish_install(0, number, since or None, limit, outputs)
    else:
        guard(0)
