"""Buckets of S3, GCS, Azure and services compatible with S3, through obstore. Needs the extra `objects`.

Options have obstore's names; missing ones come from the environment variables that users of the service
expect. Messages of errors contain no addresses or keys. Creating a bucket and testing for public access are
plain requests without a key, because obstore does neither.
"""

import logging
import os
import re
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from ...config import ConfigError, StoreConfig
from ..store import ArtifactStoreError, ArtifactStoreUnreachableError, ResultLinks, now
from .bucket import BucketForbiddenError, BucketNotFoundError, ListedObject, ObjectInfo, ObjectLabel
from .cache import ArtifactCache
from .store import RemoteArtifactStore, remote_options

if TYPE_CHECKING:
    from obstore import AsyncWritableFile, Attributes
    from obstore.store import ClientConfig, RetryConfig

logger = logging.getLogger("toolyard.artifacts")

CLIENT_OPTIONS = (
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "pool_idle_timeout", "user_agent"),
    *("pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes", "root_certificate"),
)
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gcs": ("GOOGLE_BASE_URL",),
    "azure": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_TYPES: dict[str, Literal["s3", "gcs", "azure"]] = {"s3": "s3", "gs": "gcs", "az": "azure"}
_STORES = {"s3": S3Store, "gcs": GCSStore, "azure": AzureStore}


def open_objects(config: StoreConfig, links: ResultLinks, cache: ArtifactCache) -> RemoteArtifactStore:
    parts = urlsplit(config.url)
    if not parts.netloc:
        raise ConfigError(
            f"[store] {config.url!r} does not name a bucket", f'"{parts.scheme}://BUCKET/PREFIX"'
        )
    type = _TYPES[parts.scheme]
    options = dict(config.options)
    common = remote_options(options, parts.path)
    public_base = options.pop("public_base", "").rstrip("/")
    store = _open_store(type, parts.netloc, options, config.timeout)
    bucket = ObjectBucket(type, parts.netloc, common.prefix, store, _region(options), public_base)
    return RemoteArtifactStore(bucket, config, common, links, cache)


def _open_store(type: str, name: str, options: dict[str, str], timeout: float) -> Any:
    client = {key: options.pop(key) for key in CLIENT_OPTIONS if key in options}
    if _endpoint(type, options).startswith("http://"):
        client.setdefault("allow_http", "true")  # the user chose an `http://` endpoint
    limit = timedelta(seconds=timeout)
    retries: RetryConfig = {
        "max_retries": 2,
        "retry_timeout": limit,
        "backoff": {"max_backoff": timedelta(seconds=1)},
    }
    try:
        return _STORES[type](
            name,
            config=cast(Any, options),
            client_options=cast("ClientConfig", {"timeout": limit, "user_agent": "toolyard", **client}),
            retry_config=retries,
        )
    except (BaseError, ValueError, TypeError, OSError) as error:
        # The other lines are internals of obstore.
        why = str(error).partition("\n")[0]
        raise ConfigError(f"[store.options] cannot be used: {why}", "options have obstore's names") from None


def _endpoint(type: str, options: dict[str, str]) -> str:
    for name, value in options.items():
        if "endpoint" in name.lower() or name.lower().endswith("base_url"):
            return value
    return next((os.environ[name] for name in _ENDPOINTS[type] if os.environ.get(name)), "")


def _region(options: dict[str, str]) -> str:
    names = ("region", "aws_region", "default_region", "aws_default_region")
    found = next((options[name] for name in names if options.get(name)), "")
    return found or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""


PART = 5 * 1024 * 1024
"""The smallest part that S3 accepts. One result may have three of them in memory."""
AT_ONCE = 2
PAGE = 1000
ABOUT = "toolyard"
"""The name of our metadata. Azure needs a valid identifier."""
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
        self._checked_public_at = 0.0

    async def ensure(self) -> None:
        try:
            async for _ in self.list(self._prefix.rstrip("/")):
                break
        except BucketNotFoundError:
            await self._create()
        except BucketKeyError:
            raise
        except BucketForbiddenError:
            pass  # a key that may write but not list is enough

    async def _create(self) -> None:
        if self.type != "s3":
            # obstore cannot sign the request that creates a bucket here.
            command = _CREATE[self.type].format(name=self.name)
            raise BucketNotFoundError(f"there is no bucket {self.name!r}; create it: {command}")
        with translated_errors(self.name):
            url = await obstore.sign_async(self._store, "PUT", "", timedelta(seconds=60))
        await create_bucket(url, self.name, self._region)

    def upload(self, key: str, label: ObjectLabel) -> "_MultipartUpload":
        attributes: Attributes = {
            "Content-Type": label.content_type,
            "Cache-Control": "private, no-store",
            ABOUT: label.about,
        }
        if label.encoding != "identity":
            # Without `no-transform`, GCS decompresses what it sends and ignores ranges.
            attributes |= {
                "Content-Encoding": label.encoding,
                "Cache-Control": "private, no-store, no-transform",
            }
        writer = obstore.open_writer_async(
            self._store, key, attributes=attributes, buffer_size=PART, max_concurrency=AT_ONCE
        )
        return _MultipartUpload(self, key, writer)

    async def find(self, key: str) -> ObjectInfo | None:
        try:
            with translated_errors(self.name):
                found = await obstore.get_async(self._store, key, options={"head": True})
        except ObjectNotFoundError:
            return None
        attributes = found.attributes
        return ObjectInfo(found.meta["size"], attributes.get("Content-Type", ""), attributes.get(ABOUT, ""))

    async def read(self, key: str, start: int, length: int) -> bytes:
        with translated_errors(self.name):
            return bytes(await obstore.get_range_async(self._store, key, start=start, length=length))

    async def list(self, folder: str) -> AsyncIterator[Sequence[ListedObject]]:
        with translated_errors(self.name):
            # Its stubs import a package that is needed for Arrow only.
            pages = obstore.list(self._store, folder or None, chunk_size=PAGE)  # pyright: ignore[reportUnknownMemberType]
            async for page in pages:
                yield [
                    ListedObject(entry["path"], entry["size"], entry["last_modified"].timestamp())
                    for entry in page
                ]

    async def delete(self, keys: Sequence[str]) -> None:
        try:
            with translated_errors(self.name):
                await obstore.delete_async(self._store, list(keys))
        except ObjectNotFoundError:
            # The others may still be there.
            for key in keys if len(keys) > 1 else ():
                await self.delete([key])

    async def signed(self, key: str, seconds: float) -> str | None:
        with translated_errors(self.name):
            return await obstore.sign_async(self._store, "GET", key, timedelta(seconds=int(seconds)))

    async def public(self, key: str) -> str | None:
        url = f"{self._public_base}/{key}" if self._public_base else await self._address(key)
        if now() >= self._checked_public_at + PUBLIC_SECONDS:
            self._is_public = await can_be_read(url)
            self._checked_public_at = now()
        return url if self._is_public else None

    async def _address(self, key: str) -> str:
        """A link without its signature."""
        with translated_errors(self.name):
            signed = await obstore.sign_async(self._store, "GET", key, timedelta(seconds=60))
        return signed.partition("?")[0]

    async def close(self) -> None:
        return None


class _MultipartUpload:
    def __init__(self, bucket: ObjectBucket, key: str, writer: "AsyncWritableFile") -> None:
        self._bucket = bucket
        self._key = key
        self._writer = writer
        self._size = 0
        self._is_closing = False
        """Whether the object may exist already."""

    async def write(self, piece: bytes) -> None:
        self._size += len(piece)
        with translated_errors(self._bucket.name):
            await self._writer.write(piece)

    async def finish(self) -> None:
        self._is_closing = True
        with translated_errors(self._bucket.name):
            await self._writer.close()

    async def abort(self) -> None:
        """obstore cannot abort an upload: finish the object, under its random name, and delete it."""
        if self._size < PART and not self._is_closing:
            return  # nothing has been sent yet
        if not self._is_closing:
            await self.finish()
        await self._bucket.delete([self._key])


_XML = (
    '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
)
# us-east-1 needs no constraint; "auto" is for services without regions.
_NO_CONSTRAINT = ("", "us-east-1", "auto")


async def create_bucket(url: str, name: str, region: str) -> None:
    """Create a bucket in S3 at a signed address."""
    import aiohttp  # 90 ms of CPU, only for a missing bucket

    body = "" if region in _NO_CONSTRAINT else _XML.format(region=region)
    try:
        async with aiohttp.ClientSession() as http, http.put(url, data=body) as reply:
            status, text = reply.status, (await reply.content.read(4096)).decode(errors="replace")
    except (aiohttp.ClientError, OSError):
        raise ArtifactStoreUnreachableError("the store cannot be reached") from None
    if status < 300:
        return
    found = _CODE.search(text)
    code = found[1] if found else f"HTTP {status}"
    if code == "BucketAlreadyOwnedByYou":
        return
    if code == "BucketAlreadyExists":
        raise BucketForbiddenError(f"the bucket {name!r} belongs to another account; choose another name")
    raise BucketNotFoundError(
        f"there is no bucket {name!r}, and it could not be created ({code}): aws s3 mb s3://{name}"
    )


async def can_be_read(url: str) -> bool:
    import aiohttp

    try:
        async with aiohttp.ClientSession() as http, http.head(url, allow_redirects=True) as reply:
            return reply.status == 200
    except (aiohttp.ClientError, OSError):
        return False


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
WRONG_KEY = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired"),
    *("AuthenticationFailed", "InvalidAuthenticationInfo", "AuthenticationRequired"),
)
# obstore asks these addresses for credentials when none are configured.
_CREDENTIAL_SOURCES = ("169.254.169.254", "metadata.google.internal", "/oauth2/", "sts.", "169.254.170.2")


class BucketKeyError(BucketForbiddenError):
    """The service does not accept our key at all."""


class ObjectNotFoundError(ArtifactStoreError):
    pass


@contextmanager
def translated_errors(bucket: str) -> Generator[None]:
    """Translate the errors of obstore."""
    try:
        yield
    except FileNotFoundError as error:
        if _code(str(error)) in _NO_BUCKET:
            raise BucketNotFoundError(f"there is no bucket {bucket!r}") from None
        raise ObjectNotFoundError("the store no longer has it") from None
    except (BaseError, OSError, ValueError) as error:
        logger.debug("the bucket %r: %s", bucket, error)
        raise _reason(bucket, str(error)) from None


def _code(text: str) -> str:
    found = _CODE.search(text)
    return found[1] if found else ""


def _reason(bucket: str, text: str) -> ArtifactStoreError:
    code = _code(text)
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    if code in _NO_BUCKET:
        return BucketNotFoundError(f"there is no bucket {bucket!r}")
    if any(source in text for source in _CREDENTIAL_SOURCES):
        return BucketKeyError(
            f"no credentials for the bucket {bucket!r} were found, or they are not accepted"
        )
    if code in WRONG_KEY or status == 401:
        return BucketKeyError(f"the key for the bucket {bucket!r} is not accepted")
    if status == 403 or "lacked the necessary privileges" in text:
        return BucketForbiddenError(f"the bucket {bucket!r} does not allow this with our key")
    if status:
        return ArtifactStoreUnreachableError(f"the store answers with HTTP {status}")
    if "TimedOut" in text or "timed out" in text:
        return ArtifactStoreUnreachableError("the store did not answer in time")
    return ArtifactStoreUnreachableError("the store cannot be reached")
