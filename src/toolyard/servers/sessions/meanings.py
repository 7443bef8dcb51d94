"""What messages mean: vectors made when they are stored, and the nearest ones found.

Owns what of a message is made into a vector, how it looks in a database, and which vectors are in memory. An
owner's are read at the first search by meaning, later only what has come since.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ...meaning.vectors import VectorSet
from .model import Message, Owner
from .stores.script import Row
from .stores.writing import Vectored

if TYPE_CHECKING:
    from ...meaning.semantic import Semantic

MOST_CHARACTERS = 2_000
"""Of a message; what comes later moves its vector little."""
MOST_VECTORS = 2_000_000
"""In memory, of all owners, at 200 bytes each."""
# Read at once: few enough that others are answered in between.
_AT_ONCE = 5_000

Floats = npt.NDArray[np.float32]


class Encoder:
    """The shipped embedding, loaded when it is first needed. Safe to use from several threads."""

    def __init__(self) -> None:
        self._semantic: Semantic | None = None
        self._lock = Lock()

    def encode(self, texts: Sequence[str]) -> Floats:
        """One unit row a text; zeros where no word of it is known."""
        with self._lock:
            if self._semantic is None:
                from ...meaning.semantic import Semantic  # 70 ms and 20 MB, for who stores or searches

                self._semantic = Semantic.load()
            return self._semantic.encode([text[:MOST_CHARACTERS] for text in texts])

    def vectored(self, messages: Sequence[Message]) -> list[Vectored]:
        """Messages with their vectors; what tools and the system say has none."""
        at = [i for i, said in enumerate(messages) if said.text and said.role in ("user", "assistant")]
        found: dict[int, bytes] = {}
        if at:
            rows = self.encode([messages[i].text for i in at])
            found = {i: packed for i, row in zip(at, rows, strict=True) if (packed := _packed(row))}
        return [Vectored(message, found.get(i)) for i, message in enumerate(messages)]


class Reads(Protocol):
    async def vectors(self, owner: Owner, after: int, most: int) -> list[Row]: ...


class Meanings:
    """The vectors of the owners who search, and of no others."""

    def __init__(self, keeper: Reads, encoder: Encoder, most: int = MOST_VECTORS) -> None:
        self._keeper = keeper
        self._encoder = encoder
        self._most = most
        self._set: VectorSet[Owner] | None = None
        # The serial of the last one read, by owner, the owner who searched last at the end.
        self._read: dict[Owner, int] = {}

    async def nearest(self, owner: Owner, query: str, limit: int, least: float) -> list[tuple[int, float]]:
        """Messages of the owner that mean about the same, the nearest first; one may be gone by now."""
        vector = self._encoder.encode([query])[0]
        if not vector.any():
            return []
        vectors = await self._up_to_date(owner, len(vector))
        return vectors.nearest(owner, vector, limit, least)

    def forget(self, owner: Owner, message: int) -> None:
        if self._set is not None:
            self._set.remove(owner, message)

    async def _up_to_date(self, owner: Owner, dim: int) -> VectorSet[Owner]:
        vectors = self._set = self._set or VectorSet[Owner](dim)
        last = self._read.get(owner, 0)
        while rows := await self._keeper.vectors(owner, last, _AT_ONCE):
            vectors.put_all(owner, [row[1] for row in rows], _unpacked([row[2] for row in rows]))
            last = rows[-1][0]
            if len(rows) < _AT_ONCE:
                break
        self._read[owner] = max(last, self._read.pop(owner, 0))
        self._make_room(owner)
        return vectors

    def _make_room(self, owner: Owner) -> None:
        """Let go of those whose owners searched longest ago."""
        assert self._set is not None
        for other in list(self._read):
            if len(self._set) <= self._most:
                return
            if other != owner:
                self._set.clear(other)
                del self._read[other]


def _packed(row: Floats) -> bytes | None:
    scale = float(np.abs(row).max()) / 127
    if not scale:
        return None
    return np.float32(scale).tobytes() + np.rint(row / scale).astype(np.int8).tobytes()


def _unpacked(packed: Sequence[Any]) -> Floats:
    table = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
    scales = table[:, :4].copy().view(np.float32)
    return table[:, 4:].view(np.int8).astype(np.float32) * scales
