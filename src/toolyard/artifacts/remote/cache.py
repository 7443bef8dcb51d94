"""Local copies of remote results, for readers that need a file: a bounded LRU cache.

A copy in use stays. All go when the store closes; what a killed process left is removed a day later.
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

LEFT_BEHIND_SECONDS = 24 * 3600.0
IDLE_SECONDS = 3600.0
_NAME = "copies-"

Fill = Callable[[BinaryIO], Awaitable[None]]
"""Writes the whole content to a file."""


class _CachedFile:
    def __init__(self) -> None:
        self.size = 0
        """What it takes of the limit; nothing until it is fetched."""
        self.users = 0
        self.used = 0.0
        self.lock = asyncio.Lock()


class ArtifactCache:
    def __init__(self, parent: Path, limit: int) -> None:
        self._parent = parent
        self._limit = limit
        self._folder: Path | None = None
        self._placing = asyncio.Lock()
        self._copies: dict[str, _CachedFile] = {}
        """The last used one is the last."""

    async def borrow(self, id: str, size: int, fill: Fill) -> Path:
        """A file with the whole content, which stays until it is given back."""
        copy = self._copies.pop(id, None) or _CachedFile()
        self._copies[id] = copy
        copy.users += 1
        try:
            async with copy.lock:
                path = await self._place() / id
                if not path.exists():
                    await self._fetched(path, copy, size, fill)
            return path
        except BaseException as error:
            self.give_back(id)
            if isinstance(error, OSError):
                raise failed(error) from None
            raise

    def held(self, id: str) -> Path | None:
        """The file, borrowed as well, when it is here already."""
        copy = self._copies.get(id)
        if copy is None or self._folder is None or not (self._folder / id).exists():
            return None
        copy.users += 1
        self._copies[id] = self._copies.pop(id)
        return self._folder / id

    async def _fetched(self, path: Path, copy: _CachedFile, size: int, fill: Fill) -> None:
        copy.size = 0
        self._make_room(size)
        copy.size = size
        try:
            await self._filled(path, fill)
        except BaseException:
            copy.size = 0
            raise

    async def _filled(self, path: Path, fill: Fill) -> None:
        part = path.with_suffix(".part")
        try:
            descriptor = await asyncio.to_thread(os.open, part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                await fill(file)
            os.replace(part, path)
        except BaseException:
            remove(part)
            raise

    def give_back(self, id: str) -> None:
        copy = self._copies.get(id)
        if copy is not None:
            copy.users -= 1
            copy.used = now()
            if not copy.users and not copy.size:
                del self._copies[id]
            self._shrink(self._limit)

    def _make_room(self, size: int) -> None:
        if self._shrink(self._limit - size) + size > self._limit:
            raise ArtifactStoreFullError(
                f"what is being read now takes all of the {self._limit} bytes for local copies"
            )

    def _shrink(self, limit: int) -> int:
        """Remove copies that nobody uses, the longest unused first, until they take so little."""
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

    async def _place(self) -> Path:
        async with self._placing:
            if self._folder is None:
                self._folder = await asyncio.to_thread(_new_folder, self._parent)
            return self._folder

    def tidy(self) -> None:
        """Remove what nobody has asked for in a while, and show that somebody is still here."""
        for id, copy in list(self._copies.items()):
            if not copy.users and now() - copy.used > IDLE_SECONDS:
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
            if now() - folder.stat().st_mtime > LEFT_BEHIND_SECONDS:
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=_NAME, dir=parent))
