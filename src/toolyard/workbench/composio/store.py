"""Composio's store: a file goes up by a presigned address, and tools take it by its key, as an attachment."""

import asyncio
import hashlib
import os
import secrets
import time
from typing import Any, BinaryIO

from msgspec import Struct

from ...composio import NOT_FOUND, members, text
from .api import CHUNK, ComposioApi, ComposioError, OnProgress, silent, too_large, without_query

REQUESTS = ("/api/v3/files/upload/request", "/api/v3.1/files/upload/request")
"""Composio's own client uses the first, whatever the version of the rest."""
MAX_NAME = 100
MAX_TRIES = 2
DEFAULT_TYPE = "application/octet-stream"


class StoredFile(Struct, frozen=True):
    """A file in Composio's store."""

    key: str
    """What a tool's argument names as `s3key`."""
    name: str
    mimetype: str
    size: int
    md5: str
    url: str
    """Its address without the signature: it names the file and opens nothing."""


class ComposioStore:
    def __init__(self, api: ComposioApi) -> None:
        self._api = api

    async def upload(
        self,
        source: BinaryIO,
        name: str,
        *,
        mimetype: str = "",
        tool: str,
        toolkit: str,
        report: OnProgress = silent,
    ) -> StoredFile:
        """Store a local file that is open for reading, for one tool of one toolkit.

        An address that has expired, or a transfer that broke off, is tried once more: the store keeps one
        file for a key, so nothing is there twice.
        """
        name, mimetype = short_name(name), mimetype or type_of(name)
        start = source.tell()
        size, md5 = await asyncio.to_thread(_measure, source, self._api.access.max_bytes)
        for tries_left in range(MAX_TRIES - 1, -1, -1):
            granted = await self._request(
                {
                    "md5": md5,
                    "filename": name,
                    "mimetype": mimetype,
                    "tool_slug": tool,
                    "toolkit_slug": toolkit,
                }
            )
            stored = StoredFile(granted.key, name, mimetype, size, md5, without_query(granted.url))
            if granted.is_stored:
                return stored
            source.seek(start)
            try:
                await self._api.upload(
                    granted.url, source, size, mimetype, md5=md5, headers=granted.headers, report=report
                )
                return stored
            except ComposioError as error:
                if not tries_left or error.fault not in ("storage", "interrupted"):
                    raise
        raise AssertionError

    async def _request(self, asked: dict[str, str]) -> "_Grant":
        for path in REQUESTS:
            try:
                reply = self._api.decode(await self._api.post(path, asked), dict[str, Any])
                return self._granted(reply)
            except ComposioError as error:
                # A tool or toolkit that does not exist is 404 as well; its message then names it.
                if error.status not in NOT_FOUND or path == REQUESTS[-1] or _names(error, asked):
                    raise
        raise AssertionError

    def _granted(self, reply: dict[str, Any]) -> "_Grant":
        kind, key = text(reply.get("type")), text(reply.get("key"))
        for known in ("new", "update", "existing"):
            middle = "" if known == "existing" else "_presigned"
            snake = f"{known}{middle}_url"
            camel = "".join(part.title() if number else part for number, part in enumerate(snake.split("_")))
            url = text(reply.get(snake), reply.get(camel))
            if key and url and kind in ("", known):
                backend = text(members(reply.get("metadata")).get("storage_backend"))
                return _Grant(key, url, known == "existing", backend == "azure_blob_storage")
        raise ComposioError("garbled", "its reply to the upload request has no key or no address")


class _Grant(Struct, frozen=True):
    key: str
    url: str
    is_stored: bool
    """The same file is there already."""
    is_azure: bool

    @property
    def headers(self) -> dict[str, str]:
        return {"x-ms-blob-type": "BlockBlob"} if self.is_azure else {}


def _names(error: ComposioError, asked: dict[str, str]) -> bool:
    said = error.message.lower()
    return any(asked[name].lower() in said for name in ("tool_slug", "toolkit_slug"))


def _measure(source: BinaryIO, max_bytes: int) -> tuple[int, str]:
    """Return the size and the MD5 of what is left of a file."""
    digest, size = hashlib.md5(usedforsecurity=False), 0
    while piece := source.read(CHUNK):
        size += len(piece)
        if size > max_bytes:
            raise too_large(max_bytes)
        digest.update(piece)
    return size, digest.hexdigest()


def type_of(name: str) -> str:
    import mimetypes  # 10 ms of CPU: reads the system's table

    return mimetypes.guess_type(name, strict=False)[0] or DEFAULT_TYPE


def short_name(name: str) -> str:
    """The last part of a path; replaced, as Composio's own clients do, if it is too long for the store."""
    name = os.path.basename(name)
    if len(name) <= MAX_NAME:
        return name
    extension = os.path.splitext(name)[1][:20]
    return f"file_{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(4)}{extension}"
