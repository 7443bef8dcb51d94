"""The vectors of messages: made when a message is stored, and searched for the nearest.

Owns which part of a message is encoded, the stored form of a vector, and which vectors are in memory. An
owner's vectors are loaded at the first semantic search; later searches load only new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ...meaning.vectors import VectorSet
from .model import ConversationMessage, ConversationOwner
from .stores.changes import VectoredMessage
from .stores.script import Row

if TYPE_CHECKING:
    from ...meaning.embedding import TextEmbedding

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
        self._semantic: TextEmbedding | None = None
        self._lock = Lock()

    def encode(self, texts: Sequence[str]) -> Floats:
        """One unit row a text; zeros where no word of it is known."""
        with self._lock:
            if self._semantic is None:
                from ...meaning.embedding import TextEmbedding  # 70 ms and 20 MB, for who stores or searches

                self._semantic = TextEmbedding.load()
            return self._semantic.encode([text[:MOST_CHARACTERS] for text in texts])

    def vectored(self, messages: Sequence[ConversationMessage]) -> list[VectoredMessage]:
        """Messages with their vectors; what tools and the system say has none."""
        at = [i for i, said in enumerate(messages) if said.text and said.role in ("user", "assistant")]
        found: dict[int, bytes] = {}
        if at:
            rows = self.encode([messages[i].text for i in at])
            found = {i: packed for i, row in zip(at, rows, strict=True) if (packed := _packed(row))}
        return [VectoredMessage(message, found.get(i)) for i, message in enumerate(messages)]


class VectorReader(Protocol):
    async def vectors(self, owner: ConversationOwner, after: int, most: int) -> list[Row]: ...


class ConversationVectors:
    """The vectors of the owners who search, and of no others."""

    def __init__(self, keeper: VectorReader, encoder: Encoder, most: int = MOST_VECTORS) -> None:
        self._keeper = keeper
        self._encoder = encoder
        self._most = most
        self._set: VectorSet[ConversationOwner] | None = None
        # The serial of the last one read, by owner, the owner who searched last at the end.
        self._read: dict[ConversationOwner, int] = {}

    async def nearest(
        self, owner: ConversationOwner, query: str, limit: int, least: float
    ) -> list[tuple[int, float]]:
        """Messages of the owner that mean about the same, the nearest first; one may be gone by now."""
        vector = self._encoder.encode([query])[0]
        if not vector.any():
            return []
        vectors = await self._up_to_date(owner, len(vector))
        return vectors.nearest(owner, vector, limit, least)

    def forget(self, owner: ConversationOwner, message: int) -> None:
        if self._set is not None:
            self._set.remove(owner, message)

    async def _up_to_date(self, owner: ConversationOwner, dim: int) -> VectorSet[ConversationOwner]:
        vectors = self._set = self._set or VectorSet[ConversationOwner](dim)
        last = self._read.get(owner, 0)
        while rows := await self._keeper.vectors(owner, last, _AT_ONCE):
            vectors.put_all(owner, [row[1] for row in rows], _unpacked([row[2] for row in rows]))
            last = rows[-1][0]
            if len(rows) < _AT_ONCE:
                break
        self._read[owner] = max(last, self._read.pop(owner, 0))
        self._make_room(owner)
        return vectors

    def _make_room(self, owner: ConversationOwner) -> None:
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
