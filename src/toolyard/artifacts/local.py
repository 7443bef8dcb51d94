"""Results in a folder of this machine: the default, and enough for one.

An object is two files, its content and what is known of it. It counts once the second is there, so that
one that was interrupted is never found, and is swept away.
"""

import asyncio
import errno
import os
from pathlib import Path

import msgspec

from .links import Links
from .names import folder_of, is_id, iso, key_of, new_id, now
from .store import Artifact, Full, Stored, StoreError, Unreachable

UNFINISHED_SECONDS = 3600.0
_decode = msgspec.json.Decoder(Artifact).decode


class LocalStore:
    type = "local"

    def __init__(self, folder: Path, ttl: float, quota: int, links: Links) -> None:
        self._folder = folder
        self._ttl = ttl
        self._quota = quota
        self._links = links
        self._used: dict[str, int] = {}
        """Bytes that each tenant has, as far as they were counted."""

    async def start(self) -> None:
        await asyncio.to_thread(self._folder.mkdir, 0o700, True, True)

    async def begin(self, tenant: str, tool: str, content_type: str) -> "LocalWriting":
        used = await self._usage(tenant)
        if used >= self._quota:
            raise Full(f"the {used} bytes that are kept already are the quota of {self._quota}")
        id = new_id()
        created = now()
        artifact = Artifact(id, tenant, 0, content_type, tool, created, created + self._ttl)
        writing = LocalWriting(self, artifact, self._folder / key_of(tenant, id), self._quota - used)
        await asyncio.to_thread(writing.create)
        return writing

    def done(self, artifact: Artifact) -> Stored:
        self._used[artifact.tenant] = self._used.get(artifact.tenant, 0) + artifact.size
        url = self._links.make(artifact.tenant, artifact.id, artifact.expires)
        key = key_of(artifact.tenant, artifact.id)
        return Stored(artifact, self.type, key, url, expires_at=iso(artifact.expires))

    async def open(self, tenant: str, id: str) -> "LocalReading | None":
        if not is_id(id):
            return None
        content = self._folder / key_of(tenant, id)
        try:
            artifact = _decode(await asyncio.to_thread(_about(content).read_bytes))
        except (OSError, msgspec.DecodeError):
            return None
        if artifact.tenant != tenant or now() >= artifact.expires:
            return None
        return LocalReading(artifact, content)

    async def _usage(self, tenant: str) -> int:
        if tenant not in self._used:
            self._used[tenant] = await asyncio.to_thread(self._counted, tenant)
        return self._used[tenant]

    def _counted(self, tenant: str) -> int:
        folder = self._folder / folder_of(tenant) / "mcp"
        return sum(file.stat().st_size for file in folder.glob("*.json")) if folder.is_dir() else 0

    async def sweep(self) -> None:
        await asyncio.to_thread(self._sweep)
        self._used.clear()

    def _sweep(self) -> None:
        if not self._folder.is_dir():
            return
        for content in self._folder.glob("*/mcp/*.json"):
            about = _about(content)
            try:
                expires = _decode(about.read_bytes()).expires
            except (OSError, msgspec.DecodeError):
                expires = _mtime(content) + UNFINISHED_SECONDS
            if now() >= expires:
                about.unlink(missing_ok=True)
                content.unlink(missing_ok=True)

    async def close(self) -> None:
        return None


class LocalWriting:
    def __init__(self, store: LocalStore, artifact: Artifact, path: Path, room: int) -> None:
        self._store = store
        self._artifact = artifact
        self._path = path
        self._room = room
        self._size = 0
        self._file: int | None = None

    def create(self) -> None:
        try:
            self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise _failed(error) from None

    async def write(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._room:
            raise Full(f"it would take more than the {self._room} bytes that are left of the quota")
        await asyncio.to_thread(self._append, piece)

    def _append(self, piece: bytes) -> None:
        if self._file is None:
            raise StoreError("it was discarded already")
        try:
            left = memoryview(piece)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise _failed(error) from None

    async def finish(self) -> Stored:
        artifact = msgspec.structs.replace(self._artifact, size=self._size)
        await asyncio.to_thread(self._seal, artifact)
        return self._store.done(artifact)

    def _seal(self, artifact: Artifact) -> None:
        self._close()
        about = _about(self._path)
        draft = about.with_suffix(".draft")
        try:
            draft.write_bytes(msgspec.json.encode(artifact))
            os.replace(draft, about)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise _failed(error) from None

    async def discard(self) -> None:
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        self._close()
        self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class LocalReading:
    def __init__(self, artifact: Artifact, path: Path) -> None:
        self.artifact = artifact
        self._path = path

    async def read(self, start: int, length: int) -> bytes:
        return await asyncio.to_thread(self._read, start, length)

    def _read(self, start: int, length: int) -> bytes:
        try:
            with open(self._path, "rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            raise _failed(error) from None

    async def path(self) -> Path:
        return self._path

    async def close(self) -> None:
        return None


def _about(content: Path) -> Path:
    return content.with_suffix(".about")


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _failed(error: OSError) -> StoreError:
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Full(f"the disk is full ({why})")
    return Unreachable(f"the folder of results cannot be used ({why})")
