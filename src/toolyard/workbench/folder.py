"""A workspace as the disk has it: how much code in a box has written there, which files, and whose they are.

Code in a box writes without asking, so its folder is looked through: below a handle, following no link.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator

from msgspec import Struct

from ..workspace import Workspace, WorkspaceError
from ..workspace.beneath import FOLDER, O_CLOEXEC, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, open_beneath
from ..workspace.errors import workspace_error

_LOOK = os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
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
    closed: str | None
    """A folder of the code's own that cannot be looked into, if there is one."""

    def changed_since(self, before: "Usage", most: int = 100) -> list[ChangedFile]:
        """Files that were written since, the newest first."""
        found = [
            (at, path, size)
            for path, (at, size) in self.seen.items()
            if before.seen.get(path, (0, 0))[0] != at
        ]
        return [ChangedFile(path, size) for _, path, size in sorted(found, reverse=True)[:most]]


class BoxFolder:
    """Methods block, and raise WorkspaceError."""

    def __init__(
        self, workspace: Workspace, limits: DiskLimits, uid: int | None, *, is_path_open: bool
    ) -> None:
        """`uid`: as whom code runs, if not as we do; `is_path_open`: it walks to the folder by its path."""
        self._workspace = workspace
        self._limits = limits
        self._uid = uid
        self._is_path_open = is_path_open
        self._open = open_beneath()

    def hand_over(self) -> None:
        """Gives what we wrote as root to the user that code runs as.

        By handles, since code may be renaming meanwhile. Left alone are a file with several names, as another
        may be outside, what is mounted there, and what is neither file nor folder.
        """
        if self._uid is not None:
            try:
                self._hand_over(self._uid)
            except OSError as error:
                raise workspace_error(error, ".") from None

    def _hand_over(self, uid: int) -> None:
        below = self._workspace.root.relative_to(self._workspace.base).parts
        with contextlib.ExitStack() as opened:
            top = folder = opened.enter_context(self._workspace.open_folder())
            for _ in below:
                folder = os.open("..", FOLDER, dir_fd=folder)
                opened.callback(os.close, folder)
                information = os.fstat(folder)
                # Where a box has mounts, its first process is root without powers: only root's is open to it.
                if self._is_path_open or information.st_uid != 0:
                    os.fchmod(folder, stat.S_IMODE(information.st_mode) | 0o011)
            os.fchown(top, uid, uid)
            mount = _mount_of(top)
            for folder, name, _, information in self._entries(mount):
                # In the configured folder itself, files of other users are theirs.
                if information.st_uid == 0 or (below and information.st_uid != uid):
                    _give(folder, name, information, uid, mount)

    def prepare(self) -> Usage:
        """Before a cell."""
        self.hand_over()
        return self.measure()

    def measure(self) -> Usage:
        size = files = 0
        seen: dict[str, tuple[int, int]] = {}
        closed: list[str] = []
        for _, _, path, information in self._entries(closed=closed):
            files += 1
            size += information.st_blocks * 512
            if stat.S_ISREG(information.st_mode) and not path.startswith(".") and "/." not in path:
                seen[path] = (information.st_ctime_ns, information.st_size)
            if files > 2 * self._limits.files:
                break
        return Usage(size, files, seen, closed[0] if closed else None)

    def excess(self, before: Usage, processes: list[int]) -> str | None:
        """What is too much, if code wrote more than it may since `before`, or cannot be looked at."""
        try:
            return self._excess(before, processes)
        except (OSError, WorkspaceError) as error:
            return str(error)

    def _excess(self, before: Usage, processes: list[int]) -> str | None:
        now = self.measure()
        if now.closed is not None:
            return f"{now.closed[:200]!r} cannot be looked into"
        with self._workspace.open_folder() as top:
            device, room = os.fstat(top).st_dev, os.fstatvfs(top)
        written = now.bytes + _deleted_bytes(processes, device)
        if written > max(self._limits.bytes, before.bytes):
            return f"{written} of {self._limits.bytes} bytes"
        if now.files > max(self._limits.files, before.files):
            return f"{now.files} of {self._limits.files} files"
        if now.bytes > before.bytes and room.f_bavail * room.f_frsize < FREE_BYTES:
            return "the disk is full"
        return None

    def _entries(
        self, mount: str | None = None, closed: list[str] | None = None
    ) -> Iterator[tuple[int, str, str, os.stat_result]]:
        """Handle of the folder, name, path and facts of everything below; of what is in `mount`, if given.

        `closed` takes what the code that runs here has closed to us.
        """
        own = os.geteuid() if self._uid is None else self._uid
        with contextlib.ExitStack() as opened:
            try:
                top = opened.enter_context(self._workspace.open_folder())
            except WorkspaceError:
                if closed is None:
                    raise
                closed.append(".")
                return
            waiting: list[tuple[list[str], int]] = [([], own)]
            while waiting:
                parts, owner = waiting.pop()
                try:
                    folder = self._open(top, parts, FOLDER, 0)
                    try:
                        if mount is None or _mount_of(folder) == mount:
                            yield from _listed(folder, parts, waiting)
                    finally:
                        os.close(folder)
                except OSError as error:
                    is_gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
                    if closed is not None and owner == own and not is_gone:
                        closed.append("/".join(parts))


def _listed(
    folder: int, parts: list[str], waiting: list[tuple[list[str], int]]
) -> Iterator[tuple[int, str, str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                information = entry.stat(follow_symlinks=False)
                path = "/".join([*parts, entry.name])
                yield folder, entry.name, path, information
                if entry.is_dir(follow_symlinks=False) and len(parts) < DEEPEST:
                    waiting.append(([*parts, entry.name], information.st_uid))


def _give(folder: int, name: str, seen: os.stat_result, uid: int, mount: str) -> None:
    if not _may_be_given(seen):
        return
    with contextlib.suppress(OSError):
        handle = os.open(name, _LOOK, dir_fd=folder)
        try:
            if _may_be_given(os.fstat(handle)) and _mount_of(handle) == mount:
                os.fchown(handle, uid, uid)
        finally:
            os.close(handle)


def _may_be_given(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)


def _mount_of(handle: int) -> str:
    """The mount that a file was opened in: two may be of one disk."""
    if sys.platform != "linux":
        return ""
    with open(f"/proc/self/fdinfo/{handle}") as facts:
        return next(line for line in facts if line.startswith("mnt_id:"))


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
