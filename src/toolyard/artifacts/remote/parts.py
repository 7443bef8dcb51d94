"""One result on its way into a bucket, and one that is read out of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from ..files import read_range
from ..quotas import Share
from ..store import Artifact, Stored
from .bucket import Bucket, Upload
from .copies import Copies
from .packing import Packer, fill
from .patience import Patience

BLOCK = 8 * 1024 * 1024
"""How much is fetched at once: little enough to come within the timeout, and to be held in memory."""


class RemoteWriting:
    """`done` is told when it is there, and says how it is reached; `given_up` when it will never be."""

    def __init__(
        self,
        artifact: Artifact,
        upload: Upload,
        packer: Packer,
        share: Share,
        patience: Patience,
        done: Callable[[Artifact], Awaitable[Stored]],
        given_up: Callable[[Upload], None],
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

    async def finish(self) -> Stored:
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


class RemoteReading:
    def __init__(
        self,
        artifact: Artifact,
        bucket: Bucket,
        key: str,
        stored_size: int,
        copies: Copies,
        patience: Patience,
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
        await fill(file, blocks, self.artifact.encoding, self.artifact.size)

    async def close(self) -> None:
        if self._copy is not None:
            self._copy = None
            self._copies.give_back(self.artifact.id)
