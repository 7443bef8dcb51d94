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
from .model import ConversationMessage, ConversationOwner, Row, VectoredMessage

if TYPE_CHECKING:
    from ...meaning.embedding import TextEmbedding

MAX_CHARACTERS = 2_000
"""Characters of a message that are encoded; later ones change its vector little."""
MAX_VECTORS = 2_000_000
"""Vectors of all owners in memory, at 200 bytes each."""
# Vectors read at once: few enough not to delay other requests.
_AT_ONCE = 5_000

Floats = npt.NDArray[np.float32]


class Encoder:
    """The bundled embedding, loaded on first use. Safe to use from several threads."""

    def __init__(self) -> None:
        self._semantic: TextEmbedding | None = None
        self._lock = Lock()

    def encode(self, texts: Sequence[str]) -> Floats:
        """Returns a unit row for each text; zeros if no word of it is known."""
        with self._lock:
            if self._semantic is None:
                from ...meaning.embedding import TextEmbedding  # 70 ms and 20 MB, on first use

                self._semantic = TextEmbedding.load()
            return self._semantic.encode([text[:MAX_CHARACTERS] for text in texts])

    def with_vectors(self, messages: Sequence[ConversationMessage]) -> list[VectoredMessage]:
        """Adds vectors to the messages of users and assistants; others get none."""
        at = [i for i, one in enumerate(messages) if one.text and one.role in ("user", "assistant")]
        found: dict[int, bytes] = {}
        if at:
            rows = self.encode([messages[i].text for i in at])
            found = {i: packed for i, row in zip(at, rows, strict=True) if (packed := _encode_vector(row))}
        return [VectoredMessage(message, found.get(i)) for i, message in enumerate(messages)]


class VectorReader(Protocol):
    async def vectors(self, owner: ConversationOwner, after: int, most: int) -> list[Row]: ...


class ConversationVectors:
    """The vectors of the owners who have searched."""

    def __init__(self, store: VectorReader, encoder: Encoder, most: int = MAX_VECTORS) -> None:
        self._store = store
        self._encoder = encoder
        self._most = most
        self._set: VectorSet[ConversationOwner] | None = None
        # The serial of the last vector read, by owner; the owner who searched last is at the end.
        self._read: dict[ConversationOwner, int] = {}

    async def nearest(
        self, owner: ConversationOwner, query: str, limit: int, least: float
    ) -> list[tuple[int, float]]:
        """The owner's messages with a similar meaning, the nearest first; some may be deleted by now."""
        vector = self._encoder.encode([query])[0]
        if not vector.any():
            return []
        vectors = await self._refreshed(owner, len(vector))
        return vectors.nearest(owner, vector, limit, least)

    def forget(self, owner: ConversationOwner, message: int) -> None:
        if self._set is not None:
            self._set.remove(owner, message)

    async def _refreshed(self, owner: ConversationOwner, dim: int) -> VectorSet[ConversationOwner]:
        vectors = self._set = self._set or VectorSet[ConversationOwner](dim)
        last = self._read.get(owner, 0)
        while rows := await self._store.vectors(owner, last, _AT_ONCE):
            vectors.put_all(owner, [row[1] for row in rows], _decode_vectors([row[2] for row in rows]))
            last = rows[-1][0]
            if len(rows) < _AT_ONCE:
                break
        self._read[owner] = max(last, self._read.pop(owner, 0))
        self._make_room(owner)
        return vectors

    def _make_room(self, owner: ConversationOwner) -> None:
        """Evicts the vectors of the owners who searched longest ago."""
        assert self._set is not None
        for other in list(self._read):
            if len(self._set) <= self._most:
                return
            if other != owner:
                self._set.clear(other)
                del self._read[other]


def _encode_vector(row: Floats) -> bytes | None:
    scale = float(np.abs(row).max()) / 127
    if not scale:
        return None
    return np.float32(scale).tobytes() + np.rint(row / scale).astype(np.int8).tobytes()


def _decode_vectors(packed: Sequence[Any]) -> Floats:
    table = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
    scales = table[:, :4].copy().view(np.float32)
    return table[:, 4:].view(np.int8).astype(np.float32) * scales
