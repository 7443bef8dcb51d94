"""Searches memories by words and by meaning.

Words are normalised to ASCII stems, so that both databases find the same. Stored vectors carry a mark of the
embedding and are encoded again when it changes. Each search first reads changes by other processes.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from ...meaning.embedding import TextEmbedding, Vectors
from ...meaning.vectors import VectorSet
from ...wire.text import without_marks
from .store import MemoryChanges, MemoryOwner, MemoryStore

MAX_WORDS = 20_000
"""Words of a memory that are indexed; later ones are found by meaning only."""
MAX_QUERY_WORDS = 10
_LONGEST = 40

# In scripts without spaces between words each character is a word.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
# Frequent words that are left out of a query, unless it has no others.
_STOP_WORD_LIST = """
a about all an and any are as at be by can did do doe for from had has have how i if in is it its me my
no not of on or our so that the their them they thi to up was we were what when where which who why will
with you your ao ate com como da das de do dos e ela ele em entre era esta este eu foi ha isso isto ja
mai mas me meu minha na nao nas no nos num numa o os ou para pela pelo por qual quando que quem se sem
ser seu sua so tambem te tem um uma voce
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_EXCERPT = 280
_LOOKED_AT = 20_000


def words_of(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(_folded(text))[:MAX_WORDS]]


def query_words(query: str) -> list[str]:
    """The distinct words of a query without stop words, in its order."""
    words = list(dict.fromkeys(words_of(query)))
    return ([word for word in words if word not in _STOP_WORDS] or words)[:MAX_QUERY_WORDS]


def excerpt(text: str, asked: list[str]) -> str:
    """The part of a text around the first of these words, or its beginning."""
    wanted = set(asked)
    at = 0
    for found in _WORD.finditer(text, 0, _LOOKED_AT):
        if _stem(_folded(found[0])) in wanted:
            at = found.start()
            break
    start = max(0, at - _EXCERPT // 3)
    part = text[start : start + _EXCERPT]
    before, after = "…" if start else "", "…" if start + _EXCERPT < len(text) else ""
    return before + " ".join(part.split()) + after


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return without_marks(text.casefold())


def _stem(word: str) -> str:
    if not word.isascii():
        return "u" + word.encode()[: _LONGEST // 2].hex()
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        if len(word) > 5 and word.endswith(("coes", "soes", "ioes")):
            word = word[:-3] + "ao"
        elif len(word) > 4 and word.endswith("ies"):
            word = word[:-3] + "y"
        else:
            word = word[:-1]
    return word[:_LONGEST]


MAX_VECTORS = 500_000
"""Vectors in memory, about 100 MB; those of the owners who searched last stay."""
MIN_SIMILARITY = 0.35
_MARK_BYTES = 4
_PROBE = "a reminder of what the customer likes, and when the invoice is due"
_MAX_ENCODED = 20_000


class Embedding:
    """Loaded on first use: 150 ms of CPU."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._semantic: TextEmbedding | None = None
        self._mark = b""

    @property
    def dim(self) -> int:
        return self._loaded().dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encodes the beginning of each text; the vector of a very long text means little."""
        return self._loaded().encode([text[:_MAX_ENCODED] for text in texts])

    def encode_stored(self, vector: Vectors) -> bytes:
        self._loaded()
        return self._mark + vector.astype(np.float16).tobytes()

    def decode_stored(self, stored: Sequence[bytes]) -> Vectors:
        numbers = b"".join(one[_MARK_BYTES:] for one in stored)
        return np.frombuffer(numbers, np.float16).reshape(len(stored), self.dim).astype(np.float32)

    def is_current(self, stored: bytes) -> bool:
        """Whether this embedding made the vector."""
        return stored.startswith(self._mark) and len(stored) == _MARK_BYTES + 2 * self.dim

    def _loaded(self) -> TextEmbedding:
        with self._lock:
            if self._semantic is None:
                semantic = TextEmbedding.load()
                probe = semantic.encode([_PROBE]).astype(np.float16).tobytes()
                self._mark = hashlib.blake2b(probe, digest_size=_MARK_BYTES).digest()
                self._semantic = semantic
            return self._semantic


class MemoryVectors:
    """The vectors of the owners who searched last."""

    def __init__(self, store: MemoryStore) -> None:
        self.embedding = Embedding()
        self._store = store
        self._vectors: VectorSet[MemoryOwner] | None = None
        self._revisions: OrderedDict[MemoryOwner, int] = OrderedDict()
        # By owner, so that loading one owner's vectors does not delay others.
        self._locks: defaultdict[MemoryOwner, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def nearest(
        self, owner: MemoryOwner, vector: Vectors, limit: int, least: float = MIN_SIMILARITY
    ) -> list[tuple[int, float]]:
        """Returns ids of memories with their similarity, the most similar first."""
        vectors = await self._synchronized(owner)
        if not vector.any():
            return []
        return await asyncio.to_thread(vectors.nearest, owner, vector, limit, least)

    async def _synchronized(self, owner: MemoryOwner) -> VectorSet[MemoryOwner]:
        async with self._locks[owner]:
            vectors = await self._opened()
            changes = await self._store.changes(owner, self._revisions.get(owner, -1))
            if changes is not None:
                await self._take(vectors, owner, changes)
            return vectors

    async def _opened(self) -> VectorSet[MemoryOwner]:
        if self._vectors is None:
            dim = await asyncio.to_thread(lambda: self.embedding.dim)
            if self._vectors is None:  # still: another call may have made it
                self._vectors = VectorSet(dim)
        return self._vectors

    async def _take(
        self, vectors: VectorSet[MemoryOwner], owner: MemoryOwner, changes: MemoryChanges
    ) -> None:
        if changes.from_scratch:
            vectors.clear(owner)
        for id in changes.gone:
            vectors.remove(owner, id)
        if changes.there:
            there = dict(changes.there)
            stale = [id for id, stored in changes.there if not self.embedding.is_current(stored)]
            for id in stale:
                del there[id]
            there |= await self._reencode(owner, stale)
            await asyncio.to_thread(self._put, vectors, owner, there)
        self._revisions[owner] = changes.revision
        self._revisions.move_to_end(owner)
        self._make_room(vectors)

    def _make_room(self, vectors: VectorSet[MemoryOwner]) -> None:
        """Evicts the owners who searched longest ago, unless they are loading."""
        for owner in list(self._revisions)[:-1]:
            if len(vectors) <= MAX_VECTORS:
                return
            if not self._locks[owner].locked():
                del self._revisions[owner], self._locks[owner]
                vectors.clear(owner)

    def _put(self, vectors: VectorSet[MemoryOwner], owner: MemoryOwner, there: Mapping[int, bytes]) -> None:
        vectors.put_all(owner, list(there), self.embedding.decode_stored(list(there.values())))

    async def _reencode(self, owner: MemoryOwner, ids: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(ids), 500):
            memories = await self._store.get_all(owner, ids[start : start + 500])
            texts = [memory.content for memory in memories.values()]
            made = await asyncio.to_thread(self.embedding.encode, texts)
            found |= {id: self.embedding.encode_stored(row) for id, row in zip(memories, made, strict=True)}
        return found
