"""One result in a folder: being written, and being read.

A result is two files, its content and what is known of it. While it is written its content has another name,
so that what was interrupted is never found.
"""

import asyncio
import errno
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from .names import folder_of, now
from .quotas import Share
from .store import Artifact, Full, Stored, StoreError, Unreachable

_decode = msgspec.json.Decoder(Artifact).decode
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_TRIES = 3
_DAMAGED = (msgspec.DecodeError, UnicodeDecodeError)


class LocalWriting:
    """`done` is told when it is there, and says how it is reached."""

    def __init__(
        self, artifact: Artifact, path: Path, share: Share, done: Callable[[Artifact], Stored]
    ) -> None:
        self._artifact = artifact
        self._path = path
        self._share = share
        self._done = done
        self._size = 0
        self._file: int | None = None
        self._finished = False
        # A cancelled caller goes on while its thread still writes: nothing may close the file under it.
        self._lock = threading.Lock()

    async def create(self) -> None:
        await asyncio.to_thread(self._create)

    def _create(self) -> None:
        try:
            for attempt in range(_TRIES):
                make_private(self._path.parent)
                try:
                    self._file = os.open(_part(self._path), _NEW, 0o600)
                    return
                except FileNotFoundError:
                    # Its folder was empty, and another gateway has just swept it away.
                    if attempt == _TRIES - 1:
                        raise
        except OSError as error:
            raise failed(error) from None

    async def write(self, piece: bytes) -> None:
        self._share.take(len(piece))
        await asyncio.to_thread(self._append, piece)
        self._size += len(piece)

    def _append(self, piece: bytes) -> None:
        with self._lock:
            if self._file is None:
                raise StoreError("it was given up already")
            try:
                left = memoryview(piece)
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError as error:
                self._remove()  # at once: on a full disk every byte counts
                raise failed(error) from None

    async def finish(self) -> Stored:
        artifact = msgspec.structs.replace(self._artifact, size=self._size)
        await asyncio.to_thread(self._seal, artifact)
        self._finished = True
        self._share.keep()
        return self._done(artifact)

    def _seal(self, artifact: Artifact) -> None:
        with self._lock:
            if self._file is None:
                raise StoreError("it was given up already")
            self._close()
            about = about_of(self._path)
            draft = about.with_suffix(".draft")
            try:
                with open(os.open(draft, _NEW, 0o600), "wb") as file:
                    # By the name of its folder: a tenant may have letters that no file can hold.
                    kept = msgspec.structs.replace(artifact, tenant=folder_of(artifact.tenant))
                    file.write(msgspec.json.encode(kept))
                os.replace(draft, about)
                os.replace(_part(self._path), self._path)
            except OSError as error:
                self._remove()
                raise failed(error) from None

    async def discard(self) -> None:
        if not self._finished:
            self._share.give_back()
            await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        self._close()
        about = about_of(self._path)
        for path in (_part(self._path), about.with_suffix(".draft"), self._path, about):
            remove(path)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class LocalReading:
    def __init__(self, artifact: Artifact, path: Path) -> None:
        self.artifact = artifact
        self._path = path

    async def read(self, start: int, length: int) -> bytes:
        return await asyncio.to_thread(read_range, self._path, start, length)

    async def path(self) -> Path:
        return self._path

    async def close(self) -> None:
        return None


def find(content: Path, tenant: str) -> Artifact | None:
    """What is known of a result; None unless it is whole, the tenant's, and has time left."""
    try:
        artifact = _decode(about_of(content).read_bytes())
        whole = content.stat().st_size == artifact.size
    except (FileNotFoundError, NotADirectoryError, *_DAMAGED):
        return None
    except OSError as error:
        raise failed(error) from None
    if not whole or artifact.tenant != folder_of(tenant) or now() >= artifact.expires:
        return None
    return msgspec.structs.replace(artifact, tenant=tenant)


def expiry_of(content: Path) -> float:
    """When a result expires; long ago when nobody knows any more."""
    try:
        return _decode(about_of(content).read_bytes()).expires
    except (FileNotFoundError, *_DAMAGED):
        return 0.0
    except OSError:
        return math.inf  # it cannot be read now, which is no reason to remove it


def about_of(content: Path) -> Path:
    return content.with_suffix(".about")


def _part(content: Path) -> Path:
    return content.with_suffix(".part")


def read_range(path: Path, start: int, length: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(length)
    except FileNotFoundError:
        raise StoreError("it has expired in the meantime") from None
    except OSError as error:
        raise failed(error) from None


def make_private(folder: Path) -> None:
    """As `mkdir -p` does, and nobody else may look into what was made."""
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    for path in reversed(missing):
        path.mkdir(0o700, exist_ok=True)


def remove(path: Path) -> None:
    with suppress(OSError):  # whoever sweeps next tries again
        path.unlink(missing_ok=True)


def failed(error: OSError) -> StoreError:
    why = error.strerror or type(error).__name__
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Full(f"the disk is full ({why})")
    return Unreachable(f"the folder of results cannot be used ({why})")
