"""Search as the gateway offers it: the index, and the view with the meta tools.

The index is kept in step with the catalogue, and on disk for the next start.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalogue.catalogue import Catalogue, CatalogueEntry, ServerCatalogue
from ..catalogue.items import TOOLS
from ..config import Config
from ..file_access import explain
from ..kit.events import TOOLS_CHANGED, ChangeEvent
from ..search.documents import ToolQuery, document_of
from ..search.feedback import ResultSizes, SearchFeedback
from ..views.auto import AutoView
from ..views.context import MetaToolContext, ViewContext
from ..views.dialects import DIALECTS
from ..views.dialects.native import GrantMaker, NativeDialect
from ..views.view import SearchView
from ..wire.types import Implementation
from .storage import run_to_completion

if TYPE_CHECKING:
    from ..dispatch.remote import Remote
    from ..search.index import PreparedTools, ToolIndex
    from ..sessions.leases import Leases
    from ..sessions.profiles import ProfileStore
    from ..state.store import State
    from ..telemetry.events import EventRecorder
    from ..upstream.accounts import Accounts


logger = logging.getLogger("toolyard.app")

QUIET_SECONDS = 5.0
"""After a change, before the index is written: servers come in crowds."""
IN_A_THREAD = 50
"""Tools, from which on working them out would hold others up."""


class IndexSync:
    """`path` None keeps nothing."""

    def __init__(self, catalogue: Catalogue, path: Path | None, sizes: ResultSizes) -> None:
        self._sizes = sizes
        self._catalogue = catalogue
        self._path = path
        self._index: ToolIndex | None = None
        self._seen: dict[str, list[CatalogueEntry]] = {}
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

    async def index(self) -> "ToolIndex":
        """With everything that the catalogue has now."""
        if self._index is None or self._changed() or self._gone():
            async with self._turn:
                if self._index is None:
                    self._index = await asyncio.to_thread(self._load)
                    self._seen = {server: [] for server in self._index.servers}
                await self._catch_up(self._index)
        return self._index

    # In step

    def _changed(self) -> list[ServerCatalogue]:
        servers = self._catalogue.servers.values()
        return [server for server in servers if self._seen.get(server.name) is not server.entries[TOOLS.name]]

    def _gone(self) -> list[str]:
        return [server for server in self._seen if server not in self._catalogue.servers]

    async def _catch_up(self, index: "ToolIndex") -> None:
        for server in self._gone():
            index.remove(server)
            del self._seen[server]
            self._unsaved = True
        for server_catalogue in self._changed():
            entries = server_catalogue.entries[TOOLS.name]
            work = partial(_prepare, index, server_catalogue.name, entries, server_catalogue.pinned)
            prepared = work() if len(entries) < IN_A_THREAD else await asyncio.to_thread(work)
            index.commit(prepared)
            self._seen[server_catalogue.name] = entries
            self._unsaved = self._unsaved or bool(prepared.rows)

    async def _follow(self) -> None:
        """Change by change; written when it has been quiet for a while."""

        def wants(event: ChangeEvent) -> bool:
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

    def _load(self) -> "ToolIndex":
        from ..search.index import ToolIndex  # 80 ms of CPU, most of it numpy's
        from ..search.table import UnusableIndexError

        if self._path is not None and os.path.isfile(self._path):
            try:
                return ToolIndex.load(self._path, sizes=self._sizes)
            except UnusableIndexError as error:
                logger.info("%s; it is made anew", error)
        return ToolIndex(sizes=self._sizes)

    async def _save(self) -> None:
        if self._path is None or self._index is None or not self._unsaved:
            return
        self._unsaved = False
        # What was put last is merged in by the next search; by this one, lest it happens in the thread.
        self._index.search(ToolQuery("settle"), 1)
        try:
            await run_to_completion(self._index.save, self._path)
        except OSError as error:
            fault = explain(error, self._path)
            logger.warning("the search index cannot be saved: %s", fault)


def _prepare(
    index: "ToolIndex", server: str, entries: list[CatalogueEntry], pinned: frozenset[str]
) -> "PreparedTools":
    documents = [document_of(one, one.bare in pinned or one.item.own in pinned) for one in entries]
    return index.prepared(server, documents)


class GatewaySearch:
    """Build one, make a view of it, start and close it with the gateway."""

    def __init__(
        self,
        view_context: ViewContext,
        config: Config,
        folder: Path | None,
        *,
        sizes: ResultSizes,
        state: "State",
        leases: "Leases",
        events: "EventRecorder",
        remotes: "Callable[[], Mapping[str, Remote]]" = dict,
        profiles: "ProfileStore | None" = None,
        accounts: "Callable[[], Mapping[str, Accounts]]" = dict,
    ) -> None:
        path = None if folder is None else folder / _index_file(config)
        self._indexing = IndexSync(view_context.catalogue, path, sizes)
        self.context = MetaToolContext(
            view_context=view_context,
            index=self._indexing.index,
            leases=leases,
            events=events,
            state=state,
            remotes=remotes,
            settings=config.search,
            feedback=SearchFeedback(state),
            profiles=profiles,
            accounts=accounts,
        )

    def view(
        self, config: Config, implementation: Implementation, grants: GrantMaker | None = None
    ) -> SearchView:
        """`grants`: what makes tokens for sub-agents, where callers may have them made."""
        made = {"native": lambda: NativeDialect(grants), **DIALECTS}
        dialects = [made[name]() for name in config.gateway.dialects]
        own = config.gateway.instructions
        # An index and a choice are of our own meta tools; a prompt that was written for others searches.
        if config.gateway.view == "search" or config.gateway.dialects != ("native",):
            return SearchView(self.context, dialects, implementation, own)
        always = "index" if config.gateway.view == "index" else None
        return AutoView(self.context, dialects, implementation, own, always)

    def reload(self, config: Config) -> None:
        relisted = self.context.settings.list_found != config.search.list_found
        self.context.settings = config.search
        if relisted:
            # About no server: whoever's conversation is known has another list now.
            self.context.view_context.catalogue.hub.publish(ChangeEvent(TOOLS_CHANGED, ""))

    async def start(self) -> None:
        await self._indexing.start()

    async def close(self) -> None:
        await self._indexing.close()


def _index_file(config: Config) -> str:
    """Of each configuration: two that keep their state in one place have different tools."""
    place = str(config.files[0].resolve()) if config.files else ""
    return f"search-{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}.index"
