"""Results in a folder of this machine: the default, and enough for one.

Several gateways may share a folder: ids never meet, what is half written is nobody's, and each sweeps.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .files import LocalReading, LocalWriting, about_of, expiry_of, failed, find, make_private, remove
from .links import Links
from .names import folder_of, is_id, iso, key_of, new_id, now
from .quotas import Quotas
from .store import Artifact, Stored

UNFINISHED_SECONDS = 3600.0
GRACE_SECONDS = 120.0
"""How long an expired result stays, for whoever opened it in time."""
COUNT_SECONDS = 5.0


class LocalStore:
    type = "local"

    def __init__(self, folder: Path, ttl: float, quota: int, links: Links) -> None:
        self._folder = folder
        self._ttl = ttl
        self._links = links
        self._quotas = Quotas(quota, self._usage, COUNT_SECONDS)

    async def start(self) -> None:
        try:
            await asyncio.to_thread(make_private, self._folder)
        except OSError as error:
            raise failed(error) from None

    async def begin(self, tenant: str, tool: str, content_type: str) -> LocalWriting:
        share = await self._quotas.share(tenant)
        id = new_id()
        created = now()
        artifact = Artifact(id, tenant, 0, content_type, tool, created, created + self._ttl)
        writing = LocalWriting(artifact, self._folder / key_of(tenant, id), share, self._done)
        await writing.create()
        return writing

    def _done(self, artifact: Artifact) -> Stored:
        url = self._links.make(artifact.tenant, artifact.id, artifact.expires)
        key = key_of(artifact.tenant, artifact.id)
        return Stored(artifact, self.type, key, url, expires_at=iso(artifact.expires))

    async def open(self, tenant: str, id: str) -> LocalReading | None:
        if not is_id(id):
            return None
        content = self._folder / key_of(tenant, id)
        artifact = await asyncio.to_thread(find, content, tenant)
        return None if artifact is None else LocalReading(artifact, content)

    async def _usage(self, tenant: str) -> int:
        return await asyncio.to_thread(self._counted, self._folder / folder_of(tenant))

    def _counted(self, folder: Path) -> int:
        self._sweep_tenant(folder)
        return sum(_stat(entry).st_size for entry in _entries(folder / "mcp") if entry.name.endswith(".json"))

    async def sweep(self) -> None:
        await asyncio.to_thread(self._sweep)
        self._quotas.forget()

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
        # Its own word decides, and that is only asked for when it can be time: there may be many.
        if age < self._ttl:
            return
        if now() >= expiry_of(content) + GRACE_SECONDS:
            remove(content)
            remove(about_of(content))

    async def close(self) -> None:
        await self._quotas.close()


_GONE = os.stat_result((0,) * 10)


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return _GONE  # another gateway was quicker


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return


def _is_left_over(path: Path) -> bool:
    """Whether it is of a result that was never finished, or is gone."""
    return path.suffix in (".part", ".draft") or (
        path.suffix == ".about" and not path.with_suffix(".json").exists()
    )


def _remove_empty(tenant: Path) -> None:
    """A folder that nobody has used for a while. One that has anything in it cannot be removed."""
    folder = tenant / "mcp"
    with suppress(OSError):
        if now() - folder.stat().st_mtime > UNFINISHED_SECONDS:
            folder.rmdir()
            tenant.rmdir()
