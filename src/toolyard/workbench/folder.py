"""A workspace as the disk has it: how much code in a box has written there, which files, and whose they are.

Code in a box writes without asking, so its folder is looked through: below a handle, following no link.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ..workspace import RESERVED
from ..workspace.beneath import FOLDER, open_beneath

DEEPEST = 64
FREE_BYTES = 256 * 1024**2
"""A cell that writes is stopped when the disk has less than this left."""


class DiskLimits(Struct, frozen=True, kw_only=True):
    bytes: int
    files: int


class ChangedFile(Struct, frozen=True):
    path: str
    size: int


class Usage(Struct, frozen=True):
    """What there is in a folder at some time."""

    bytes: int
    files: int
    seen: dict[str, tuple[int, int]]
    """Regular files that are not hidden, by path: when each was changed last, in nanoseconds, and its size.

    The kernel sets that time; no program can set it back.
    """

    def changed_since(self, before: "Usage", most: int = 100) -> list[ChangedFile]:
        """Files that were written since, the newest first."""
        found = [
            (at, path, size)
            for path, (at, size) in self.seen.items()
            if before.seen.get(path, (0, 0))[0] != at
        ]
        return [ChangedFile(path, size) for _, path, size in sorted(found, reverse=True)[:most]]


class BoxFolder:
    """Methods block. `home` is the folder as code in the box sees it."""

    def __init__(self, root: Path, limits: DiskLimits, uid: int | None, base: Path | None = None) -> None:
        """`base`: the folder from which on the way has to be open for `uid`; None: it needs no way."""
        self._root = root
        self._base = base
        self._limits = limits
        self._uid = uid
        self._open = open_beneath()

    def hand_over(self) -> None:
        """Gives what we wrote as root to the user that code runs as."""
        uid = self._uid
        if uid is None:
            return
        os.chown(self._root, uid, uid)
        if self._base is not None:
            for folder in [self._base, *self._root.parents]:
                if folder.is_relative_to(self._base):
                    folder.chmod(folder.stat().st_mode | 0o011)
        for folder, name, _, information in self._entries():
            if information.st_uid == 0:
                with contextlib.suppress(OSError):
                    os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)

    def prepare(self) -> Usage:
        """Before a cell."""
        self.hand_over()
        return self.measure()

    def measure(self) -> Usage:
        size = files = 0
        seen: dict[str, tuple[int, int]] = {}
        for _, _, path, information in self._entries():
            files += 1
            size += information.st_blocks * 512
            if stat.S_ISREG(information.st_mode) and not path.startswith(".") and "/." not in path:
                seen[path] = (information.st_ctime_ns, information.st_size)
            if files > 2 * self._limits.files:
                break
        return Usage(size, files, seen)

    def excess(self, before: Usage, processes: list[int]) -> str | None:
        """What is too much, if code wrote more than it may since `before`."""
        now = self.measure()
        written = now.bytes + _deleted_bytes(processes, self._root.stat().st_dev)
        if written > max(self._limits.bytes, before.bytes):
            return f"{written} of {self._limits.bytes} bytes"
        if now.files > max(self._limits.files, before.files):
            return f"{now.files} of {self._limits.files} files"
        room = os.statvfs(self._root)
        if now.bytes > before.bytes and room.f_bavail * room.f_frsize < FREE_BYTES:
            return "the disk is full"
        return None

    def _entries(self) -> Iterator[tuple[int, str, str, os.stat_result]]:
        """Handle of the folder, name, path and facts of everything below."""
        handle = os.open(self._root, FOLDER)
        try:
            waiting: list[list[str]] = [[]]
            while waiting:
                parts = waiting.pop()
                with contextlib.suppress(OSError):
                    folder = self._open(handle, parts, FOLDER, 0)
                    try:
                        yield from self._listed(folder, parts, waiting)
                    finally:
                        os.close(folder)
        finally:
            os.close(handle)

    def _listed(
        self, folder: int, parts: list[str], waiting: list[list[str]]
    ) -> Iterator[tuple[int, str, str, os.stat_result]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not parts and entry.name == RESERVED:
                    continue  # the workspaces of others
                with contextlib.suppress(FileNotFoundError):
                    information = entry.stat(follow_symlinks=False)
                    path = "/".join([*parts, entry.name])
                    yield folder, entry.name, path, information
                    if entry.is_dir(follow_symlinks=False) and len(parts) < DEEPEST:
                        waiting.append([*parts, entry.name])


def _deleted_bytes(processes: list[int], device: int) -> int:
    """What files take that have no name any more, and are open in one of these processes."""
    found: dict[int, int] = {}
    for pid in processes:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    information = os.stat(f"/proc/{pid}/fd/{number}")
                    if information.st_nlink == 0 and information.st_dev == device:
                        found[information.st_ino] = information.st_blocks * 512
    return sum(found.values())
