"""The index of what is mounted: kept in step with the catalogue, and on disk for the next start.

The catalogue says that something changed; what changed is seen by comparing, so that nothing is missed that
happened before anybody listened. Long work is done in a thread, and nobody waits for it but who searches.
"""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalogue.catalogue import TOOLS, Catalogue, Entry, Shelf
from ..kit.hub import Event
from ..search.documents import Query, document_of
from .finishing import to_the_end

if TYPE_CHECKING:
    from ..search.index import Index, Prepared

logger = logging.getLogger("toolyard.app")

QUIET_SECONDS = 5.0
"""After a change, before the index is written: servers come in crowds."""
IN_A_THREAD = 50
"""Tools, from which on working them out would hold others up."""


class Indexing:
    """`path` None keeps nothing."""

    def __init__(self, catalogue: Catalogue, path: Path | None) -> None:
        self._catalogue = catalogue
        self._path = path
        self._index: Index | None = None
        self._seen: dict[str, list[Entry]] = {}
        self._turn = asyncio.Lock()
        self._unsaved = False
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Behind everybody's back: what is mounted is searchable soon, and listed at once."""
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        async with self._turn:
            await self._save()

    async def index(self) -> "Index":
        """With everything that the catalogue has now."""
        if self._index is None or self._changed() or self._gone():
            async with self._turn:
                if self._index is None:
                    self._index = await asyncio.to_thread(self._load)
                    self._seen = {server: [] for server in self._index.servers}
                await self._catch_up(self._index)
        return self._index

    def measured(self, tool: str, size: int) -> None:
        """A tool's result had so many bytes; those that are heavy sink."""
        if self._index is not None:
            self._index.note_size(tool, size)

    # In step

    def _changed(self) -> list[Shelf]:
        shelves = self._catalogue.shelves.values()
        return [shelf for shelf in shelves if self._seen.get(shelf.server) is not shelf.entries[TOOLS.name]]

    def _gone(self) -> list[str]:
        return [server for server in self._seen if server not in self._catalogue.shelves]

    async def _catch_up(self, index: "Index") -> None:
        for server in self._gone():
            index.remove(server)
            del self._seen[server]
            self._unsaved = True
        for shelf in self._changed():
            entries = shelf.entries[TOOLS.name]
            work = partial(_prepared, index, shelf.server, entries, shelf.pinned)
            prepared = work() if len(entries) < IN_A_THREAD else await asyncio.to_thread(work)
            index.commit(prepared)
            self._seen[shelf.server] = entries
            self._unsaved = self._unsaved or bool(prepared.rows)

    async def _follow(self) -> None:
        """Change by change; written when it has been quiet for a while."""

        def wants(event: Event) -> bool:
            return event.method == TOOLS.changed and event.params is None

        with self._catalogue.hub.listener(wants) as events:
            await self.index()
            changes = aiter(events)
            coming = asyncio.ensure_future(anext(changes))
            try:
                while True:
                    timeout = QUIET_SECONDS if self._unsaved else None
                    if (await asyncio.wait({coming}, timeout=timeout))[0]:
                        coming = asyncio.ensure_future(anext(changes))
                        await self.index()
                    else:
                        async with self._turn:
                            await self._save()
            finally:
                coming.cancel()

    # On disk

    def _load(self) -> "Index":
        from ..search.index import Index  # 80 ms of CPU, most of it numpy's
        from ..search.stored import UnusableIndex

        if self._path is not None and self._path.is_file():
            try:
                return Index.load(self._path)
            except UnusableIndex as error:
                logger.info("%s; it is made anew", error)
        return Index()

    async def _save(self) -> None:
        if self._path is None or self._index is None or not self._unsaved:
            return
        self._unsaved = False
        # What was put last is merged in by the next search; by this one, lest it happens in the thread.
        self._index.search(Query("settle"), 1)
        try:
            await to_the_end(self._index.save, self._path)
        except OSError as error:
            logger.warning("the search index cannot be kept in %s: %s", self._path.parent, error.strerror)


def _prepared(index: "Index", server: str, entries: list[Entry], pinned: frozenset[str]) -> "Prepared":
    documents = [document_of(one, one.bare in pinned or one.item.own in pinned) for one in entries]
    return index.prepared(server, documents)
