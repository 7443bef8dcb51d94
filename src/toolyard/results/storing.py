"""Whole results on their way into the store. A store that fails costs the link, and nothing else.

That holds for faults that nobody foresaw too: stores are others' programs, and so is what they answer.
"""

import logging
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct

from ..artifacts.store import Store, Stored, StoreError, Writing
from .json_parts import Buffer

logger = logging.getLogger("toolyard.results")

RESOURCE = "toolyard://results/"
JSON, TEXT = "application/json", "text/plain; charset=utf-8"
PIECE = 256 * 1024
LONGEST_REASON = 300


class Kept(Struct, frozen=True):
    """Where a whole result is, or why it is nowhere."""

    type: str
    stored: Stored | None = None
    fault: str = ""

    def told(self) -> dict[str, Any]:
        """`storage` as a model reads it."""
        stored = self.stored
        if stored is None:
            reason = self.fault[:LONGEST_REASON]
            return {"type": self.type, "error": f"The whole result was not kept: {reason}"}
        told = {
            "type": stored.type,
            "bucket": stored.bucket,
            "key": stored.key,
            "url": stored.url,
            "expires_at": stored.expires_at,
            "resource": f"{RESOURCE}{stored.artifact.id}",
        }
        return {name: value for name, value in told.items() if value is not None}

    def link(self, tool: str) -> dict[str, Any] | None:
        if self.stored is None:
            return None
        artifact = self.stored.artifact
        return {
            "type": "resource_link",
            "uri": f"{RESOURCE}{artifact.id}",
            "name": f"result of {tool}",
            "mimeType": artifact.content_type,
            "size": artifact.size,
        }


async def pieces_of(body: Buffer) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield bytes(body[start : start + PIECE])


async def keep(store: Store, tenant: str, tool: str, kind: str, pieces: AsyncIterator[bytes]) -> Kept:
    """All pieces are taken, even when the store has failed: somebody else may look at them too."""
    copying = _Copying(store, tenant, tool, kind)
    try:
        async for piece in pieces:
            await copying.write(piece)
        return await copying.finish()
    except BaseException:
        await copying.discard()
        raise


class _Copying:
    def __init__(self, store: Store, tenant: str, tool: str, kind: str) -> None:
        self._store = store
        self._about = (tenant, tool, kind)
        self._writing: Writing | None = None
        self._fault: StoreError | None = None

    async def write(self, piece: bytes) -> None:
        if self._fault is not None:
            return
        try:
            await (await self._begun()).write(piece)
        except Exception as error:
            self._fault = _told(error)

    async def _begun(self) -> Writing:
        if self._writing is None:
            self._writing = await self._store.begin(*self._about)
        return self._writing

    async def finish(self) -> Kept:
        try:
            if self._fault is None:
                return Kept(self._store.type, await (await self._begun()).finish())
        except Exception as error:
            self._fault = _told(error)
        await self.discard()
        reason = self._fault.reason
        logger.warning("the whole result of %s could not be kept: %s", self._about[1], reason)
        return Kept(self._store.type, fault=reason)

    async def discard(self) -> None:
        if self._writing is not None:
            try:
                await self._writing.discard()
            except Exception as error:
                _told(error)


def _told(error: Exception) -> StoreError:
    """In words fit for a model; what was not foreseen is for the log alone."""
    if isinstance(error, StoreError):
        return error
    logger.error("the store failed in a way that was not foreseen", exc_info=error)
    return StoreError("the store failed")
