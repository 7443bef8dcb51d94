"""How much a workspace holds, against its limits, and who is told of its changes.

Shared by every `Workspace` of this process that has the same folder: servers beside each other write into one
folder, and one of them may be listening. Other processes are seen when the folder is measured again.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal
from weakref import WeakValueDictionary

from msgspec import Struct

from .errors import WorkspaceError

logger = logging.getLogger("toolyard.workspace")

_FRESH_SECONDS = 2.0
_FRESH_FACTOR = 20
"""A folder that takes long to measure is measured less often: at most a twentieth of the time."""


class WorkspaceLimits(Struct, frozen=True, kw_only=True):
    """What one workspace may hold. Processes beside each other may pass a limit by what each is writing."""

    max_bytes: int = 4 * 1024**3
    """Bytes of all files together. A sparse file counts as long as it is."""
    max_files: int = 20_000
    """Files and folders together."""
    max_file_bytes: int = 1024**3
    """Bytes of one file that is written."""
    max_read_bytes: int = 64 * 1024**2
    """Bytes that `Workspace.read` returns at once."""


class WorkspaceChange(Struct, frozen=True):
    """A file or folder that was changed through a workspace."""

    path: str
    kind: Literal["created", "updated", "removed"]


ChangeListener = Callable[[WorkspaceChange], object]
Measure = Callable[[], tuple[int, int]]
"""Counts the bytes and the files of the folder."""


class FolderUsage:
    """The state of one folder in this process. Safe to use from several threads."""

    def __init__(self) -> None:
        # Held while the folder is measured, so that what is renamed meanwhile is counted once.
        self._lock = threading.RLock()
        self._bytes = 0
        self._files = 0
        self._reserved_bytes = 0
        self._reserved_files = 0
        self._measured_at: float | None = None
        self._took = 0.0
        self._listeners: list[ChangeListener] = []

    def reserve(self, path: str, size: int, files: int, limits: WorkspaceLimits, measure: Measure) -> None:
        """Reserves room for what is about to be written; raises WorkspaceError if there is none."""
        with self._lock:
            if not self._is_fresh():
                self._measure(measure)
            if self._reserve(size, files, limits) is None:
                return
            self._measure(measure)  # something may have been removed by others
            lacking = self._reserve(size, files, limits)
        if lacking == "full":
            raise WorkspaceError("full", path, limit=limits.max_bytes)
        if lacking == "too_many":
            raise WorkspaceError("too_many", path, limit=limits.max_files)

    def release(self, size: int, files: int) -> None:
        with self._lock:
            self._reserved_bytes -= size
            self._reserved_files -= files

    def commit(self, size: int, files: int, act: Callable[[], int | None]) -> int | None:
        """Does what room was reserved for, and counts it.

        `act` returns the size of the file that it replaced, or None; so does this.
        """
        with self._lock:
            replaced = act()
            self._reserved_bytes -= size
            self._reserved_files -= files
            self._bytes += size - (replaced or 0)
            self._files += replaced is None
            return replaced

    def forget(self) -> None:
        """Has the folder measured again before the next write."""
        self._measured_at = None

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def publish(self, change: WorkspaceChange) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(change)
            except Exception:  # a write has succeeded, whatever a listener makes of it
                logger.exception("a listener of a workspace failed")

    def _reserve(self, size: int, files: int, limits: WorkspaceLimits) -> Literal["full", "too_many"] | None:
        if size > 0 and self._bytes + self._reserved_bytes + size > limits.max_bytes:
            return "full"
        if files > 0 and self._files + self._reserved_files + files > limits.max_files:
            return "too_many"
        self._reserved_bytes += size
        self._reserved_files += files
        return None

    def _is_fresh(self) -> bool:
        if self._measured_at is None:
            return False
        return time.monotonic() - self._measured_at < max(_FRESH_SECONDS, self._took * _FRESH_FACTOR)

    def _measure(self, measure: Measure) -> None:
        begun = time.monotonic()
        self._bytes, self._files = measure()
        self._measured_at = time.monotonic()
        self._took = self._measured_at - begun


_known: WeakValueDictionary[tuple[int, int], FolderUsage] = WeakValueDictionary()
_known_lock = threading.Lock()


def usage_of(device: int, inode: int) -> FolderUsage:
    """The usage of the folder with this identity."""
    with _known_lock:
        found = _known.get((device, inode))
        if found is None:
            found = _known[device, inode] = FolderUsage()
        return found
