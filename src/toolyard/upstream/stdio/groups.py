"""Process groups: who is in one, and ending it.

A child leads a session and a group of the same number; "the group" here is everybody in that session.
Standard library only: run as a program, this file is the guardian's process.
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
_LOOK_SECONDS = 0.5

ProcessEntry = tuple[int, int, int]
"""A living process: its number, its group and how many bytes of memory it has resident."""


def start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot; None when there is none, or no way to know."""
    fields = _stat(str(pid)) if HAS_PROC else None
    return None if fields is None else int(fields[19])


def census() -> dict[int, list[ProcessEntry]]:
    """All living processes by session. About 10 µs for each process of the machine."""
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


def send(group: int, started: int | None, number: int, members: list[ProcessEntry] | None = None) -> None:
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


def finish_install(source: int, group: int, started: int | None, seconds: float, ends: list[int]) -> None:
    """Wait for a word on `source`; when there is none any more, let the group go on to the end of its start.

    `ends` are its standard output and error, which are read so that it does not stumble over a closed pipe.
    Its input is closed by now, so most programs end by themselves as soon as they run; one that has answered
    and does not end is ended, and so is one that takes longer than `seconds`.
    """
    if os.read(source, 1):
        return
    output = ends[0]
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and _is_running(group, started):
        if not ends:
            time.sleep(_POLL_SECONDS)
            continue
        for end in select.select(ends, [], [], min(left, _LOOK_SECONDS))[0]:
            said = _read(end)
            if not said:
                ends.remove(end)
            elif end == output and said.lstrip().startswith(b"{"):
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
    """Whether the leader of a group is there and alive."""
    if not HAS_PROC:
        return is_alive(group)
    fields = _stat(str(group))
    return fields is not None and int(fields[19]) == started and fields[0] not in (b"Z", b"X")


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    if "--seeing-through" in sys.argv:
        number, since, limit, *outputs = map(int, sys.argv[2:])
        finish_install(0, number, since or None, limit, outputs)
    else:
        guard(0)
