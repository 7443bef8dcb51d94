"""One object on its way to Supabase: sent while it is written, and never held whole.

A small one goes in one piece, with its length. A bigger one is a request whose body is not known yet; when
that is broken off, the server keeps nothing of it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

from ..store import Unreachable
from .client import SupabaseClient

SMALL = 1024 * 1024
WAITING = 4
"""Pieces that were written and not sent yet."""


class SupabaseUpload:
    def __init__(
        self,
        client: SupabaseClient,
        path: str,
        headers: Mapping[str, str],
        told: Callable[[], AbstractContextManager[None]],
        removed: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._path = path
        self._headers = headers
        self._told = told
        self._removed = removed
        self._is_closing = False
        """Whether it may be there, even if nobody has said so."""
        self._held = bytearray()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self._sending: asyncio.Task[None] | None = None

    async def write(self, piece: bytes) -> None:
        if self._sending is not None:
            await self._put(piece)
            return
        self._held += piece
        if len(self._held) > SMALL:
            self._sending = asyncio.create_task(self._send(self._body()))
            await self._put(bytes(self._held))
            self._held.clear()

    async def _put(self, piece: bytes) -> None:
        """Wait for room, unless the server has answered already: then it was a refusal."""
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
            raise Unreachable("the store did not wait for all of it")

    async def _body(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece

    async def _send(self, body: AsyncIterator[bytes] | bytes) -> None:
        with self._told():
            async with self._client.send("POST", self._path, data=body, headers=self._headers) as reply:
                await reply.read()

    async def finish(self) -> None:
        self._is_closing = True
        if self._sending is None:
            await self._send(bytes(self._held))
            return
        await self._put(b"")
        await self._sending

    async def abort(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        if self._is_closing:
            await self._removed()
