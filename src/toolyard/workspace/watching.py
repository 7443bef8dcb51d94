"""Watches workspaces for changes by anybody: other programs, other processes, or a person.

Uses Linux's inotify, which costs nothing while nothing happens; elsewhere looks at the files every few
seconds. Runs on the event loop that calls `watch`.
"""

import asyncio
import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

from .errors import WorkspaceError
from .names import unfit_name
from .workspace import Workspace

MAX_FOLDERS = 4096
"""Folders that are watched at most; changes in further ones are not noticed."""
MAX_WORKSPACES = 256
"""Workspaces that are watched at most; then the one that was asked for longest ago is dropped."""
LOOK_SECONDS = 2.0
MAX_REPORTED = 256
"""Files of a new folder that are reported one by one; of more it is said that anything may have changed."""

_EVENT = struct.Struct("iIII")
_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x4000_0000
_ONLY_FOLDERS = 0x0100_0000
_MASK = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS

Changed = Callable[[Workspace, str], object]
"""Called with the path of a file that was written, renamed or removed; `.` if anything may have changed."""
_Snapshot = dict[str, tuple[float, int]]


@cache
def _library() -> Any:
    """The C library, if it has inotify and a handle can be named by a path."""
    if sys.platform != "linux" or not os.path.isdir("/proc/self/fd"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "inotify_init1") else None


class WorkspaceWatcher:
    """Watches whole workspaces. A change may be reported more than once."""

    def __init__(self, changed: Changed, *, use_inotify: bool = True) -> None:
        self._changed = changed
        self._library: Any = _library() if use_inotify else None
        self._handle: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folders: dict[int, tuple[Workspace, str]] = {}
        self._workspaces: dict[str, Workspace] = {}
        self._looking: asyncio.Task[None] | None = None
        self._new: dict[tuple[str, str], Workspace] = {}
        """Folders that appeared and were not looked into yet, by root and path."""
        self._scanning: asyncio.Task[None] | None = None

    @property
    def is_immediate(self) -> bool:
        """Whether changes are reported as they happen, and not only when the files are looked at."""
        return self._library is not None

    def watch(self, workspace: Workspace) -> None:
        root = str(workspace.root)
        known = self._workspaces.pop(root, None)
        self._workspaces[root] = workspace
        if known is workspace:
            return
        if len(self._workspaces) > MAX_WORKSPACES:
            self._drop(next(iter(self._workspaces)))
        self._loop = asyncio.get_running_loop()
        if self._library is not None and self._start():
            self._add(workspace, ".")
        elif self._looking is None:
            self._looking = asyncio.create_task(self._look())

    def _drop(self, root: str) -> None:
        dropped = self._workspaces.pop(root)
        for number in [number for number, known in list(self._folders.items()) if known[0] is dropped]:
            del self._folders[number]
            self._library.inotify_rm_watch(self._handle, number)

    def close(self) -> None:
        """Ends all watching; `watch` begins again."""
        self._workspaces.clear()
        self._folders.clear()
        self._new.clear()
        for task in (self._looking, self._scanning):
            if task is not None:
                task.cancel()
        self._looking = self._scanning = None
        if self._handle is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    # By inotify.

    def _start(self) -> bool:
        if self._handle is None:
            handle = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if handle < 0:  # the user has too many of them
                self._library = None
                return False
            assert self._loop is not None
            self._handle = handle
            self._loop.add_reader(handle, self._read)
        return True

    def _add(self, workspace: Workspace, folder: str) -> None:
        """Watches a folder and those below it."""
        waiting, watches = [folder], self._handle
        while waiting and watches is not None and len(self._folders) < MAX_FOLDERS:
            current = waiting.pop()
            with contextlib.suppress(WorkspaceError):
                with workspace.open_folder(current) as handle:
                    path = f"/proc/self/fd/{handle}".encode()
                    number = self._library.inotify_add_watch(watches, path, _MASK)
                if number >= 0:
                    self._folders[number] = (workspace, current)
                waiting += [entry.path for entry in workspace.list(current) if entry.kind == "folder"]

    def _read(self) -> None:
        if self._handle is None:
            return
        try:
            data = os.read(self._handle, 65536)
        except (BlockingIOError, InterruptedError):
            return
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length
            self._happened(number, mask, name)

    def _happened(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            for workspace in list(self._workspaces.values()):
                self._changed(workspace, ".")
            return
        if mask & _IGNORED:
            self._folders.pop(number, None)
            return
        known = self._folders.get(number)
        if known is None or not name or unfit_name(name) is not None:
            return
        workspace, folder = known
        path = name if folder == "." else f"{folder}/{name}"
        if not mask & _IS_FOLDER:
            if not mask & _CREATE:  # it is reported when it is written
                self._changed(workspace, path)
            return
        if mask & (_CREATE | _MOVED_TO):
            self._new[str(workspace.root), path] = workspace
            if self._scanning is None:
                self._scanning = asyncio.create_task(self._scan_new())
        self._changed(workspace, path)

    async def _scan_new(self) -> None:
        """Looks into new folders in a thread, each once however often it was renamed meanwhile."""
        while self._new:
            (_, folder), workspace = self._new.popitem()
            files = await asyncio.to_thread(self._scan, workspace, folder)
            for path in files if len(files) <= MAX_REPORTED else ["."]:
                self._changed(workspace, path)
        self._scanning = None

    def _scan(self, workspace: Workspace, folder: str) -> list[str]:
        """Watches a new folder; returns its files, which may have been written before."""
        self._add(workspace, folder)
        try:
            found = (entry.path for entry in workspace.walk(folder) if entry.kind == "file")
            return list(islice(found, MAX_REPORTED + 1))
        except WorkspaceError:  # it is gone already
            return []

    # By looking.

    async def _look(self) -> None:
        seen: dict[str, _Snapshot] = {}
        while self._workspaces:
            for root, workspace in list(self._workspaces.items()):
                now = await asyncio.to_thread(_snapshot, workspace)
                before = seen.get(root)
                seen[root] = now
                for path in sorted(now.keys() | (before or now).keys()):
                    if before is not None and now.get(path) != before.get(path):
                        self._changed(workspace, path)
            await asyncio.sleep(LOOK_SECONDS)


def _snapshot(workspace: Workspace) -> _Snapshot:
    try:
        return {
            entry.path: (entry.modified, entry.size) for entry in workspace.walk() if entry.kind == "file"
        }
    except WorkspaceError:  # the folder is gone
        return {}
