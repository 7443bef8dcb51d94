"""Guards our children: ends them if we are killed, or if they use more memory than they may.

A small process outlives us by a moment and knows our children's process groups. One timer for each event
loop measures their memory.
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
    """Started with the first group it is told of."""

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
                self._tell(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                self._tell(b"-%d\n" % group)

    def check(self) -> None:
        """Start it anew if somebody has ended it."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._replace()

    def close(self) -> None:
        """Let it go. Groups that are left are ended by it."""
        with self._lock:
            self._groups.clear()
            self._leave()

    def forget(self) -> None:
        """In a copy of our process: the pipe and the groups belong to the original."""
        self._lock = threading.Lock()
        self._groups.clear()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.returncode = 0  # not our child
            self._process = None

    def _tell(self, line: bytes) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), line)
        except OSError:  # it is gone, or was stopped and reads no more
            self._replace()

    def _replace(self) -> None:
        logger.warning("the process that guards our children was ended; starting another")
        assert self._process is not None
        self._process.kill()
        self._leave()
        if self._groups:
            self._start()

    def _leave(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                # The last is for whoever looks at a list of processes.
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
            logger.warning("our children are not guarded: %s cannot be started (%s)", sys.executable, error)
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._tell(b"".join(b"+%d\n" % group for group in self._groups))


guardian = Guardian()
os.register_at_fork(after_in_child=guardian.forget)


PERIOD = 2.0

_watches: "WeakKeyDictionary[asyncio.AbstractEventLoop, MemoryWatch]" = WeakKeyDictionary()


def memory_watch() -> "MemoryWatch":
    """The one of the running loop."""
    loop = asyncio.get_running_loop()
    found = _watches.get(loop)
    if found is None:
        found = _watches[loop] = MemoryWatch()
    return found


class MemoryWatch:
    """Looks every other second while there is anything to look at."""

    def __init__(self) -> None:
        self._limits: dict[int, tuple[int, Callable[[str], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._counting = asyncio.Lock()
        self._counted_at = 0.0
        self._sessions: dict[int, list[ProcessEntry]] = {}

    def add(self, group: int, limit: int, on_over: Callable[[str], None]) -> None:
        """`on_over` is called with the reason when the group uses more than `limit` bytes."""
        self._limits[group] = (limit, on_over)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="toolyard memory watch")

    def remove(self, group: int) -> None:
        self._limits.pop(group, None)
        if not self._limits and self._task is not None:
            self._task.cancel()
            self._task = None

    async def census(self) -> dict[int, list[ProcessEntry]]:
        """Who is alive, by session. Many who ask at once share a count that began after they asked."""
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
            for group, (limit, on_over) in list(self._limits.items()):
                used = sum(memory for _, _, memory in sessions.get(group, ()))
                if used > limit:
                    on_over(f"used {format_size(used)} of memory, over its limit of {format_size(limit)}")
