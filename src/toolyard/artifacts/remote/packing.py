"""Content as it lies in a bucket: as it is, or packed by gzip."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, Literal, Protocol

from ..store import StoreError

Encoding = Literal["identity", "gzip"]
LARGEST_PACKED = 2**32 - 1
"""A gzip file has the length of its content in its last four bytes, and that is how we know it."""
TAIL = 4
_LEVEL = 6
_GZIP = 31
_PIECE = 1024 * 1024


class Packer(Protocol):
    async def pack(self, piece: bytes) -> bytes: ...

    async def rest(self) -> bytes: ...


class Plain:
    async def pack(self, piece: bytes) -> bytes:
        return piece

    async def rest(self) -> bytes:
        return b""


class Gzip:
    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        self._size = 0

    async def pack(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > LARGEST_PACKED:
            raise StoreError("it has more than 4 GiB, which is too much for compress = 'gzip'")
        return await asyncio.to_thread(self._packer.compress, piece)

    async def rest(self) -> bytes:
        return self._packer.flush()


def packer(encoding: Encoding) -> Packer:
    return Gzip() if encoding == "gzip" else Plain()


def unpacked_size(tail: bytes) -> int:
    return int.from_bytes(tail, "little")


async def fill(file: BinaryIO, pieces: AsyncIterator[bytes], encoding: str, size: int) -> None:
    """Write the content to a file; StoreError when it is not what it says it is."""
    opened = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    left = size
    async for piece in pieces:
        left -= await asyncio.to_thread(_write, file, piece, opened, left)
    if opened is not None:
        left -= file.write(opened.flush())
    if left or (opened is not None and not opened.eof):
        raise StoreError("its content is damaged")


def _write(file: BinaryIO, piece: bytes, opened: Any, left: int) -> int:
    """How many bytes were written."""
    if opened is None:
        if len(piece) > left:
            raise StoreError("its content is damaged")
        return file.write(piece)
    written = 0
    try:
        while piece:
            found = opened.decompress(piece, _PIECE)
            written += file.write(found)
            if written > left:
                raise StoreError("its content is damaged")
            piece = opened.unconsumed_tail
    except zlib.error:
        raise StoreError("its content is damaged") from None
    return written
