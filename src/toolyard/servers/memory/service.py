"""The operations on an owner's memories, independent of MCP: view, save, edit, restore, remove and search.

Raises MemoryRequestError for a request that cannot be met.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from msgspec import Struct

from ...kit.prompt_injection import unmarked
from ...meaning.embedding import Vectors
from ...wire.text import normalized
from . import document
from .document import body_of, read_front_matter
from .errors import MemoryRequestError
from .search import MemoryVectors, excerpt, query_words, words_of
from .settings import Settings
from .store import Memory, MemoryDraft, MemoryListing, MemoryOwner, MemoryStore, MemoryVersion, Removed
from .store.memories import ConcurrentChangeError

Mode = Literal["both", "text", "meaning"]

MAX_ATTEMPTS = 20
"""Attempts at an edit when other calls keep changing the memory."""
# Reciprocal rank fusion with the usual constant: 1 / (60 + rank).
_RANK = 60
_DEEP = 50


class FolderEntry(Struct, frozen=True):
    name: str
    is_folder: bool


class FolderListing(Struct, frozen=True):
    """The entries of a folder; `more` says whether it has others."""

    entries: list[FolderEntry]
    more: bool


class SaveOutcome(Struct, frozen=True):
    """The result of saving a text."""

    path: str
    change: Literal["created", "updated", "unchanged", "duplicate"]
    version: int
    draft: MemoryDraft
    similar: list[tuple[str, float]]
    """Paths of similar memories; for a duplicate, the memory with the same text."""


class MemoryHit(Struct, frozen=True):
    memory: Memory
    excerpt: str
    by_text: bool
    similarity: float | None


class MemoryService:
    def __init__(self, store: MemoryStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._vectors = MemoryVectors(store)

    async def view(self, owner: MemoryOwner, path: str) -> Memory | FolderListing:
        memory = None if path == document.ROOT else await self._store.get(owner, path)
        if memory is not None:
            return memory
        entries = await self.entries(owner, path, self._settings.list_limit + 1)
        if not entries and path != document.ROOT:
            raise MemoryRequestError("unknown", path=path)
        most = self._settings.list_limit
        return FolderListing(entries[:most], len(entries) > most)

    async def entries(self, owner: MemoryOwner, folder: str, limit: int) -> list[FolderEntry]:
        """Lists a folder; skips the contents of its folders."""
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
                # Skips the contents of a folder: "0" follows the slash.
                first = f"{folder}/{name}0" if slash else path + "\x01"
        return found[:limit]

    async def listing(self, owner: MemoryOwner) -> MemoryListing:
        return await self._store.listing(owner, self._settings.list_limit)

    async def paths_from(self, owner: MemoryOwner, start: str, limit: int) -> list[str]:
        """Returns paths with this prefix."""
        return await self._store.paths(owner, start, start + "\U0010ffff", limit)

    async def history(self, owner: MemoryOwner, path: str) -> tuple[list[MemoryVersion], int | None]:
        """Returns all versions, and the number of the current one; None if the memory is deleted."""
        versions = await self._store.history(owner, path)
        if not versions:
            raise MemoryRequestError("unknown", path=path)
        current = await self._store.get(owner, path)
        return versions, current.version if current else None

    async def save(self, owner: MemoryOwner, path: str, content: str) -> SaveOutcome:
        draft, vector = await self._drafted(path, content)
        existing = await self._store.get(owner, path)
        duplicate = await self._store.same_text(owner, path, draft.digest)
        if duplicate is not None and (existing is None or existing.content != draft.content):
            return SaveOutcome(
                path, "duplicate", existing.version if existing else 0, draft, [(duplicate, 1.0)]
            )
        similar = await self._similar(owner, path, vector)
        put = await self._store.put(owner, path, draft)
        return SaveOutcome(path, put.change, put.version, draft, similar)

    async def edit(self, owner: MemoryOwner, path: str, old: str, new: str) -> tuple[bool, int, str]:
        """Returns whether anything changed, the current version and its text."""
        old, new = unmarked(old), unmarked(new)
        if not old:
            raise MemoryRequestError("old_empty")
        for _ in range(MAX_ATTEMPTS):
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
            return put.change == "updated", put.version, draft.content
        raise MemoryRequestError("busy", path=path)

    async def restore(self, owner: MemoryOwner, path: str, version: int) -> int:
        """Returns the new version number of the old text."""
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
        """Returns what `remove` would remove."""
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
        """Erases in batches and yields the size of each."""
        return self._store.clear(owner)

    async def search(self, owner: MemoryOwner, query: str, limit: int, mode: Mode) -> list[MemoryHit]:
        if not query.strip():
            raise MemoryRequestError("query_empty")
        words = query_words(query)
        by_text = [] if mode == "meaning" else await self._store.match(owner, words, max(limit, _DEEP))
        near = [] if mode == "text" else await self._near(owner, query, max(limit, _DEEP))
        best = _fuse([by_text, [id for id, _ in near]])[:limit]
        memories = await self._store.get_all(owner, best)
        similar = dict(near)
        return [
            MemoryHit(
                memories[id], excerpt(body_of(memories[id].content), words), id in by_text, similar.get(id)
            )
            for id in best
            if id in memories
        ]

    async def close(self) -> None:
        await self._store.close()

    async def _near(self, owner: MemoryOwner, query: str, limit: int) -> list[tuple[int, float]]:
        vectors = await asyncio.to_thread(self._vectors.embedding.encode, [query])
        return await self._vectors.nearest(owner, vectors[0], limit)

    async def _similar(self, owner: MemoryOwner, path: str, vector: Vectors) -> list[tuple[str, float]]:
        near = await self._vectors.nearest(owner, vector, 4, self._settings.near_duplicate)
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
        about = read_front_matter(path, content)
        embedding = self._vectors.embedding
        vector = embedding.encode([content])[0]
        text = " ".join(normalized("NFC", content).split())
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        words = words_of(f"{path.removeprefix(document.ROOT)} {content}")
        return MemoryDraft(content, digest, embedding.encode_stored(vector), words, about), vector


def _fuse(rankings: Sequence[Sequence[int]]) -> list[int]:
    """Merges rankings; memories that rank high in several come first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id in enumerate(ranking):
            scores[id] = scores.get(id, 0.0) + 1 / (_RANK + rank)
    return sorted(scores, key=lambda id: (-scores[id], id))
