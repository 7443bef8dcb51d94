"""Where a function's answer goes: piece by piece into whatever carries it back.

An `Outlet` is told the status and the headers once, then the body. `Collected` holds it all until the end,
for a runtime that takes one whole reply; the one that streams is in `lambda_runtime`.
"""

import sys
from typing import Any, Protocol

from .asgi import Headers
from .lambda_events import MOST_BYTES, Kind, written

ENVELOPE = 16 * 1024
"""What a reply needs beside its body: the headers, the names of the fields."""
SMALL = 16 * 1024
"""Up to here a piece is taken for as heavy as it can be: to count costs 20 µs, and a call has 500."""
ASCII_ALONE = sys.version_info < (3, 12)
"""How AWS's own loop writes replies in its older runtimes: `é`, which is two bytes, as six."""
_HEAVIEST = 3 if ASCII_ALONE else 2
_ESCAPED = bytes(range(0x7F, 0x100))


class Outlet(Protocol):
    @property
    def room(self) -> int:
        """How many bytes can still be written, as `weight` counts them."""
        ...

    def weight(self, chunk: bytes) -> int:
        """How much of the room a piece takes."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Say what kind of answer it is, once, before anything is written."""
        ...

    async def write(self, chunk: bytes) -> None: ...


class Collected:
    """The answer as one reply. What it weighs is what it takes as text inside that reply's JSON."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self.status = 0
        self._headers: Headers = []
        self._chunks: list[bytes] = []
        self._room = MOST_BYTES[kind] - ENVELOPE

    @property
    def room(self) -> int:
        return self._room

    def weight(self, chunk: bytes) -> int:
        if len(chunk) <= SMALL:
            return _HEAVIEST * len(chunk)
        size = _in_ascii(chunk) if ASCII_ALONE else len(chunk)
        return size + chunk.count(b'"') + chunk.count(b"\\") + chunk.count(b"\n")

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        self._headers = headers

    async def write(self, chunk: bytes) -> None:
        self._room -= self.weight(chunk)
        self._chunks.append(chunk)

    def reply(self) -> dict[str, Any]:
        return written(self.status, self._headers, b"".join(self._chunks), self._kind)


def _in_ascii(chunk: bytes) -> int:
    """What it takes where each of UTF-16's halves that is not ASCII is written as `\\u00e9` is."""
    plain = len(chunk.translate(None, _ESCAPED))
    return plain + 6 * (len(chunk.decode().encode("utf-16-le")) // 2 - plain)
