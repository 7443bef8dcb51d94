"""Results in a remote bucket: quotas, expiry, links, compression, and local copies for readers.

`Bucket` hides the differences between services. A bucket may be shared: objects without our names and
labels are never touched. After a failure, calls fail at once for a while instead of waiting for another
timeout.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeVar, cast
from urllib.parse import parse_qs, urlencode

from msgspec import Struct
from msgspec.structs import replace

from ...config import ConfigError, StoreConfig
from ..local import read_range
from ..quotas import QuotaReservation, Quotas
from ..store import (
    Artifact,
    ArtifactStoreError,
    ArtifactStoreUnreachableError,
    ResultLinks,
    StoredArtifact,
    folder_of,
    id_of,
    is_id,
    iso,
    key_of,
    new_id,
    now,
)
from .bucket import Bucket, BucketForbiddenError, BucketNotFoundError, ListedObject, ObjectLabel, ObjectUpload
from .cache import ArtifactCache

logger = logging.getLogger("toolyard.artifacts")

COUNT_SECONDS = 300.0
SWEEP_SECONDS = 3600.0
"""A sweep lists the whole bucket, and services charge for lists."""
GRACE_SECONDS = 120.0
CLOSE_SECONDS = 5.0
"""How long closing waits for the removal of discarded uploads."""
UNUSED_ID = "0" * 32
MAX_SIGNED = 7 * 24 * 3600.0
"""The longest life of a signed link in S3 and GCS."""
AT_ONCE = 8
DELETED_AT_ONCE = 100
BLOCK = 8 * 1024 * 1024
"""Bytes of one request: few enough for the timeout and for memory."""

T = TypeVar("T")
Encoding = Literal["identity", "gzip"]


class RemoteOptions(Struct, frozen=True):
    prefix: str = ""
    """The start of all keys; empty, or ends with a slash."""
    encoding: Encoding = "identity"
    sweeps: bool = True
    """False if rules of the bucket remove old objects."""
    through_gateway: bool = False
    """Links lead to the gateway, for buckets that only it can reach."""


def remote_options(options: dict[str, str], path: str) -> RemoteOptions:
    """Removes its own options from `options`; the rest is for the bucket."""
    prefix = path.strip("/")
    return RemoteOptions(
        prefix=f"{prefix}/" if prefix else "",
        encoding=cast(Encoding, _one_of(options, "compress", "identity", "gzip")),
        sweeps=_one_of(options, "sweep", "on", "off") == "on",
        through_gateway=_one_of(options, "links", "bucket", "gateway") == "gateway",
    )


def _one_of(options: dict[str, str], name: str, *choices: str) -> str:
    """The first choice is the default."""
    value = options.pop(name, choices[0])
    if value not in choices:
        known = " or ".join(f'"{choice}"' for choice in choices)
        raise ConfigError(f"[store.options] {name} = {value!r} is unknown", f"{name} = {known}")
    return value


class RemoteArtifactStore:
    def __init__(
        self,
        bucket: Bucket,
        config: StoreConfig,
        options: RemoteOptions,
        links: ResultLinks,
        cache: ArtifactCache,
    ) -> None:
        self._bucket = bucket
        self._config = config
        self._options = options
        self._links = links
        self._cache = cache
        self._breaker = BucketBreaker(config.timeout)
        self._quotas = Quotas(config.quota, self._usage, COUNT_SECONDS)
        self._ensuring = asyncio.Lock()
        self._exists = False
        self._next_sweep = 0.0
        self._warned: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def type(self) -> str:
        return self._bucket.type

    async def start(self) -> None:
        async with self._ensuring:
            if not self._exists:
                await self._breaker.run(self._bucket.ensure())
                self._exists = True

    async def check(self) -> None:
        await self.open("", UNUSED_ID)

    def _key(self, tenant: str, id: str) -> str:
        return self._options.prefix + key_of(tenant, id)

    async def begin(self, tenant: str, tool: str, content_type: str) -> RemoteWriter:
        self._breaker.check()
        if not self._exists:
            await self.start()
        reservation = await self._quotas.reserve(tenant)
        created = now()
        encoding = self._options.encoding
        artifact = Artifact(
            new_id(), tenant, 0, content_type, tool, created, created + self._config.ttl, encoding
        )
        about = write_metadata(ArtifactMetadata(tool, artifact.created, artifact.expires, encoding))
        upload = self._bucket.upload(
            self._key(tenant, artifact.id), ObjectLabel(content_type, encoding, about)
        )
        return RemoteWriter(
            artifact, upload, encoder_for(encoding), reservation, self._breaker, self._done, self._abandoned
        )

    async def _done(self, artifact: Artifact) -> StoredArtifact:
        key = self._key(artifact.tenant, artifact.id)
        url, expires = await self._link(key, artifact)
        return StoredArtifact(artifact, self.type, key, url, self._bucket.name, iso(expires))

    def _abandoned(self, upload: ObjectUpload) -> None:
        self._exists = False  # check the bucket again before the next upload
        self._in_background(self._breaker.run(upload.abort()))

    async def _link(self, key: str, artifact: Artifact) -> tuple[str | None, float]:
        """The link and its expiry. Without a link of the bucket it is one of the gateway, or None."""
        own = self._links.make(artifact.tenant, artifact.id, artifact.expires)
        if self._options.through_gateway:
            return own, artifact.expires
        try:
            if self._config.links == "public":
                url = await self._breaker.run(self._bucket.public(key))
                if url is not None:
                    return url, artifact.expires
                self._warn_once(f"the bucket {self._bucket.name!r} is private, so links to it are signed")
            seconds = max(1.0, min(artifact.expires - now(), MAX_SIGNED))
            url = await self._breaker.run(self._bucket.signed(key, seconds))
            if url is not None:
                return url, now() + seconds
        except ArtifactStoreError as error:
            self._warn_once(f"cannot make a link to the bucket {self._bucket.name!r}: {error.reason}")
        return own, artifact.expires

    async def open(self, tenant: str, id: str) -> RemoteReader | None:
        if not is_id(id):
            return None
        key = self._key(tenant, id)
        try:
            found = await self._breaker.run(self._bucket.find(key))
        except BucketNotFoundError:
            return None
        about = None if found is None else read_metadata(found.about)
        if found is None or about is None or now() >= about.expires:
            return None
        size = found.size
        if about.encoding == "gzip":
            tail = self._bucket.read(key, max(0, size - TAIL), min(TAIL, size))
            size = decoded_size(await self._breaker.run(tail))
        artifact = Artifact(
            id, tenant, size, found.content_type, about.tool, about.created, about.expires, about.encoding
        )
        return RemoteReader(artifact, self._bucket, key, found.size, self._cache, self._breaker)

    async def _usage(self, tenant: str) -> int:
        total = 0
        try:
            async for page in self._pages(f"{self._options.prefix}{folder_of(tenant)}/mcp"):
                removed = await self._sweep_page(page)
                total += sum(
                    listed.size for listed in page if self._is_ours(listed) and listed.key not in removed
                )
        except BucketForbiddenError:
            self._warn_once(
                f"this key may not list the bucket {self._bucket.name!r}: quotas count only results of this "
                "gateway, and expired results are not removed"
            )
        return total

    async def _pages(self, folder: str) -> AsyncIterator[Sequence[ListedObject]]:
        pages = self._bucket.list(folder)
        while True:
            page = await self._breaker.run(anext(pages, None))
            if page is None:
                return
            yield page

    def _is_ours(self, listed: ListedObject) -> bool:
        prefix = self._options.prefix
        return listed.key.startswith(prefix) and id_of(listed.key.removeprefix(prefix)) is not None

    async def sweep(self) -> None:
        self._cache.sweep()
        if not self._options.sweeps or now() < self._next_sweep:
            return
        async for page in self._pages(self._options.prefix.rstrip("/")):
            await self._sweep_page(page)
        self._quotas.invalidate()
        self._next_sweep = now() + SWEEP_SECONDS

    async def _sweep_page(self, page: Sequence[ListedObject]) -> set[str]:
        """Remove expired objects of a page; reads the metadata of old ones only. Returns the removed keys."""
        if not self._options.sweeps:
            return set()
        old = [listed for listed in page if now() >= listed.modified + self._config.ttl]
        keys = [listed.key for listed in old if self._is_ours(listed)]
        limiter = asyncio.Semaphore(AT_ONCE)

        async def has_expired(key: str) -> bool:
            async with limiter:
                found = await self._breaker.run(self._bucket.find(key))
            about = None if found is None else read_metadata(found.about)
            return about is not None and now() >= about.expires + GRACE_SECONDS

        verdicts = await asyncio.gather(*map(has_expired, keys))
        expired = [key for key, verdict in zip(keys, verdicts, strict=True) if verdict]
        for start in range(0, len(expired), DELETED_AT_ONCE):
            await self._breaker.run(self._bucket.delete(expired[start : start + DELETED_AT_ONCE]))
        return set(expired)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning("%s", message)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        async def quietly() -> None:
            try:
                await work
            except ArtifactStoreError as error:
                logger.debug("cannot remove parts of a discarded result: %s", error.reason)

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
        await self._cache.close()
        await self._bucket.close()


class RemoteWriter:
    """Calls `done` when the artifact is stored, which adds its link; `abandoned` if it is discarded."""

    def __init__(
        self,
        artifact: Artifact,
        upload: ObjectUpload,
        encoder: ContentEncoder,
        reservation: QuotaReservation,
        breaker: BucketBreaker,
        done: Callable[[Artifact], Awaitable[StoredArtifact]],
        abandoned: Callable[[ObjectUpload], None],
    ) -> None:
        self._artifact = artifact
        self._upload = upload
        self._encoder = encoder
        self._reservation = reservation
        self._breaker = breaker
        self._done = done
        self._abandoned = abandoned
        self._size = 0
        self._ended = False

    async def write(self, piece: bytes) -> None:
        self._size += len(piece)
        await self._send(await self._encoder.encode(piece))

    async def _send(self, encoded: bytes) -> None:
        if encoded:
            self._reservation.add(len(encoded))
            await self._breaker.run(self._upload.write(encoded))

    async def finish(self) -> StoredArtifact:
        await self._send(await self._encoder.finish())
        await self._breaker.run(self._upload.finish())
        self._ended = True
        self._reservation.commit()
        return await self._done(replace(self._artifact, size=self._size))

    async def discard(self) -> None:
        if not self._ended:
            self._ended = True
            self._reservation.release()
            self._abandoned(self._upload)


class RemoteReader:
    def __init__(
        self,
        artifact: Artifact,
        bucket: Bucket,
        key: str,
        stored_size: int,
        cache: ArtifactCache,
        breaker: BucketBreaker,
    ) -> None:
        self.artifact = artifact
        self._bucket = bucket
        self._key = key
        self._stored_size = stored_size
        self._cache = cache
        self._breaker = breaker
        self._copy: Path | None = None

    async def read(self, start: int, length: int) -> bytes:
        if self._copy is None:
            self._copy = self._cache.acquire_cached(self.artifact.id)
        if self._copy is None and self.artifact.encoding == "identity":
            return await self._range(start, min(length, self._stored_size - start))
        return await asyncio.to_thread(read_range, await self.path(), start, length)

    async def _range(self, start: int, length: int) -> bytes:
        return b"".join([block async for block in self._blocks(start, length)])

    async def _blocks(self, start: int, length: int) -> AsyncIterator[bytes]:
        for at in range(start, start + length, BLOCK):
            size = min(BLOCK, start + length - at)
            yield await self._breaker.run(self._bucket.read(self._key, at, size))

    async def path(self) -> Path:
        if self._copy is None:
            self._copy = await self._cache.acquire(self.artifact.id, self.artifact.size, self._fill)
        return self._copy

    async def _fill(self, file: BinaryIO) -> None:
        blocks = self._blocks(0, self._stored_size)
        await write_decoded(file, blocks, self.artifact.encoding, self.artifact.size)

    async def close(self) -> None:
        if self._copy is not None:
            self._copy = None
            self._cache.release(self.artifact.id)


MAX_PAUSE = 15.0
"""The longest time in seconds that calls fail at once after a failure."""


class BucketBreaker:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._error: ArtifactStoreUnreachableError | None = None
        self._until = 0.0

    async def run(self, work: Awaitable[T]) -> T:
        """Run one request; raises ArtifactStoreUnreachableError if it takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            self._error = ArtifactStoreUnreachableError(
                f"the store did not answer within {self._seconds:g} seconds"
            )
        except (BucketForbiddenError, BucketNotFoundError):
            raise  # the service answers quickly: no need to pause
        except ArtifactStoreUnreachableError as error:
            self._error = error
        self._until = now() + min(self._seconds, MAX_PAUSE)
        raise self._error

    def check(self) -> None:
        """Raises the last error while it is too early to try again."""
        if self._error is not None and now() < self._until:
            raise ArtifactStoreUnreachableError(f"{self._error.reason}, a moment ago")


_VERSION = "1"


class ArtifactMetadata(Struct, frozen=True):
    tool: str
    created: float
    expires: float
    encoding: str


def write_metadata(about: ArtifactMetadata) -> str:
    return urlencode(
        {
            "v": _VERSION,
            "created": f"{about.created:.3f}",
            "expires": f"{about.expires:.3f}",
            "encoding": about.encoding,
            "tool": about.tool[:200],
        }
    )


def read_metadata(line: str) -> ArtifactMetadata | None:
    """None if the line is not ours."""
    try:
        fields = {name: values[0] for name, values in parse_qs(line, strict_parsing=True).items()}
        return ArtifactMetadata(
            fields.get("tool", ""), float(fields["created"]), float(fields["expires"]), fields["encoding"]
        )
    except (KeyError, ValueError):
        return None


MAX_GZIP = 2**32 - 1
"""The last four bytes of a gzip file hold the length of its content, which we read there."""
TAIL = 4
_LEVEL = 6
_GZIP = 31
_PIECE = 1024 * 1024


class ContentEncoder(Protocol):
    async def encode(self, piece: bytes) -> bytes: ...

    async def finish(self) -> bytes: ...


class IdentityEncoder:
    async def encode(self, piece: bytes) -> bytes:
        return piece

    async def finish(self) -> bytes:
        return b""


class GzipEncoder:
    def __init__(self) -> None:
        self._compressor = zlib.compressobj(_LEVEL, wbits=_GZIP)
        self._size = 0

    async def encode(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > MAX_GZIP:
            raise ArtifactStoreError("it is larger than 4 GiB, the limit for compress = 'gzip'")
        return await asyncio.to_thread(self._compressor.compress, piece)

    async def finish(self) -> bytes:
        return self._compressor.flush()


def encoder_for(encoding: Encoding) -> ContentEncoder:
    return GzipEncoder() if encoding == "gzip" else IdentityEncoder()


def decoded_size(tail: bytes) -> int:
    return int.from_bytes(tail, "little")


async def write_decoded(file: BinaryIO, pieces: AsyncIterator[bytes], encoding: str, size: int) -> None:
    """Write the decoded content to a file; raises ArtifactStoreError if it is damaged."""
    decoder = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    left = size
    async for piece in pieces:
        left -= await asyncio.to_thread(_write, file, piece, decoder, left)
    if decoder is not None:
        left -= file.write(decoder.flush())
    if left or (decoder is not None and not decoder.eof):
        raise ArtifactStoreError("its content is damaged")


def _write(file: BinaryIO, piece: bytes, decoder: Any, left: int) -> int:
    """Returns how many bytes were written."""
    if decoder is None:
        if len(piece) > left:
            raise ArtifactStoreError("its content is damaged")
        return file.write(piece)
    written = 0
    try:
        while piece:
            written += file.write(decoder.decompress(piece, _PIECE))
            if written > left:
                raise ArtifactStoreError("its content is damaged")
            piece = decoder.unconsumed_tail
    except zlib.error:
        raise ArtifactStoreError("its content is damaged") from None
    return written
