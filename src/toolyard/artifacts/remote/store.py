"""Results in a remote bucket: quotas, expiry, links, compression, and local copies for readers.

What differs between buckets is behind `Bucket`. A bucket may be shared: objects not named and labelled as
ours are never touched. After a failure the next callers are told at once instead of waiting for another
timeout.
"""

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
    """None when it is no line of ours."""
    try:
        found = {name: values[0] for name, values in parse_qs(line, strict_parsing=True).items()}
        return ArtifactMetadata(
            found.get("tool", ""), float(found["created"]), float(found["expires"]), found["encoding"]
        )
    except (KeyError, ValueError):
        return None


Encoding = Literal["identity", "gzip"]
LARGEST_GZIP = 2**32 - 1
"""A gzip file has the length of its content in its last four bytes, and that is how we know it."""
TAIL = 4
_LEVEL = 6
_GZIP = 31
_PIECE = 1024 * 1024


class ContentEncoder(Protocol):
    async def pack(self, piece: bytes) -> bytes: ...

    async def rest(self) -> bytes: ...


class IdentityEncoder:
    async def pack(self, piece: bytes) -> bytes:
        return piece

    async def rest(self) -> bytes:
        return b""


class GzipEncoder:
    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        self._size = 0

    async def pack(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > LARGEST_GZIP:
            raise ArtifactStoreError("it has more than 4 GiB, which is too much for compress = 'gzip'")
        return await asyncio.to_thread(self._packer.compress, piece)

    async def rest(self) -> bytes:
        return self._packer.flush()


def encoder_for(encoding: Encoding) -> ContentEncoder:
    return GzipEncoder() if encoding == "gzip" else IdentityEncoder()


def unpacked_size(tail: bytes) -> int:
    return int.from_bytes(tail, "little")


async def write_decoded(file: BinaryIO, pieces: AsyncIterator[bytes], encoding: str, size: int) -> None:
    """Write the content to a file; StoreError when it is not what it says it is."""
    opened = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    left = size
    async for piece in pieces:
        left -= await asyncio.to_thread(_write, file, piece, opened, left)
    if opened is not None:
        left -= file.write(opened.flush())
    if left or (opened is not None and not opened.eof):
        raise ArtifactStoreError("its content is damaged")


def _write(file: BinaryIO, piece: bytes, opened: Any, left: int) -> int:
    """How many bytes were written."""
    if opened is None:
        if len(piece) > left:
            raise ArtifactStoreError("its content is damaged")
        return file.write(piece)
    written = 0
    try:
        while piece:
            found = opened.decompress(piece, _PIECE)
            written += file.write(found)
            if written > left:
                raise ArtifactStoreError("its content is damaged")
            piece = opened.unconsumed_tail
    except zlib.error:
        raise ArtifactStoreError("its content is damaged") from None
    return written


class RemoteOptions(Struct, frozen=True):
    prefix: str = ""
    """Of all keys; empty, or ends with a slash."""
    encoding: Encoding = "identity"
    sweeps: bool = True
    """False where the bucket's own rules remove what is old."""
    through_gateway: bool = False
    """Links lead to the gateway, for buckets that only it can reach."""


def remote_options(options: dict[str, str], path: str) -> RemoteOptions:
    """Takes its options out; what is left is for the bucket."""
    prefix = path.strip("/")
    return RemoteOptions(
        prefix=f"{prefix}/" if prefix else "",
        encoding=cast(Encoding, _one_of(options, "compress", "identity", "gzip")),
        sweeps=_one_of(options, "sweep", "on", "off") == "on",
        through_gateway=_one_of(options, "links", "bucket", "gateway") == "gateway",
    )


def _one_of(options: dict[str, str], name: str, *choices: str) -> str:
    """The first choice is what it is when nothing is said."""
    value = options.pop(name, choices[0])
    if value not in choices:
        known = " or ".join(f'"{choice}"' for choice in choices)
        raise ConfigError(f"[store.options] {name} = {value!r} is unknown", f"{name} = {known}")
    return value


LONGEST_REST = 15.0

T = TypeVar("T")


class BucketBreaker:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._fault: ArtifactStoreUnreachableError | None = None
        self._until = 0.0

    async def step(self, work: Awaitable[T]) -> T:
        """One answer of the bucket; Unreachable when it does not come in time."""
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            self._fault = ArtifactStoreUnreachableError(
                f"the store did not answer within {self._seconds:g} seconds"
            )
        except (BucketForbiddenError, BucketNotFoundError):
            raise  # it answers, and quickly: the next one may be luckier
        except ArtifactStoreUnreachableError as error:
            self._fault = error
        self._until = now() + min(self._seconds, LONGEST_REST)
        raise self._fault

    def check(self) -> None:
        """Unreachable while it is too early to try again."""
        if self._fault is not None and now() < self._until:
            raise ArtifactStoreUnreachableError(f"{self._fault.reason}, a moment ago")


BLOCK = 8 * 1024 * 1024
"""How much is fetched at once: little enough to come within the timeout, and to be held in memory."""


class RemoteWriter:
    """`done` is told when it is there, and says how it is reached; `given_up` when it will never be."""

    def __init__(
        self,
        artifact: Artifact,
        upload: ObjectUpload,
        packer: ContentEncoder,
        share: QuotaReservation,
        patience: BucketBreaker,
        done: Callable[[Artifact], Awaitable[StoredArtifact]],
        given_up: Callable[[ObjectUpload], None],
    ) -> None:
        self._artifact = artifact
        self._upload = upload
        self._packer = packer
        self._share = share
        self._patience = patience
        self._done = done
        self._given_up = given_up
        self._size = 0
        self._settled = False

    async def write(self, piece: bytes) -> None:
        self._size += len(piece)
        await self._send(await self._packer.pack(piece))

    async def _send(self, packed: bytes) -> None:
        if packed:
            self._share.take(len(packed))
            await self._patience.step(self._upload.write(packed))

    async def finish(self) -> StoredArtifact:
        await self._send(await self._packer.rest())
        await self._patience.step(self._upload.finish())
        self._settled = True
        self._share.keep()
        return await self._done(replace(self._artifact, size=self._size))

    async def discard(self) -> None:
        if not self._settled:
            self._settled = True
            self._share.give_back()
            self._given_up(self._upload)


class RemoteReader:
    def __init__(
        self,
        artifact: Artifact,
        bucket: Bucket,
        key: str,
        stored_size: int,
        copies: ArtifactCache,
        patience: BucketBreaker,
    ) -> None:
        self.artifact = artifact
        self._bucket = bucket
        self._key = key
        self._stored_size = stored_size
        self._copies = copies
        self._patience = patience
        self._copy: Path | None = None

    async def read(self, start: int, length: int) -> bytes:
        if self._copy is None:
            self._copy = self._copies.held(self.artifact.id)
        if self._copy is None and self.artifact.encoding == "identity":
            return await self._range(start, min(length, self._stored_size - start))
        return await asyncio.to_thread(read_range, await self.path(), start, length)

    async def _range(self, start: int, length: int) -> bytes:
        return b"".join([block async for block in self._blocks(start, length)])

    async def _blocks(self, start: int, length: int) -> AsyncIterator[bytes]:
        for at in range(start, start + length, BLOCK):
            size = min(BLOCK, start + length - at)
            yield await self._patience.step(self._bucket.read(self._key, at, size))

    async def path(self) -> Path:
        if self._copy is None:
            self._copy = await self._copies.borrow(self.artifact.id, self.artifact.size, self._fill)
        return self._copy

    async def _fill(self, file: BinaryIO) -> None:
        blocks = self._blocks(0, self._stored_size)
        await write_decoded(file, blocks, self.artifact.encoding, self.artifact.size)

    async def close(self) -> None:
        if self._copy is not None:
            self._copy = None
            self._copies.give_back(self.artifact.id)


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


class RemoteArtifactStore:
    def __init__(
        self,
        bucket: Bucket,
        config: StoreConfig,
        manner: RemoteOptions,
        links: ResultLinks,
        copies: ArtifactCache,
    ) -> None:
        self._bucket = bucket
        self._config = config
        self._manner = manner
        self._links = links
        self._copies = copies
        self._patience = BucketBreaker(config.timeout)
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

    async def begin(self, tenant: str, tool: str, content_type: str) -> RemoteWriter:
        self._patience.check()
        if not self._is_there:
            await self.start()
        share = await self._quotas.share(tenant)
        created = now()
        encoding = self._manner.encoding
        artifact = Artifact(
            new_id(), tenant, 0, content_type, tool, created, created + self._config.ttl, encoding
        )
        about = write_metadata(ArtifactMetadata(tool, artifact.created, artifact.expires, encoding))
        upload = self._bucket.upload(
            self._key(tenant, artifact.id), ObjectLabel(content_type, encoding, about)
        )
        return RemoteWriter(
            artifact, upload, encoder_for(encoding), share, self._patience, self._done, self._given_up
        )

    async def _done(self, artifact: Artifact) -> StoredArtifact:
        key = self._key(artifact.tenant, artifact.id)
        url, expires = await self._link(key, artifact)
        return StoredArtifact(artifact, self.type, key, url, self._bucket.name, iso(expires))

    def _given_up(self, upload: ObjectUpload) -> None:
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
        except ArtifactStoreError as error:
            self._tell_once(f"no link could be made to the bucket {self._bucket.name!r}: {error.reason}")
        return ours, artifact.expires

    async def open(self, tenant: str, id: str) -> RemoteReader | None:
        if not is_id(id):
            return None
        key = self._key(tenant, id)
        try:
            found = await self._patience.step(self._bucket.find(key))
        except BucketNotFoundError:
            return None
        about = None if found is None else read_metadata(found.about)
        if found is None or about is None or now() >= about.expires:
            return None
        size = found.size
        if about.encoding == "gzip":
            tail = self._bucket.read(key, max(0, size - TAIL), min(TAIL, size))
            size = unpacked_size(await self._patience.step(tail))
        artifact = Artifact(
            id, tenant, size, found.content_type, about.tool, about.created, about.expires, about.encoding
        )
        return RemoteReader(artifact, self._bucket, key, found.size, self._copies, self._patience)

    async def _usage(self, tenant: str) -> int:
        total = 0
        try:
            async for page in self._pages(f"{self._manner.prefix}{folder_of(tenant)}/mcp"):
                gone = await self._swept(page)
                total += sum(
                    listed.size for listed in page if self._is_ours(listed) and listed.key not in gone
                )
        except BucketForbiddenError:
            self._tell_once(
                f"the bucket {self._bucket.name!r} may not be listed with this key: quotas count only what "
                "this gateway writes, and nothing is swept"
            )
        return total

    async def _pages(self, folder: str) -> AsyncIterator[Sequence[ListedObject]]:
        pages = self._bucket.list(folder)
        while True:
            page = await self._patience.step(anext(pages, None))
            if page is None:
                return
            yield page

    def _is_ours(self, listed: ListedObject) -> bool:
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

    async def _swept(self, page: Sequence[ListedObject]) -> set[str]:
        """Remove what says itself that it has expired. Only what is old enough is asked."""
        if not self._manner.sweeps:
            return set()
        old = [listed for listed in page if now() >= listed.modified + self._config.ttl]
        keys = [listed.key for listed in old if self._is_ours(listed)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def has_expired(key: str) -> bool:
            async with gate:
                found = await self._patience.step(self._bucket.find(key))
            about = None if found is None else read_metadata(found.about)
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
            except ArtifactStoreError as error:
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
