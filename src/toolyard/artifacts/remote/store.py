"""Results in a bucket somewhere else, whoever's it is: quotas, expiry, links, and local copies.

What differs between the buckets is behind `bucket`'s seam. A bucket may be shared with others: what is not
named and labelled as ours is never touched.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from ...config import StoreConfig
from ..links import Links
from ..names import folder_of, id_of, is_id, iso, key_of, new_id, now
from ..quotas import Quotas
from ..store import Artifact, Stored, StoreError
from . import labels
from .bucket import Bucket, Forbidden, Label, Listed, NoBucket, Upload
from .copies import Copies
from .manner import Manner
from .packing import TAIL, packer, unpacked_size
from .parts import RemoteReading, RemoteWriting
from .patience import Patience

logger = logging.getLogger("toolyard.artifacts")

COUNT_SECONDS = 300.0
SWEEP_SECONDS = 3600.0
"""Every sweep lists the whole bucket, and lists are paid for."""
GRACE_SECONDS = 120.0
CLOSE_SECONDS = 5.0
"""How long what was given up is still tidied away when the gateway stops."""
LONGEST_SIGNED = 7 * 24 * 3600.0
"""No link of S3 or GCS may be signed for longer."""
AT_ONCE = 8
DELETED_AT_ONCE = 100


class RemoteStore:
    def __init__(
        self, bucket: Bucket, config: StoreConfig, manner: Manner, links: Links, copies: Copies
    ) -> None:
        self._bucket = bucket
        self._config = config
        self._manner = manner
        self._links = links
        self._copies = copies
        self._patience = Patience(config.timeout)
        self._quotas = Quotas(config.quota, self._usage, COUNT_SECONDS)
        self._ensuring = asyncio.Lock()
        self._is_there = False
        self._next_sweep = 0.0
        self._told: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def type(self) -> str:
        return self._bucket.type

    async def start(self) -> None:
        async with self._ensuring:
            if not self._is_there:
                await self._patience.step(self._bucket.ensure())
                self._is_there = True

    def _key(self, tenant: str, id: str) -> str:
        return self._manner.prefix + key_of(tenant, id)

    async def begin(self, tenant: str, tool: str, content_type: str) -> RemoteWriting:
        self._patience.check()
        if not self._is_there:
            await self.start()
        share = await self._quotas.share(tenant)
        created = now()
        encoding = self._manner.encoding
        artifact = Artifact(
            new_id(), tenant, 0, content_type, tool, created, created + self._config.ttl, encoding
        )
        about = labels.written(labels.About(tool, artifact.created, artifact.expires, encoding))
        upload = self._bucket.upload(self._key(tenant, artifact.id), Label(content_type, encoding, about))
        return RemoteWriting(
            artifact, upload, packer(encoding), share, self._patience, self._done, self._given_up
        )

    async def _done(self, artifact: Artifact) -> Stored:
        key = self._key(artifact.tenant, artifact.id)
        url, expires = await self._link(key, artifact)
        return Stored(artifact, self.type, key, url, self._bucket.name, iso(expires))

    def _given_up(self, upload: Upload) -> None:
        self._is_there = False  # whatever went wrong, look again before the next one
        self._beside(self._patience.step(upload.abort()))

    async def _link(self, key: str, artifact: Artifact) -> tuple[str | None, float]:
        """How it is reached, and until when. What was kept is not lost for want of a link."""
        ours = self._links.make(artifact.tenant, artifact.id, artifact.expires)
        if self._manner.through_gateway:
            return ours, artifact.expires
        try:
            if self._config.links == "public":
                url = await self._patience.step(self._bucket.public(key))
                if url is not None:
                    return url, artifact.expires
                self._tell_once(f"the bucket {self._bucket.name!r} is private: links to it are signed")
            seconds = max(1.0, min(artifact.expires - now(), LONGEST_SIGNED))
            url = await self._patience.step(self._bucket.signed(key, seconds))
            if url is not None:
                return url, now() + seconds
        except StoreError as error:
            self._tell_once(f"no link could be made to the bucket {self._bucket.name!r}: {error.reason}")
        return ours, artifact.expires

    async def open(self, tenant: str, id: str) -> RemoteReading | None:
        if not is_id(id):
            return None
        key = self._key(tenant, id)
        try:
            found = await self._patience.step(self._bucket.find(key))
        except NoBucket:
            return None
        about = None if found is None else labels.read(found.about)
        if found is None or about is None or now() >= about.expires:
            return None
        size = found.size
        if about.encoding == "gzip":
            tail = self._bucket.read(key, max(0, size - TAIL), min(TAIL, size))
            size = unpacked_size(await self._patience.step(tail))
        artifact = Artifact(
            id, tenant, size, found.content_type, about.tool, about.created, about.expires, about.encoding
        )
        return RemoteReading(artifact, self._bucket, key, found.size, self._copies, self._patience)

    async def _usage(self, tenant: str) -> int:
        total = 0
        try:
            async for page in self._pages(f"{self._manner.prefix}{folder_of(tenant)}/mcp"):
                gone = await self._swept(page)
                total += sum(
                    listed.size for listed in page if self._is_ours(listed) and listed.key not in gone
                )
        except Forbidden:
            self._tell_once(
                f"the bucket {self._bucket.name!r} may not be listed with this key: quotas count only what "
                "this gateway writes, and nothing is swept"
            )
        return total

    async def _pages(self, folder: str) -> AsyncIterator[Sequence[Listed]]:
        pages = self._bucket.list(folder)
        while True:
            page = await self._patience.step(anext(pages, None))
            if page is None:
                return
            yield page

    def _is_ours(self, listed: Listed) -> bool:
        prefix = self._manner.prefix
        return listed.key.startswith(prefix) and id_of(listed.key.removeprefix(prefix)) is not None

    async def sweep(self) -> None:
        self._copies.tidy()
        if not self._manner.sweeps or now() < self._next_sweep:
            return
        async for page in self._pages(self._manner.prefix.rstrip("/")):
            await self._swept(page)
        self._quotas.forget()
        self._next_sweep = now() + SWEEP_SECONDS

    async def _swept(self, page: Sequence[Listed]) -> set[str]:
        """Remove what says itself that it has expired. Only what is old enough is asked."""
        if not self._manner.sweeps:
            return set()
        old = [listed for listed in page if now() >= listed.modified + self._config.ttl]
        keys = [listed.key for listed in old if self._is_ours(listed)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def has_expired(key: str) -> bool:
            async with gate:
                found = await self._patience.step(self._bucket.find(key))
            about = None if found is None else labels.read(found.about)
            return about is not None and now() >= about.expires + GRACE_SECONDS

        verdicts = await asyncio.gather(*map(has_expired, keys))
        expired = [key for key, verdict in zip(keys, verdicts, strict=True) if verdict]
        for start in range(0, len(expired), DELETED_AT_ONCE):
            await self._patience.step(self._bucket.delete(expired[start : start + DELETED_AT_ONCE]))
        return set(expired)

    def _tell_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            logger.warning("%s", message)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        async def quietly() -> None:
            try:
                await work
            except StoreError as error:
                logger.debug("a result that was given up may have left parts behind: %s", error.reason)

        task = asyncio.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._quotas.close()
        await self._copies.close()
        await self._bucket.close()
