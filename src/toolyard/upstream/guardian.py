"""One small process that outlives us by a moment and ends our children, should we be killed.

It holds one end of a pipe and knows the process groups of our children; when our end closes, however that
came about, it ends those that are left. Its own death is noticed and it is started anew.
"""

import logging
import os
import subprocess
import sys
import threading

from . import groups

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
