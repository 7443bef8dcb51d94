"""Process groups: who is in one, and ending it.

A child of ours leads a session, and in it a group of the same number. What it starts stays in the session
unless it wants to be a daemon, so "the group" here is everybody of that session.

Standard library only, and little of that: run as a program, this file is the guardian's process.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

PAGE = os.sysconf("SC_PAGE_SIZE")
HAS_PROC = sys.platform == "linux" and os.path.exists("/proc/self/stat")

GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.05

Entry = tuple[int, int, int]
"""A living process: its number, its group and how many bytes of memory it has resident."""


def start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot; None when there is none, or no way to know."""
    fields = _stat(str(pid)) if HAS_PROC else None
    return None if fields is None else int(fields[19])


def census() -> dict[int, list[Entry]]:
    """All living processes by session. About 10 µs for each process of the machine."""
    sessions: dict[int, list[Entry]] = {}
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
    """Fields of /proc/PID/stat from the third on: the second, the name, may have anything in it."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(fd, 4096)
    except OSError:  # it ended between the two
        return None
    finally:
        os.close(fd)
    return line[line.rindex(b")") + 2 :].split()


def send(group: int, started: int | None, number: int, members: list[Entry] | None = None) -> None:
    """Signal a group of ours, and those `members` of its session that have left it for one of their own.

    A number is free for others once nobody of the group is left, so a leader who started at another time
    is a stranger.
    """
    now = start_time(group)
    if now is not None and now != started:
        return
    _kill(os.killpg, group, number)
    for pid, its_group, _ in members or ():
        if its_group != group:
            _kill(os.kill, pid, number)


def is_alive(group: int) -> bool:
    """Whether anybody is in it. Where there is no /proc, zombies count as alive."""
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def reap(group: int, orphans: set[int]) -> None:
    """Orphans of a child that was reaped are ours where we are process 1; elsewhere there are none."""
    for pid in (-group, *orphans):
        with suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0]:
                pass


def _kill(kill: Callable[[int, int], None], target: int, number: int) -> None:
    with suppress(OSError):  # gone, or of another user and not ours to end
        kill(target, number)


def end_all(groups: dict[int, int | None]) -> None:
    """Ask them to go, and make them after a moment."""
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        sessions = census()
        for group, started in groups.items():
            send(group, started, number, sessions.get(group))
        deadline = time.monotonic() + patience
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
    """Read `+GROUP` and `-GROUP` lines until whoever writes them is gone, then end the groups left."""
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


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    guard(0)
