"""The operations on an owner's memories, independent of MCP: view, save, edit, restore, remove and search.

Raises MemoryRequestError when a request cannot be met.
"""

import asyncio
import hashlib
import unicodedata
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from msgspec import Struct

from ...kit.prompt_injection import unmarked
from ...meaning.embedding import Vectors
from . import document
from .document import body_of, read_front_matter
from .errors import MemoryRequestError
from .search import MemoryVectors, asked_words, excerpt, words_of
from .settings import Settings
from .store import Memory, MemoryDraft, MemoryListing, MemoryOwner, MemoryStore, MemoryVersion, Removed
from .store.memories import ConcurrentChangeError

Mode = Literal["both", "text", "meaning"]

MOST_TRIES = 20
"""How often an edit is made anew when somebody else is faster each time."""
# Ranks are added as 1 / (60 + rank): the usual constant, with which no single list decides alone.
_RANK = 60
_DEEP = 50


class FolderEntry(Struct, frozen=True):
    """What is in a folder."""

    name: str
    is_folder: bool


class SaveOutcome(Struct, frozen=True):
    """What became of a text that was to be kept."""

    path: str
    happened: Literal["created", "updated", "unchanged", "duplicate"]
    version: int
    draft: MemoryDraft
    similar: list[tuple[str, float]]
    """Paths of others that say nearly the same; of a duplicate, the one that says the same."""


class MemoryHit(Struct, frozen=True):
    memory: Memory
    excerpt: str
    by_text: bool
    similarity: float | None


class MemoryService:
    def __init__(self, store: MemoryStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._meanings = MemoryVectors(store)

    # Reading

    async def view(self, owner: MemoryOwner, path: str) -> Memory | tuple[list[FolderEntry], bool]:
        """A memory, or what a folder holds and whether there is more."""
        memory = None if path == document.ROOT else await self._store.get(owner, path)
        if memory is not None:
            return memory
        entries = await self.entries(owner, path, self._settings.list_limit + 1)
        if not entries and path != document.ROOT:
            raise MemoryRequestError("unknown", path=path)
        most = self._settings.list_limit
        return entries[:most], len(entries) > most

    async def entries(self, owner: MemoryOwner, folder: str, limit: int) -> list[FolderEntry]:
        """What is right inside a folder; what is deeper is jumped over."""
        found: list[FolderEntry] = []
        first, end = folder + "/", folder + "0"
        while len(found) < limit:
            batch = await self._store.paths(owner, first, end, limit)
            if not batch:
                break
            for path in batch:
                if path < first:
                    continue
                name, slash, _ = path[len(folder) + 1 :].partition("/")
                found.append(FolderEntry(name, bool(slash)))
                # After a folder come its contents; "0" is what follows the slash.
                first = f"{folder}/{name}0" if slash else path + "\x01"
        return found[:limit]

    async def listing(self, owner: MemoryOwner) -> MemoryListing:
        return await self._store.listing(owner, self._settings.list_limit)

    async def paths_from(self, owner: MemoryOwner, start: str, limit: int) -> list[str]:
        """Paths that begin like this."""
        return await self._store.paths(owner, start, start + "\U0010ffff", limit)

    async def history(self, owner: MemoryOwner, path: str) -> tuple[list[MemoryVersion], int | None]:
        """All versions, and which is the current one: none of a deleted memory."""
        versions = await self._store.history(owner, path)
        if not versions:
            raise MemoryRequestError("unknown", path=path)
        current = await self._store.get(owner, path)
        return versions, current.version if current else None

    # Writing

    async def save(self, owner: MemoryOwner, path: str, content: str) -> SaveOutcome:
        draft, vector = await self._drafted(path, content)
        existing = await self._store.get(owner, path)
        twin = await self._store.same_text(owner, path, draft.digest)
        if twin is not None and (existing is None or existing.content != draft.content):
            return SaveOutcome(path, "duplicate", existing.version if existing else 0, draft, [(twin, 1.0)])
        similar = await self._similar(owner, path, vector)
        put = await self._store.put(owner, path, draft)
        return SaveOutcome(path, put.happened, put.version, draft, similar)

    async def edit(self, owner: MemoryOwner, path: str, old: str, new: str) -> tuple[bool, int, str]:
        """Whether anything changed, the version there is now, and its text."""
        old, new = unmarked(old), unmarked(new)
        if not old:
            raise MemoryRequestError("old_empty")
        for _ in range(MOST_TRIES):
            memory = await self._existing(owner, path)
            count = memory.content.count(old)
            if count != 1:
                raise MemoryRequestError(
                    "old_missing" if not count else "old_repeated", path=path, count=count
                )
            draft, _vector = await self._drafted(path, memory.content.replace(old, new))
            try:
                put = await self._store.put(owner, path, draft, based_on=memory.version)
            except ConcurrentChangeError:
                continue
            return put.happened == "updated", put.version, draft.content
        raise MemoryRequestError("busy", path=path)

    async def restore(self, owner: MemoryOwner, path: str, version: int) -> int:
        """The number that the old text has now."""
        found = await self._store.history(owner, path, version)
        if not found:
            known = await self._store.history(owner, path)
            if not known:
                raise MemoryRequestError("unknown", path=path)
            numbers = [one.version for one in known]
            raise MemoryRequestError(
                "no_version", path=path, version=version, first=min(numbers), last=max(numbers)
            )
        draft, _vector = await self._drafted(path, found[0].content)
        return (await self._store.put(owner, path, draft, restored=True)).version

    async def about_to_remove(self, owner: MemoryOwner, path: str) -> Removed:
        """What `remove` would remove."""
        if await self._store.get(owner, path) is not None:
            return Removed("file", [path])
        inside = await self._store.paths(owner, path + "/", path + "0", self._settings.max_memories)
        if not inside:
            raise MemoryRequestError("unknown", path=path)
        return Removed("directory", inside)

    async def remove(self, owner: MemoryOwner, path: str) -> Removed:
        removed = await self._store.remove(owner, path)
        if removed is None:
            raise MemoryRequestError("unknown", path=path)
        return removed

    async def count(self, owner: MemoryOwner) -> int:
        return await self._store.count(owner)

    def clear(self, owner: MemoryOwner) -> AsyncIterator[int]:
        """Erases some at a time, and yields how many."""
        return self._store.clear(owner)

    # Searching

    async def search(self, owner: MemoryOwner, query: str, limit: int, mode: Mode) -> list[MemoryHit]:
        if not query.strip():
            raise MemoryRequestError("query_empty")
        asked = asked_words(query)
        by_text = [] if mode == "meaning" else await self._store.match(owner, asked, max(limit, _DEEP))
        near = [] if mode == "text" else await self._near(owner, query, max(limit, _DEEP))
        best = _fused([by_text, [id for id, _ in near]])[:limit]
        memories = await self._store.get_all(owner, best)
        similar = dict(near)
        return [
            MemoryHit(
                memories[id], excerpt(body_of(memories[id].content), asked), id in by_text, similar.get(id)
            )
            for id in best
            if id in memories
        ]

    async def close(self) -> None:
        await self._store.close()

    async def _near(self, owner: MemoryOwner, query: str, limit: int) -> list[tuple[int, float]]:
        vectors = await asyncio.to_thread(self._meanings.embedding.encode, [query])
        return await self._meanings.nearest(owner, vectors[0], limit)

    async def _similar(self, owner: MemoryOwner, path: str, vector: Vectors) -> list[tuple[str, float]]:
        near = await self._meanings.nearest(owner, vector, 4, self._settings.near_duplicate)
        memories = await self._store.get_all(owner, [id for id, _ in near])
        found = [(memories[id].path, similarity) for id, similarity in near if id in memories]
        return [(other, similarity) for other, similarity in found if other != path][:3]

    async def _existing(self, owner: MemoryOwner, path: str) -> Memory:
        memory = await self._store.get(owner, path)
        if memory is None:
            raise MemoryRequestError("unknown", path=path)
        return memory

    async def _drafted(self, path: str, content: str) -> tuple[MemoryDraft, Vectors]:
        content = unmarked(content)
        self._check(content)
        return await asyncio.to_thread(self._draft, path, content)

    def _check(self, content: str) -> None:
        if not content.strip():
            raise MemoryRequestError("content_empty")
        if "\0" in content:
            raise MemoryRequestError("content_nul")
        size = len(content.encode("utf-8", "replace"))
        if size > self._settings.max_bytes:
            raise MemoryRequestError("too_big", size=size, most=self._settings.max_bytes)

    def _draft(self, path: str, content: str) -> tuple[MemoryDraft, Vectors]:
        said = read_front_matter(path, content)
        embedding = self._meanings.embedding
        vector = embedding.encode([content])[0]
        text = " ".join(unicodedata.normalize("NFC", content).split())
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        words = words_of(f"{path.removeprefix(document.ROOT)} {content}")
        return MemoryDraft(content, digest, embedding.packed(vector), words, said), vector


def _fused(rankings: Sequence[Sequence[int]]) -> list[int]:
    """One order out of several: what is high in more than one comes first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id in enumerate(ranking):
            scores[id] = scores.get(id, 0.0) + 1 / (_RANK + rank)
    return sorted(scores, key=lambda id: (-scores[id], id))
