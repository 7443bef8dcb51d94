"""Ends child processes when the gateway is killed, or when they exceed their memory limit.

A small process, the guardian, knows the children's process groups and outlives the gateway by a moment. One
timer for each event loop measures the children's memory.
"""

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ..messages.spool import format_size
from . import groups
from .groups import ProcessEntry

logger = logging.getLogger("toolyard.upstream")


class Guardian:
    """Starts its process with the first group that is added."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if self._process is None:
                self._start()
            else:
                self._send(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                self._send(b"-%d\n" % group)

    def check(self) -> None:
        """Start a new process if the old one was killed."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._replace()

    def close(self) -> None:
        """Close the pipe to the process, which then ends the remaining groups and exits."""
        with self._lock:
            self._groups.clear()
            self._disconnect()

    def forget(self) -> None:
        """Drop the pipe and the groups in a forked child: they belong to the parent."""
        self._lock = threading.Lock()
        self._groups.clear()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.returncode = 0  # not our child
            self._process = None

    def _send(self, line: bytes) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), line)
        except OSError:  # it has ended, or was stopped and does not read
            self._replace()

    def _replace(self) -> None:
        logger.warning("the guardian of the child processes was killed; starting another")
        assert self._process is not None
        self._process.kill()
        self._disconnect()
        if self._groups:
            self._start()

    def _disconnect(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                # The last argument explains the process in a list of processes.
                [sys.executable, "-I", "-S", groups.__file__, f"--guarding={os.getpid()}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            logger.warning(
                "child processes may outlive the gateway: the guardian %s cannot be started (%s)",
                sys.executable,
                error,
            )
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._send(b"".join(b"+%d\n" % group for group in self._groups))


guardian = Guardian()
os.register_at_fork(after_in_child=guardian.forget)


PERIOD = 2.0

_watches: "WeakKeyDictionary[asyncio.AbstractEventLoop, MemoryWatch]" = WeakKeyDictionary()


def memory_watch() -> "MemoryWatch":
    """Return the memory watch of the running loop."""
    loop = asyncio.get_running_loop()
    found = _watches.get(loop)
    if found is None:
        found = _watches[loop] = MemoryWatch()
    return found


class MemoryWatch:
    """Measures all groups every two seconds while there are any."""

    def __init__(self) -> None:
        self._limits: dict[int, tuple[int, Callable[[str], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._counting = asyncio.Lock()
        self._counted_at = 0.0
        self._sessions: dict[int, list[ProcessEntry]] = {}

    def add(self, group: int, limit: int, on_excess: Callable[[str], None]) -> None:
        """Call `on_excess` with the reason when the group uses more than `limit` bytes."""
        self._limits[group] = (limit, on_excess)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="toolyard memory watch")

    def remove(self, group: int) -> None:
        self._limits.pop(group, None)
        if not self._limits and self._task is not None:
            self._task.cancel()
            self._task = None

    async def census(self) -> dict[int, list[ProcessEntry]]:
        """List living processes by session. Concurrent callers share a count that began after they called."""
        asked = asyncio.get_running_loop().time()
        async with self._counting:
            if self._counted_at <= asked:
                began = asyncio.get_running_loop().time()
                self._sessions = await asyncio.to_thread(groups.census)
                self._counted_at = began
            return self._sessions

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            guardian.check()
            sessions = await self.census()
            for group, (limit, on_excess) in list(self._limits.items()):
                used = sum(memory for _, _, memory in sessions.get(group, ()))
                if used > limit:
                    on_excess(f"used {format_size(used)} of memory, over its limit of {format_size(limit)}")
