"""The files of the local workbench for servers that run no code: its home is the caller's workspace.

A box shows the workspace to its code as /home/user, so a file that is put there is in the workbench, whether
a box runs or not.
"""

import asyncio
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from ..wire.call import Caller
from ..workspace import Workspace, WorkspaceError, Workspaces
from .protocol import ErrorCode, WorkbenchError, WorkbenchFile

HOME = "/home/user"
_COPY_BYTES = 256 * 1024
_CODES: dict[str, ErrorCode] = {
    "missing": "missing",
    "not_a_file": "not_a_file",
    "not_a_folder": "not_a_file",
    "exists": "exists",
    "too_large": "too_large",
    "full": "full",
    "too_many": "full",
    "disk_full": "full",
    "denied": "denied",
    "no_folder": "unavailable",
    "no_place": "unavailable",
    "failed": "unavailable",
}


class FileWorkbench(Protocol):
    """The part of a `Workbench` that moves files."""

    async def read_file(
        self, path: str, into: BinaryIO, *, session: str | None = None, max_bytes: int | None = None
    ) -> WorkbenchFile: ...

    async def write_file(
        self, path: str, source: BinaryIO, *, session: str | None = None, overwrite: bool = True
    ) -> WorkbenchFile: ...


class FileWorkbenches(Protocol):
    def of(self, caller: Caller) -> FileWorkbench: ...

    async def close(self) -> None: ...


class LocalFiles:
    """Implements `FileWorkbenches`. Every session of a conversation has the same files."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    def of(self, caller: Caller) -> "LocalFileWorkbench":
        return LocalFileWorkbench(self._workspaces, caller)

    async def close(self) -> None:
        pass


class LocalFileWorkbench:
    def __init__(self, workspaces: Workspaces, caller: Caller) -> None:
        self._workspaces = workspaces
        self._caller = caller

    async def read_file(
        self, path: str, into: BinaryIO, *, session: str | None = None, max_bytes: int | None = None
    ) -> WorkbenchFile:
        return await asyncio.to_thread(self._read, path, into, max_bytes)

    def _read(self, path: str, into: BinaryIO, max_bytes: int | None) -> WorkbenchFile:
        with self._place(path) as (workspace, inside), workspace.open_read(inside) as file:
            size = os.fstat(file.fileno()).st_size
            if max_bytes is not None and size > max_bytes:
                raise WorkbenchError("too_large", f"larger than {max_bytes} bytes", path)
            shutil.copyfileobj(file, into, _COPY_BYTES)
            return WorkbenchFile(f"{HOME}/{workspace.relative(inside)}", size)

    async def write_file(
        self, path: str, source: BinaryIO, *, session: str | None = None, overwrite: bool = True
    ) -> WorkbenchFile:
        return await asyncio.to_thread(self._write, path, source, overwrite)

    def _write(self, path: str, source: BinaryIO, overwrite: bool) -> WorkbenchFile:
        with self._place(path) as (workspace, inside):
            if not overwrite and workspace.exists(inside):
                raise WorkbenchError("exists", "a file is there already", path)
            with workspace.create(inside) as file:
                shutil.copyfileobj(source, file, _COPY_BYTES)
            return WorkbenchFile(f"{HOME}/{workspace.relative(inside)}", workspace.stat(inside).size)

    @contextmanager
    def _place(self, path: str) -> Generator[tuple[Workspace, str]]:
        """The workspace, and a path of the workbench as one of the workspace."""
        inside = path.removeprefix(HOME + "/") if path != HOME else "."
        try:
            yield self._workspaces.of(self._caller), inside
        except WorkspaceError as error:
            raise WorkbenchError(_CODES.get(error.code, "outside"), str(error), path) from None
