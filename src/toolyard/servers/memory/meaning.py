"""The meaning of memories: vectors as they are stored, and those of an owner kept in memory for searching.

Owns which stored vectors can be trusted: each carries a mark of the embedding that made it, and one made by
another embedding is made again from the text. What other processes changed is caught up with before every
search, by the owner's revision.
"""

import asyncio
import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from ...meaning.semantic import Semantic, Vectors
from ...meaning.vectors import VectorSet
from .store import Changes, Owner, Store

MOST_KEPT = 500_000
"""Vectors in memory, some 100 MB; the owners who searched last keep theirs."""
LEAST_SIMILAR = 0.35
_MARK_BYTES = 4
_PROBE = "a reminder of what the customer likes, and when the invoice is due"
_LONGEST = 20_000


class Embedding:
    """Loaded on first use: 150 ms of CPU."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._semantic: Semantic | None = None
        self._mark = b""

    @property
    def dim(self) -> int:
        return self._loaded().dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A memory's beginning stands for it: of what is very long the sum says nothing any more."""
        return self._loaded().encode([text[:_LONGEST] for text in texts])

    def packed(self, vector: Vectors) -> bytes:
        self._loaded()
        return self._mark + vector.astype(np.float16).tobytes()

    def unpacked(self, stored: Sequence[bytes]) -> Vectors:
        numbers = b"".join(one[_MARK_BYTES:] for one in stored)
        return np.frombuffer(numbers, np.float16).reshape(len(stored), self.dim).astype(np.float32)

    def made(self, stored: bytes) -> bool:
        """Whether it was this embedding that made it."""
        return stored.startswith(self._mark) and len(stored) == _MARK_BYTES + 2 * self.dim

    def _loaded(self) -> Semantic:
        with self._lock:
            if self._semantic is None:
                semantic = Semantic.load()
                probe = semantic.encode([_PROBE]).astype(np.float16).tobytes()
                self._mark = hashlib.blake2b(probe, digest_size=_MARK_BYTES).digest()
                self._semantic = semantic
            return self._semantic


class Meanings:
    """Every owner's vectors, as far as they fit."""

    def __init__(self, store: Store) -> None:
        self.embedding = Embedding()
        self._store = store
        self._vectors: VectorSet[Owner] | None = None
        self._revisions: OrderedDict[Owner, int] = OrderedDict()
        # One owner's many vectors keep nobody else waiting.
        self._catching_up: defaultdict[Owner, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def nearest(
        self, owner: Owner, vector: Vectors, limit: int, least: float = LEAST_SIMILAR
    ) -> list[tuple[int, float]]:
        """Numbers of memories and how similar they are, the most similar first."""
        vectors = await self._caught_up(owner)
        if not vector.any():
            return []
        return await asyncio.to_thread(vectors.nearest, owner, vector, limit, least)

    async def _caught_up(self, owner: Owner) -> VectorSet[Owner]:
        async with self._catching_up[owner]:
            vectors = await self._opened()
            changes = await self._store.changes(owner, self._revisions.get(owner, -1))
            if changes is not None:
                await self._take(vectors, owner, changes)
            return vectors

    async def _opened(self) -> VectorSet[Owner]:
        if self._vectors is None:
            dim = await asyncio.to_thread(lambda: self.embedding.dim)
            if self._vectors is None:  # nobody else has made it meanwhile
                self._vectors = VectorSet(dim)
        return self._vectors

    async def _take(self, vectors: VectorSet[Owner], owner: Owner, changes: Changes) -> None:
        if changes.from_scratch:
            vectors.clear(owner)
        for id in changes.gone:
            vectors.remove(owner, id)
        if changes.there:
            there = dict(changes.there)
            stale = [id for id, stored in changes.there if not self.embedding.made(stored)]
            for id in stale:
                del there[id]
            there |= await self._made_again(owner, stale)
            await asyncio.to_thread(self._put, vectors, owner, there)
        self._revisions[owner] = changes.revision
        self._revisions.move_to_end(owner)
        self._make_room(vectors)

    def _make_room(self, vectors: VectorSet[Owner]) -> None:
        """Let go of who searched longest ago, unless they are just catching up."""
        for owner in list(self._revisions)[:-1]:
            if len(vectors) <= MOST_KEPT:
                return
            if not self._catching_up[owner].locked():
                del self._revisions[owner], self._catching_up[owner]
                vectors.clear(owner)

    def _put(self, vectors: VectorSet[Owner], owner: Owner, there: Mapping[int, bytes]) -> None:
        vectors.put_all(owner, list(there), self.embedding.unpacked(list(there.values())))

    async def _made_again(self, owner: Owner, ids: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(ids), 500):
            memories = await self._store.get_all(owner, ids[start : start + 500])
            texts = [memory.content for memory in memories.values()]
            made = await asyncio.to_thread(self.embedding.encode, texts)
            found |= {id: self.embedding.packed(row) for id, row in zip(memories, made, strict=True)}
        return found
