"""Results in a local folder: the default store.

A result is two files, content and metadata. Unfinished content has another name, so it is never found.
Several gateways may share a folder: ids do not collide, and each gateway sweeps.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from ..file_access import explain, try_writing
from .quotas import QuotaReservation, Quotas
from .store import (
    Artifact,
    ArtifactStoreError,
    ArtifactStoreFullError,
    ArtifactStoreUnreachableError,
    NewId,
    ResultLinks,
    StoredArtifact,
    folder_of,
    is_id,
    iso,
    key_of,
    new_id,
    now,
)

_decode = msgspec.json.Decoder(Artifact).decode
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_TRIES = 3
_DAMAGED = (msgspec.DecodeError, UnicodeDecodeError)
UNFINISHED_SECONDS = 3600.0
GRACE_SECONDS = 120.0
"""How long an expired result stays for readers that opened it in time."""
COUNT_SECONDS = 5.0


class LocalArtifactStore:
    type = "local"

    def __init__(
        self, folder: Path, ttl: float, quota: int, links: ResultLinks, new_id: NewId = new_id
    ) -> None:
        self._folder = folder
        self._new_id = new_id
        self._ttl = ttl
        self._links = links
        self._quotas = Quotas(quota, self._usage, COUNT_SECONDS)

    async def start(self) -> None:
        await asyncio.to_thread(self._try, make_private)

    async def check(self) -> None:
        await asyncio.to_thread(self._try, try_writing)

    def _try(self, work: Callable[[Path], object]) -> None:
        try:
            work(self._folder)
        except OSError as error:
            raise failed(error, *explain(error, self._folder)) from None

    async def begin(self, tenant: str, tool: str, content_type: str) -> LocalWriter:
        reservation = await self._quotas.reserve(tenant)
        id = self._new_id(tool)
        created = now()
        artifact = Artifact(id, tenant, 0, content_type, tool, created, created + self._ttl)
        writer = LocalWriter(artifact, self._folder / key_of(tenant, id), reservation, self._done)
        await writer.create()
        return writer

    def _done(self, artifact: Artifact) -> StoredArtifact:
        url = self._links.make(artifact.tenant, artifact.id, artifact.expires)
        key = key_of(artifact.tenant, artifact.id)
        return StoredArtifact(artifact, self.type, key, url, expires_at=iso(artifact.expires))

    async def open(self, tenant: str, id: str) -> LocalReader | None:
        if not is_id(id):
            return None
        content = self._folder / key_of(tenant, id)
        artifact = await asyncio.to_thread(find_artifact, content, tenant)
        return None if artifact is None else LocalReader(artifact, content)

    async def _usage(self, tenant: str) -> int:
        return await asyncio.to_thread(self._count, self._folder / folder_of(tenant))

    def _count(self, folder: Path) -> int:
        self._sweep_tenant(folder)
        return sum(_stat(entry).st_size for entry in _entries(folder / "mcp") if entry.name.endswith(".json"))

    async def sweep(self) -> None:
        await asyncio.to_thread(self._sweep)
        self._quotas.invalidate()

    def _sweep(self) -> None:
        for tenant in _entries(self._folder):
            if tenant.is_dir(follow_symlinks=False):
                self._sweep_tenant(Path(tenant.path))
                _remove_empty(Path(tenant.path))

    def _sweep_tenant(self, folder: Path) -> None:
        for entry in _entries(folder / "mcp"):
            path = Path(entry.path)
            age = now() - _stat(entry).st_mtime
            if path.suffix == ".json" and is_id(path.stem):
                self._sweep_one(path, age)
            elif age > UNFINISHED_SECONDS and _is_left_over(path):
                remove(path)

    def _sweep_one(self, content: Path, age: float) -> None:
        # The metadata decides. It is read only if the file is old enough: there may be many.
        if age < self._ttl:
            return
        if now() >= expiry_of(content) + GRACE_SECONDS:
            remove(content)
            remove(metadata_path(content))

    async def close(self) -> None:
        await self._quotas.close()


class LocalWriter:
    """`done` is called when the artifact is stored, and adds its link."""

    def __init__(
        self,
        artifact: Artifact,
        path: Path,
        reservation: QuotaReservation,
        done: Callable[[Artifact], StoredArtifact],
    ) -> None:
        self._artifact = artifact
        self._path = path
        self._reservation = reservation
        self._done = done
        self._size = 0
        self._file: int | None = None
        self._finished = False
        # The thread of a cancelled caller may still write: the file must not be closed meanwhile.
        self._lock = threading.Lock()

    async def create(self) -> None:
        await asyncio.to_thread(self._create)

    def _create(self) -> None:
        try:
            for attempt in range(_TRIES):
                make_private(self._path.parent)
                try:
                    self._file = os.open(_unfinished_path(self._path), _NEW, 0o600)
                    return
                except FileNotFoundError:
                    # Another gateway has just removed the empty folder.
                    if attempt == _TRIES - 1:
                        raise
        except OSError as error:
            raise failed(error) from None

    async def write(self, piece: bytes) -> None:
        self._reservation.add(len(piece))
        await asyncio.to_thread(self._append, piece)
        self._size += len(piece)

    def _append(self, piece: bytes) -> None:
        with self._lock:
            if self._file is None:
                raise ArtifactStoreError("it has been discarded")
            try:
                left = memoryview(piece)
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError as error:
                self._remove()  # at once, because the disk may be full
                raise failed(error) from None

    async def finish(self) -> StoredArtifact:
        artifact = msgspec.structs.replace(self._artifact, size=self._size)
        await asyncio.to_thread(self._publish, artifact)
        self._finished = True
        self._reservation.commit()
        return self._done(artifact)

    def _publish(self, artifact: Artifact) -> None:
        with self._lock:
            if self._file is None:
                raise ArtifactStoreError("it has been discarded")
            self._close()
            about = metadata_path(self._path)
            draft = about.with_suffix(".draft")
            try:
                with open(os.open(draft, _NEW, 0o600), "wb") as file:
                    # The folder's name, because a tenant may have characters that cannot be encoded.
                    kept = msgspec.structs.replace(artifact, tenant=folder_of(artifact.tenant))
                    file.write(msgspec.json.encode(kept))
                os.replace(draft, about)
                os.replace(_unfinished_path(self._path), self._path)
            except OSError as error:
                self._remove()
                raise failed(error) from None

    async def discard(self) -> None:
        if not self._finished:
            self._reservation.release()
            await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        self._close()
        about = metadata_path(self._path)
        for path in (_unfinished_path(self._path), about.with_suffix(".draft"), self._path, about):
            remove(path)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class LocalReader:
    def __init__(self, artifact: Artifact, path: Path) -> None:
        self.artifact = artifact
        self._path = path

    async def read(self, start: int, length: int) -> bytes:
        return await asyncio.to_thread(read_range, self._path, start, length)

    async def path(self) -> Path:
        return self._path

    async def close(self) -> None:
        return None


def find_artifact(content: Path, tenant: str) -> Artifact | None:
    """The metadata of a result; None unless it is complete, the tenant's, and not expired."""
    try:
        artifact = _decode(metadata_path(content).read_bytes())
        whole = content.stat().st_size == artifact.size
    except (FileNotFoundError, NotADirectoryError, *_DAMAGED):
        return None
    except OSError as error:
        raise failed(error) from None
    if not whole or artifact.tenant != folder_of(tenant) or now() >= artifact.expires:
        return None
    return msgspec.structs.replace(artifact, tenant=tenant)


def expiry_of(content: Path) -> float:
    """When a result expires; 0 if its metadata is lost."""
    try:
        return _decode(metadata_path(content).read_bytes()).expires
    except (FileNotFoundError, *_DAMAGED):
        return 0.0
    except OSError:
        return math.inf  # unreadable now, which is no reason to remove it


def metadata_path(content: Path) -> Path:
    return content.with_suffix(".about")


def _unfinished_path(content: Path) -> Path:
    return content.with_suffix(".part")


def read_range(path: Path, start: int, length: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(length)
    except FileNotFoundError:
        raise ArtifactStoreError("it has expired meanwhile") from None
    except OSError as error:
        raise failed(error) from None


def make_private(folder: Path) -> None:
    """Like `mkdir -p`, with access for this user only."""
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    for path in reversed(missing):
        path.mkdir(0o700, exist_ok=True)


def remove(path: Path) -> None:
    with suppress(OSError):  # the next sweep tries again
        path.unlink(missing_ok=True)


def failed(error: OSError, details: str = "", hint: str = "") -> ArtifactStoreError:
    why = error.strerror or type(error).__name__
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ArtifactStoreFullError(f"the disk is full ({why})", details, hint)
    return ArtifactStoreUnreachableError(f"the folder of results cannot be used ({why})", details, hint)


_GONE = os.stat_result((0,) * 10)


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return _GONE  # another gateway removed it


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _is_left_over(path: Path) -> bool:
    """Whether the file belongs to a result that was never finished or has been removed."""
    return path.suffix in (".part", ".draft") or (
        path.suffix == ".about" and not path.with_suffix(".json").exists()
    )


def _remove_empty(tenant: Path) -> None:
    """Remove the folder if it is old; `rmdir` fails unless it is empty."""
    folder = tenant / "mcp"
    with suppress(OSError):
        if now() - folder.stat().st_mtime > UNFINISHED_SECONDS:
            folder.rmdir()
            tenant.rmdir()
