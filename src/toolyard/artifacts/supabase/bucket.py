"""A bucket of Supabase Storage."""

import base64
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..remote.bucket import Forbidden, Found, Label, Listed, NoBucket
from ..store import StoreError
from .client import Refused, SupabaseClient
from .upload import SupabaseUpload

ABOUT = "toolyard"
PAGE = 1000


class _Bucket(Struct):
    public: bool = False


class _Info(Struct):
    size: int | None = None
    content_type: str | None = None
    metadata: dict[str, Any] | None = None
    """What came along with the upload."""


class _Entry(Struct):
    name: str
    id: str | None = None
    """None for a folder."""
    created_at: datetime | None = None
    metadata: dict[str, Any] | None = None
    """What the store knows of it, such as its size."""


class _Signed(Struct):
    url: str = msgspec.field(name="signedURL")


class SupabaseBucket:
    type = "supabase"

    def __init__(self, client: SupabaseClient, name: str, is_public: bool) -> None:
        self.name = name
        self._client = client
        self._wants_public = is_public
        self._is_public = False
        self._at = quote(name, safe="")

    async def ensure(self) -> None:
        """An existing bucket stays as it is: what else lies in a private one is not ours to show."""
        with self._told():
            try:
                found = await self._client.ask("GET", f"bucket/{self._at}", _Bucket)
            except Refused as refused:
                if not _is_missing(refused):
                    raise
                found = await self._create()
        self._is_public = found.public

    async def _create(self) -> _Bucket:
        wanted = {"id": self.name, "name": self.name, "public": self._wants_public}
        try:
            await self._client.ask("POST", "bucket", dict[str, Any], wanted)
            return _Bucket(self._wants_public)
        except Refused as refused:
            if refused.status == 409:  # another gateway was quicker
                return await self._client.ask("GET", f"bucket/{self._at}", _Bucket)
            if refused.status in (401, 403):
                raise Forbidden(
                    f"the bucket {self.name!r} cannot be seen or created with this key; "
                    "it takes that of the service role"
                ) from None
            raise

    def upload(self, key: str, label: Label) -> SupabaseUpload:
        about = base64.b64encode(msgspec.json.encode({ABOUT: label.about})).decode()
        headers = {
            "Content-Type": label.content_type,
            "Cache-Control": "private, no-store",
            "x-metadata": about,
            "x-upsert": "false",
        }
        return SupabaseUpload(
            self._client, self._object(key), headers, self._told, lambda: self.delete([key])
        )

    def _object(self, key: str, way: str = "") -> str:
        return f"object/{way}{self._at}/{quote(key)}"

    async def find(self, key: str) -> Found | None:
        with self._told():
            try:
                found = await self._client.ask("GET", self._object(key, "info/"), _Info)
            except Refused as refused:
                if _is_missing(refused):
                    return None
                raise
        about = str((found.metadata or {}).get(ABOUT, ""))
        return Found(found.size or 0, found.content_type or "", about)

    async def read(self, key: str, start: int, length: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        with self._told():
            async with self._client.send("GET", self._object(key), headers=headers) as reply:
                body = await reply.read()
                # One that has no ranges sends all of it.
                return body if reply.status == 206 else body[start : start + length]

    async def list(self, folder: str) -> AsyncIterator[Sequence[Listed]]:
        entries = await self._entries(folder)
        yield [_listed(folder, entry) for entry in entries if entry.id]
        for entry in entries:
            if not entry.id:
                async for page in self.list(_joined(folder, entry.name)):
                    yield page

    async def _entries(self, folder: str) -> Sequence[_Entry]:
        """All that is directly in a folder: whoever deletes some must not shift the next page."""
        found: list[_Entry] = []
        order = {"column": "name", "order": "asc"}
        while True:
            body = {"prefix": folder, "limit": PAGE, "offset": len(found), "sortBy": order}
            with self._told():
                page = await self._client.ask("POST", f"object/list/{self._at}", tuple[_Entry, ...], body)
            found += page
            if len(page) < PAGE:
                return found

    async def delete(self, keys: Sequence[str]) -> None:
        with self._told():
            await self._client.ask("DELETE", f"object/{self._at}", list[Any], {"prefixes": keys})

    async def signed(self, key: str, seconds: float) -> str | None:
        with self._told():
            path = self._object(key, "sign/")
            made = await self._client.ask("POST", path, _Signed, {"expiresIn": int(seconds)})
        return f"{self._client.base}/{made.url.lstrip('/')}"

    async def public(self, key: str) -> str | None:
        return f"{self._client.base}/{self._object(key, 'public/')}" if self._is_public else None

    async def close(self) -> None:
        await self._client.close()

    @contextmanager
    def _told(self) -> Generator[None]:
        """Refusals become ours."""
        try:
            yield
        except Refused as refused:
            if not _is_missing(refused):
                raise refused.shown(self.name) from None
            if "bucket" in refused.reason.lower():
                raise NoBucket(f"there is no bucket {self.name!r}") from None
            raise StoreError("the store does not have it any more") from None


def _is_missing(refused: Refused) -> bool:
    return refused.status == 404 or "not found" in refused.reason.lower()


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _listed(folder: str, entry: _Entry) -> Listed:
    size = (entry.metadata or {}).get("size", 0)
    modified = entry.created_at.timestamp() if entry.created_at else 0.0
    return Listed(_joined(folder, entry.name), size if isinstance(size, int) else 0, modified)
