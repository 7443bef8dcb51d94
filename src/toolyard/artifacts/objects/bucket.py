"""A bucket of S3, GCS or Azure, and of whatever speaks as S3 does, through obstore."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import obstore

from ..names import now
from ..remote.bucket import Forbidden, Found, Label, Listed, NoBucket
from . import anonymous
from .errors import NoObject, WrongKey, told

if TYPE_CHECKING:
    from obstore import AsyncWritableFile, Attributes
    from obstore.store import AzureStore, GCSStore, S3Store

PART = 5 * 1024 * 1024
"""The least that S3 takes as a part. Three of them may be in memory for one result."""
AT_ONCE = 2
PAGE = 1000
ABOUT = "toolyard"
"""Of the metadata, which Azure takes only if it could be a variable's name."""
PUBLIC_SECONDS = 600.0
_CREATE = {
    "gcs": "gcloud storage buckets create gs://{name}",
    "azure": "az storage container create --name {name}",
}


class ObjectBucket:
    def __init__(
        self,
        type: Literal["s3", "gcs", "azure"],
        name: str,
        prefix: str,
        store: "S3Store | GCSStore | AzureStore",
        region: str,
        public_base: str,
    ) -> None:
        self.type = type
        self.name = name
        self._prefix = prefix
        self._store = store
        self._region = region
        self._public_base = public_base
        self._is_public = False
        self._asked_public = 0.0

    async def ensure(self) -> None:
        try:
            async for _ in self.list(self._prefix.rstrip("/")):
                break
        except NoBucket:
            await self._create()
        except WrongKey:
            raise
        except Forbidden:
            pass  # a key that may write and not list is a good key

    async def _create(self) -> None:
        if self.type != "s3":
            # Neither can be asked for with what obstore signs.
            command = _CREATE[self.type].format(name=self.name)
            raise NoBucket(f"there is no bucket {self.name!r}; create it: {command}")
        with told(self.name):
            url = await obstore.sign_async(self._store, "PUT", "", timedelta(seconds=60))
        await anonymous.create_bucket(url, self.name, self._region)

    def upload(self, key: str, label: Label) -> "_Upload":
        attributes: Attributes = {
            "Content-Type": label.content_type,
            "Cache-Control": "private, no-store",
            ABOUT: label.about,
        }
        if label.encoding != "identity":
            # Without `no-transform`, GCS unpacks what it sends and ignores ranges.
            attributes |= {
                "Content-Encoding": label.encoding,
                "Cache-Control": "private, no-store, no-transform",
            }
        writer = obstore.open_writer_async(
            self._store, key, attributes=attributes, buffer_size=PART, max_concurrency=AT_ONCE
        )
        return _Upload(self, key, writer)

    async def find(self, key: str) -> Found | None:
        try:
            with told(self.name):
                found = await obstore.get_async(self._store, key, options={"head": True})
        except NoObject:
            return None
        attributes = found.attributes
        return Found(found.meta["size"], attributes.get("Content-Type", ""), attributes.get(ABOUT, ""))

    async def read(self, key: str, start: int, length: int) -> bytes:
        with told(self.name):
            return bytes(await obstore.get_range_async(self._store, key, start=start, length=length))

    async def list(self, folder: str) -> AsyncIterator[Sequence[Listed]]:
        with told(self.name):
            # Its stubs name a package that only Arrow's tables need.
            pages = obstore.list(self._store, folder or None, chunk_size=PAGE)  # pyright: ignore[reportUnknownMemberType]
            async for page in pages:
                yield [
                    Listed(entry["path"], entry["size"], entry["last_modified"].timestamp()) for entry in page
                ]

    async def delete(self, keys: Sequence[str]) -> None:
        try:
            with told(self.name):
                await obstore.delete_async(self._store, list(keys))
        except NoObject:
            # The others may still be there.
            for key in keys if len(keys) > 1 else ():
                await self.delete([key])

    async def signed(self, key: str, seconds: float) -> str | None:
        with told(self.name):
            return await obstore.sign_async(self._store, "GET", key, timedelta(seconds=int(seconds)))

    async def public(self, key: str) -> str | None:
        url = f"{self._public_base}/{key}" if self._public_base else await self._address(key)
        if now() >= self._asked_public + PUBLIC_SECONDS:
            self._is_public = await anonymous.can_be_read(url)
            self._asked_public = now()
        return url if self._is_public else None

    async def _address(self, key: str) -> str:
        """What a link is without its signature."""
        with told(self.name):
            signed = await obstore.sign_async(self._store, "GET", key, timedelta(seconds=60))
        return signed.partition("?")[0]

    async def close(self) -> None:
        return None


class _Upload:
    def __init__(self, bucket: ObjectBucket, key: str, writer: "AsyncWritableFile") -> None:
        self._bucket = bucket
        self._key = key
        self._writer = writer
        self._size = 0
        self._is_closing = False
        """Whether it may be there, even if nobody has said so."""

    async def write(self, piece: bytes) -> None:
        self._size += len(piece)
        with told(self._bucket.name):
            await self._writer.write(piece)

    async def finish(self) -> None:
        self._is_closing = True
        with told(self._bucket.name):
            await self._writer.close()

    async def abort(self) -> None:
        """obstore cannot take parts back, so the object is finished and removed: nobody knows its name."""
        if self._size < PART and not self._is_closing:
            return  # nothing has left yet
        if not self._is_closing:
            await self.finish()
        await self._bucket.delete([self._key])
