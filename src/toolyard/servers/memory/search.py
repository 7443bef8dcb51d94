"""How memories are found: by words and by meaning.

Words are normalised to plain ASCII stems, so that both databases find the same. Vectors carry a mark of the
embedding that made them and are made again when it changes; changes by other processes are read before each
search.
"""

import asyncio
import hashlib
import re
import unicodedata
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from ...meaning.embedding import TextEmbedding, Vectors
from ...meaning.vectors import VectorSet
from .store import MemoryChanges, MemoryOwner, MemoryStore

MOST_WORDS = 20_000
"""Of one memory; what follows is found by its meaning only."""
MOST_ASKED = 10
_LONGEST = 40

# Scripts that put no spaces between words: each character stands for itself.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
# So frequent that looking for them costs most and tells nothing; a question of nothing else keeps them.
_IDLE_WORDS = """
a about all an and any are as at be by can did do doe for from had has have how i if in is it its me my
no not of on or our so that the their them they thi to up was we were what when where which who why will
with you your ao ate com como da das de do dos e ela ele em entre era esta este eu foi ha isso isto ja
mai mas me meu minha na nao nas no nos num numa o os ou para pela pelo por qual quando que quem se sem
ser seu sua so tambem te tem um uma voce
"""
_IDLE = frozenset(_IDLE_WORDS.split())
_EXCERPT = 280
_LOOKED_AT = 20_000


def words_of(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(_folded(text))[:MOST_WORDS]]


def asked_words(query: str) -> list[str]:
    """The different words of a question that tell something, in its order."""
    words = list(dict.fromkeys(words_of(query)))
    return ([word for word in words if word not in _IDLE] or words)[:MOST_ASKED]


def excerpt(text: str, asked: list[str]) -> str:
    """The part of a text around the first of these words; its beginning where there is none."""
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
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in apart if not unicodedata.combining(character))


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


MOST_KEPT = 500_000
"""Vectors in memory, some 100 MB; the owners who searched last keep theirs."""
LEAST_SIMILAR = 0.35
_MARK_BYTES = 4
_PROBE = "a reminder of what the customer likes, and when the invoice is due"
_MOST_ENCODED = 20_000


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
        """A memory's beginning stands for it: of what is very long the sum says nothing any more."""
        return self._loaded().encode([text[:_MOST_ENCODED] for text in texts])

    def packed(self, vector: Vectors) -> bytes:
        self._loaded()
        return self._mark + vector.astype(np.float16).tobytes()

    def unpacked(self, stored: Sequence[bytes]) -> Vectors:
        numbers = b"".join(one[_MARK_BYTES:] for one in stored)
        return np.frombuffer(numbers, np.float16).reshape(len(stored), self.dim).astype(np.float32)

    def made(self, stored: bytes) -> bool:
        """Whether it was this embedding that made it."""
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
    """Every owner's vectors, as far as they fit."""

    def __init__(self, store: MemoryStore) -> None:
        self.embedding = Embedding()
        self._store = store
        self._vectors: VectorSet[MemoryOwner] | None = None
        self._revisions: OrderedDict[MemoryOwner, int] = OrderedDict()
        # One owner's many vectors keep nobody else waiting.
        self._catching_up: defaultdict[MemoryOwner, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def nearest(
        self, owner: MemoryOwner, vector: Vectors, limit: int, least: float = LEAST_SIMILAR
    ) -> list[tuple[int, float]]:
        """Numbers of memories and how similar they are, the most similar first."""
        vectors = await self._caught_up(owner)
        if not vector.any():
            return []
        return await asyncio.to_thread(vectors.nearest, owner, vector, limit, least)

    async def _caught_up(self, owner: MemoryOwner) -> VectorSet[MemoryOwner]:
        async with self._catching_up[owner]:
            vectors = await self._opened()
            changes = await self._store.changes(owner, self._revisions.get(owner, -1))
            if changes is not None:
                await self._take(vectors, owner, changes)
            return vectors

    async def _opened(self) -> VectorSet[MemoryOwner]:
        if self._vectors is None:
            dim = await asyncio.to_thread(lambda: self.embedding.dim)
            if self._vectors is None:  # nobody else has made it meanwhile
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
            stale = [id for id, stored in changes.there if not self.embedding.made(stored)]
            for id in stale:
                del there[id]
            there |= await self._made_again(owner, stale)
            await asyncio.to_thread(self._put, vectors, owner, there)
        self._revisions[owner] = changes.revision
        self._revisions.move_to_end(owner)
        self._make_room(vectors)

    def _make_room(self, vectors: VectorSet[MemoryOwner]) -> None:
        """Let go of who searched longest ago, unless they are just catching up."""
        for owner in list(self._revisions)[:-1]:
            if len(vectors) <= MOST_KEPT:
                return
            if not self._catching_up[owner].locked():
                del self._revisions[owner], self._catching_up[owner]
                vectors.clear(owner)

    def _put(self, vectors: VectorSet[MemoryOwner], owner: MemoryOwner, there: Mapping[int, bytes]) -> None:
        vectors.put_all(owner, list(there), self.embedding.unpacked(list(there.values())))

    async def _made_again(self, owner: MemoryOwner, ids: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(ids), 500):
            memories = await self._store.get_all(owner, ids[start : start + 500])
            texts = [memory.content for memory in memories.values()]
            made = await asyncio.to_thread(self.embedding.encode, texts)
            found |= {id: self.embedding.packed(row) for id, row in zip(memories, made, strict=True)}
        return found
