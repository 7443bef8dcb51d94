"""Processes under test: their start and end, and their CPU and memory by the kernel.

Owns every figure that is read from the kernel. A peer may be several processes, so a figure is
taken either of one process or of it and all its descendants.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
START_LIMIT_S = 30.0
END_LIMIT_S = 5.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# In /proc/<pid>/stat, counted after the name in parentheses, which may hold spaces itself.
_PARENT, _WAITED_USER, _WAITED_SYSTEM = 1, 13, 14


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """User and system CPU of a whole process so far, to the nanosecond.

    `/proc/<pid>/stat` counts in ticks of 10 ms, a few percent of a round. Linux also gives every
    process a clock; its id is made from the pid as in `clock_getcpuclockid(3)`.
    """
    return time.clock_gettime((~pid << 3) | 2)


def tree(pid: int) -> list[int]:
    """A process and all its living descendants."""
    parents = {int(entry): _stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    found = [pid]
    for known in found:  # grows while it is walked
        found += [child for child, stat in parents.items() if stat and int(stat[_PARENT]) == known]
    return found


def tree_cpu_seconds(pid: int) -> float:
    """CPU of the whole tree; a child that ended lives on in what its parent waited for."""
    total = 0.0
    for member in tree(pid):
        with suppress(OSError):  # it ended meanwhile
            total += cpu_seconds(member)
            if stat := _stat(member):
                total += (int(stat[_WAITED_USER]) + int(stat[_WAITED_SYSTEM])) * _TICK_S
    return total


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return []


def private_bytes(pid: int) -> int:
    """Memory that belongs to this process alone: what would be free if it ended."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def resident_bytes(pid: int) -> int:
    return _status(pid, "VmRSS")


def tree_resident_bytes(pid: int) -> int:
    total = 0
    for member in tree(pid):
        with suppress(OSError, StopIteration):  # it ended meanwhile
            total += resident_bytes(member)
    return total


def peak_bytes(pid: int) -> int:
    """The most that was resident since the start, or since `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _status(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    found = next(line for line in lines if line.startswith(f"{field}:"))
    return int(found.split()[1]) * 1024


class Process:
    """A running server: its port and process."""

    def __init__(self, name: str, port: int, popen: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.port = port
        self.pid = popen.pid
        self._popen = popen

    def wait_until_listening(self, limit_s: float = START_LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"server '{self.name}' did not listen within {limit_s:.0f} s")

    def check_alive(self) -> None:
        if self._popen.poll() is not None:
            raise RuntimeError(f"server '{self.name}' ended at start with code {self._popen.returncode}")

    def end(self) -> None:
        """Ends it and all its descendants: a child may have left its session and process group."""
        members = tree(self.pid)
        self._popen.terminate()
        try:
            self._popen.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        for member in members[1:]:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    port: int,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    log: Path | None = None,
    limit_s: float = START_LIMIT_S,
) -> Generator[Process, None, None]:
    """Starts `command` and waits until it listens; ends it after the block.

    Its output goes into `log`, or to our own streams.
    """
    # A session of its own: Ctrl-C reaches only the benchmark, which then ends its servers in order.
    output = log.open("wb") if log else None
    process = Process(
        name,
        port,
        subprocess.Popen(
            list(command),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        ),
    )
    try:
        try:
            process.wait_until_listening(limit_s)
        except RuntimeError as error:
            raise RuntimeError(f"{error}{_last_words(log)}") from None
        yield process
    finally:
        process.end()
        if output:
            output.close()


def _last_words(log: Path | None) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log else []
    said = [line.strip() for line in lines if line.strip()]
    return f"; it said: {said[-1]}" if said else ""
