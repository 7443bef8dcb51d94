"""Local copies of remote results, for readers that need a file: a bounded LRU cache.

A copy in use is not removed. Closing the store removes all; copies of a killed process are removed a day
later.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ..local import failed, make_private, remove
from ..store import ArtifactStoreFullError, now

ORPHAN_SECONDS = 24 * 3600.0
IDLE_SECONDS = 3600.0
_NAME = "copies-"

Fill = Callable[[BinaryIO], Awaitable[None]]
"""Writes the whole content to a file."""


class _CachedFile:
    def __init__(self) -> None:
        self.size = 0
        """Bytes that count for the limit; 0 until it is downloaded."""
        self.users = 0
        self.used_at = 0.0
        self.lock = asyncio.Lock()


class ArtifactCache:
    def __init__(self, parent: Path, limit: int) -> None:
        self._parent = parent
        self._limit = limit
        self._folder: Path | None = None
        self._folder_lock = asyncio.Lock()
        self._copies: dict[str, _CachedFile] = {}
        """In order of use, the last used one last."""

    async def acquire(self, id: str, size: int, fill: Fill) -> Path:
        """A file with the whole content, which exists until `release`."""
        copy = self._copies.pop(id, None) or _CachedFile()
        self._copies[id] = copy
        copy.users += 1
        try:
            async with copy.lock:
                path = await self._cache_folder() / id
                if not path.exists():
                    await self._download(path, copy, size, fill)
            return path
        except BaseException as error:
            self.release(id)
            if isinstance(error, OSError):
                raise failed(error) from None
            raise

    def acquire_cached(self, id: str) -> Path | None:
        """As `acquire`, but only if the copy exists already."""
        copy = self._copies.get(id)
        if copy is None or self._folder is None or not (self._folder / id).exists():
            return None
        copy.users += 1
        self._copies[id] = self._copies.pop(id)
        return self._folder / id

    async def _download(self, path: Path, copy: _CachedFile, size: int, fill: Fill) -> None:
        copy.size = 0
        self._make_room(size)
        copy.size = size
        try:
            await self._write(path, fill)
        except BaseException:
            copy.size = 0
            raise

    async def _write(self, path: Path, fill: Fill) -> None:
        part = path.with_suffix(".part")
        try:
            descriptor = await asyncio.to_thread(os.open, part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                await fill(file)
            os.replace(part, path)
        except BaseException:
            remove(part)
            raise

    def release(self, id: str) -> None:
        copy = self._copies.get(id)
        if copy is not None:
            copy.users -= 1
            copy.used_at = now()
            if not copy.users and not copy.size:
                del self._copies[id]
            self._shrink(self._limit)

    def _make_room(self, size: int) -> None:
        if self._shrink(self._limit - size) + size > self._limit:
            raise ArtifactStoreFullError(
                f"copies in use take all of the {self._limit} bytes for local copies"
            )

    def _shrink(self, limit: int) -> int:
        """Remove unused copies, least recently used first, down to the limit; returns the bytes left."""
        total = sum(copy.size for copy in self._copies.values())
        for id, copy in list(self._copies.items()):
            if total <= limit:
                break
            if not copy.users:
                self._drop(id)
                total -= copy.size
        return total

    def _drop(self, id: str) -> None:
        del self._copies[id]
        if self._folder is not None:
            remove(self._folder / id)

    async def _cache_folder(self) -> Path:
        async with self._folder_lock:
            if self._folder is None:
                self._folder = await asyncio.to_thread(_new_folder, self._parent)
            return self._folder

    def sweep(self) -> None:
        """Remove idle copies, and touch the folder so that other processes do not remove it."""
        for id, copy in list(self._copies.items()):
            if not copy.users and now() - copy.used_at > IDLE_SECONDS:
                self._drop(id)
        if self._folder is not None and self._folder.exists():
            os.utime(self._folder)

    async def close(self) -> None:
        folder, self._folder = self._folder, None
        self._copies.clear()
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, True)


def _new_folder(parent: Path) -> Path:
    make_private(parent)
    for folder in parent.glob(f"{_NAME}*"):
        with suppress(OSError):
            if now() - folder.stat().st_mtime > ORPHAN_SECONDS:
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=_NAME, dir=parent))
