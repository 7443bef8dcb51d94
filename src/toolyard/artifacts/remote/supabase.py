"""Buckets of Supabase Storage, through its REST API.

Most errors arrive as HTTP 400 with the real status in the body. Small objects are sent in one request;
larger ones are streamed while they are written, and the server drops an interrupted one.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from ...config import ConfigError, StoreConfig
from ..store import ArtifactStoreError, ArtifactStoreFullError, ArtifactStoreUnreachableError, ResultLinks
from .bucket import BucketForbiddenError, BucketNotFoundError, ListedObject, ObjectInfo, ObjectLabel
from .cache import ArtifactCache
from .store import RemoteArtifactStore, remote_options

if TYPE_CHECKING:
    import aiohttp


logger = logging.getLogger("toolyard.artifacts")

T = TypeVar("T")

DEFAULT_BUCKET = "tool-outputs"
_VARIABLES = {
    "url": "SUPABASE_URL",
    "key": "SUPABASE_SERVICE_ROLE_KEY",
    "bucket": "SUPABASE_TOOL_OUTPUT_BUCKET",
}


def open_supabase(config: StoreConfig, links: ResultLinks, cache: ArtifactCache) -> RemoteArtifactStore:
    parts = urlsplit(config.url)
    options = dict(config.options)
    common = remote_options(options, parts.path)
    if common.encoding != "identity":
        raise ConfigError(
            '[store.options] has compress = "gzip", and Supabase does not store the encoding of an object',
            "leave it out: Supabase's network compresses what it sends",
        )
    found = {
        name: options.pop(name, "") or os.environ.get(variable, "") for name, variable in _VARIABLES.items()
    }
    if options:
        known = ", ".join((*_VARIABLES, "sweep", "links"))
        raise ConfigError(f"[store.options] {next(iter(options))!r} is unknown", f"Supabase takes {known}")
    for name in ("url", "key"):
        if not found[name]:
            raise ConfigError(
                f"[store] {config.url!r} needs the {name} of a project",
                f"set {_VARIABLES[name]}, or {name} in [store.options]",
            )
    if urlsplit(found["url"]).scheme not in ("http", "https"):
        raise ConfigError("[store] the url of the Supabase project is invalid", "https://NAME.supabase.co")
    bucket = unquote(parts.netloc) or found["bucket"] or DEFAULT_BUCKET
    client = SupabaseClient(found["url"], found["key"])
    return RemoteArtifactStore(
        SupabaseBucket(client, bucket, config.links == "public"), config, common, links, cache
    )


ABOUT = "toolyard"
PAGE = 1000


class _Bucket(Struct):
    public: bool = False


class _Info(Struct):
    size: int | None = None
    content_type: str | None = None
    metadata: dict[str, Any] | None = None
    """Our metadata, from the upload."""


class _Entry(Struct):
    name: str
    id: str | None = None
    """None for a folder."""
    created_at: datetime | None = None
    metadata: dict[str, Any] | None = None
    """Metadata of the store, such as the size."""


class _Signed(Struct):
    url: str = msgspec.field(name="signedURL")


class SupabaseBucket:
    type = "supabase"

    def __init__(self, client: SupabaseClient, name: str, is_public: bool) -> None:
        self.name = name
        self._client = client
        self._wants_public = is_public
        self._is_public = False
        self._path = quote(name, safe="")

    async def ensure(self) -> None:
        """An existing bucket is not made public: it may hold other objects."""
        with self._translated_errors():
            try:
                found = await self._client.request("GET", f"bucket/{self._path}", _Bucket)
            except SupabaseError as error:
                if not _is_missing(error):
                    raise
                found = await self._create()
        self._is_public = found.public

    async def _create(self) -> _Bucket:
        body = {"id": self.name, "name": self.name, "public": self._wants_public}
        try:
            await self._client.request("POST", "bucket", dict[str, Any], body)
            return _Bucket(self._wants_public)
        except SupabaseError as error:
            if error.status == 409:  # another gateway has created it
                return await self._client.request("GET", f"bucket/{self._path}", _Bucket)
            if error.status in (401, 403):
                raise BucketForbiddenError(
                    f"the bucket {self.name!r} cannot be seen or created with this key; "
                    "use the key of the service role"
                ) from None
            raise

    def upload(self, key: str, label: ObjectLabel) -> SupabaseUpload:
        about = base64.b64encode(msgspec.json.encode({ABOUT: label.about})).decode()
        headers = {
            "Content-Type": label.content_type,
            "Cache-Control": "private, no-store",
            "x-metadata": about,
            "x-upsert": "false",
        }
        return SupabaseUpload(
            self._client, self._object(key), headers, self._translated_errors, lambda: self.delete([key])
        )

    def _object(self, key: str, action: str = "") -> str:
        return f"object/{action}{self._path}/{quote(key)}"

    async def find(self, key: str) -> ObjectInfo | None:
        with self._translated_errors():
            try:
                found = await self._client.request("GET", self._object(key, "info/"), _Info)
            except SupabaseError as error:
                if _is_missing(error):
                    return None
                raise
        about = str((found.metadata or {}).get(ABOUT, ""))
        return ObjectInfo(found.size or 0, found.content_type or "", about)

    async def read(self, key: str, start: int, length: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        with self._translated_errors():
            async with self._client.send("GET", self._object(key), headers=headers) as reply:
                body = await reply.read()
                # A server without ranges sends the whole object.
                return body if reply.status == 206 else body[start : start + length]

    async def list(self, folder: str) -> AsyncIterator[Sequence[ListedObject]]:
        entries = await self._entries(folder)
        yield [_listed(folder, entry) for entry in entries if entry.id]
        for entry in entries:
            if not entry.id:
                async for page in self.list(_joined(folder, entry.name)):
                    yield page

    async def _entries(self, folder: str) -> Sequence[_Entry]:
        """All entries of a folder, read before any is deleted, which would shift the next page."""
        found: list[_Entry] = []
        order = {"column": "name", "order": "asc"}
        while True:
            body = {"prefix": folder, "limit": PAGE, "offset": len(found), "sortBy": order}
            with self._translated_errors():
                page = await self._client.request(
                    "POST", f"object/list/{self._path}", tuple[_Entry, ...], body
                )
            found += page
            if len(page) < PAGE:
                return found

    async def delete(self, keys: Sequence[str]) -> None:
        with self._translated_errors():
            await self._client.request("DELETE", f"object/{self._path}", list[Any], {"prefixes": keys})

    async def signed(self, key: str, seconds: float) -> str | None:
        with self._translated_errors():
            path = self._object(key, "sign/")
            made = await self._client.request("POST", path, _Signed, {"expiresIn": int(seconds)})
        return f"{self._client.base}/{made.url.lstrip('/')}"

    async def public(self, key: str) -> str | None:
        return f"{self._client.base}/{self._object(key, 'public/')}" if self._is_public else None

    async def close(self) -> None:
        await self._client.close()

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Translate the errors of Supabase."""
        try:
            yield
        except SupabaseError as error:
            if not _is_missing(error):
                raise error.for_users(self.name) from None
            if "bucket" in error.reason.lower():
                raise BucketNotFoundError(f"there is no bucket {self.name!r}") from None
            raise ArtifactStoreError("the store no longer has it") from None


def _is_missing(error: SupabaseError) -> bool:
    return error.status == 404 or "not found" in error.reason.lower()


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _listed(folder: str, entry: _Entry) -> ListedObject:
    size = (entry.metadata or {}).get("size", 0)
    modified = entry.created_at.timestamp() if entry.created_at else 0.0
    return ListedObject(_joined(folder, entry.name), size if isinstance(size, int) else 0, modified)


SMALL = 1024 * 1024
MAX_QUEUED = 4
"""Pieces that are written and not sent yet."""


class SupabaseUpload:
    def __init__(
        self,
        client: SupabaseClient,
        path: str,
        headers: Mapping[str, str],
        translated_errors: Callable[[], AbstractContextManager[None]],
        delete: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._path = path
        self._headers = headers
        self._translated_errors = translated_errors
        self._delete = delete
        self._is_closing = False
        """Whether the object may exist already."""
        self._buffer = bytearray()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED)
        self._sending: asyncio.Task[None] | None = None

    async def write(self, piece: bytes) -> None:
        if self._sending is not None:
            await self._put(piece)
            return
        self._buffer += piece
        if len(self._buffer) > SMALL:
            self._sending = asyncio.create_task(self._send(self._body()))
            await self._put(bytes(self._buffer))
            self._buffer.clear()

    async def _put(self, piece: bytes) -> None:
        """Wait for room in the queue, unless the server has answered already, which is an error."""
        assert self._sending is not None
        putting = asyncio.create_task(self._pieces.put(piece))
        try:
            await asyncio.wait((putting, self._sending), return_when=asyncio.FIRST_COMPLETED)
            was_put = putting.done()
        finally:
            putting.cancel()
        if self._sending.done():
            self._sending.result()
        if not was_put:
            raise ArtifactStoreUnreachableError("the store ended the upload early")

    async def _body(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece

    async def _send(self, body: AsyncIterator[bytes] | bytes) -> None:
        with self._translated_errors():
            async with self._client.send("POST", self._path, data=body, headers=self._headers) as reply:
                await reply.read()

    async def finish(self) -> None:
        self._is_closing = True
        if self._sending is None:
            await self._send(bytes(self._buffer))
            return
        await self._put(b"")
        await self._sending

    async def abort(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        if self._is_closing:
            await self._delete()


MAX_ERROR_BYTES = 64 * 1024
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoding a foreign reply."""
_STATUS = re.compile("[1-5][0-9]{2}")


class _ErrorBody(msgspec.Struct, rename="camel"):
    message: str = ""
    status_code: str | int = ""


class SupabaseError(ArtifactStoreError):
    """An error reply; `status` is the real one."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def for_users(self, bucket: str) -> ArtifactStoreError:
        """An error without the server's own message."""
        if self.status in (401, 403):
            return BucketForbiddenError(f"the bucket {bucket!r} does not allow this with our key")
        if self.status == 413:
            return ArtifactStoreFullError("it is larger than the store accepts")
        return ArtifactStoreUnreachableError(f"the store answers with HTTP {self.status}")


class SupabaseClient:
    """Keeps connections alive. Opens its session at the first request, on that event loop."""

    def __init__(self, url: str, key: str) -> None:
        self.base = f"{url.rstrip('/')}/storage/v1"
        self._headers = {"apikey": key, "Authorization": f"Bearer {key}", "X-Client-Info": "toolyard"}
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # 90 ms of CPU

            self._session = aiohttp.ClientSession(
                # Shorter than on any server, so that no upload uses a connection that is being closed.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=10),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The caller sets time limits.
                timeout=aiohttp.ClientTimeout(total=None),
                headers=self._headers,
            )
        return self._session

    @asynccontextmanager
    async def send(
        self, method: str, path: str, *, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The reply once its head has arrived; raises SupabaseError for an error status."""
        import aiohttp

        try:
            async with self.session.request(
                method, f"{self.base}/{path}", data=data, headers=headers, allow_redirects=False
            ) as reply:
                if reply.status >= 300:
                    raise await _error_of(reply)
                yield reply
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            logger.debug("%s %s: %r", method, path, error)
            raise ArtifactStoreUnreachableError("the store cannot be reached") from None

    async def request(self, method: str, path: str, type: type[T], body: Any = None) -> T:
        """Send JSON and decode the whole reply."""
        data = None if body is None else msgspec.json.encode(body)
        headers = None if body is None else {"Content-Type": "application/json"}
        async with self.send(method, path, data=data, headers=headers) as reply:
            body = await reply.read()
            try:
                return msgspec.json.decode(body, type=type)
            except DECODE_ERRORS:
                raise ArtifactStoreUnreachableError("the store answers with an unexpected reply") from None

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


async def _error_of(reply: aiohttp.ClientResponse) -> SupabaseError:
    raw = await reply.content.read(MAX_ERROR_BYTES)
    try:
        error = msgspec.json.decode(raw, type=_ErrorBody)
    except DECODE_ERRORS:
        return SupabaseError(reply.status, "")
    status = str(error.status_code)
    return SupabaseError(int(status) if _STATUS.fullmatch(status) else reply.status, error.message)
