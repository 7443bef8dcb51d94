"""The catalogue as one caller sees it: what the caller may not have is not there.

A scope answers like the catalogue itself (`VisibleCatalogue`), so code that works with one cannot reveal more
than it holds: lists, searches, counts, hints and errors are made from it alike. Who may see what is decided
elsewhere (`Sight`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..kit.events import EventHub
from .catalogue import (
    Catalogue,
    CatalogueEntry,
    ServerCatalogue,
    ServerIdentity,
    ServerState,
    TemplateMatcher,
)
from .items import KINDS, RESOURCES, TEMPLATES, TOOLS, ItemKind, UpstreamItem


class Sight(Protocol):
    """Decides what a caller may see."""

    def sees(self, kind: ItemKind, server: str, own: str, reads: bool | None) -> bool:
        """`own` is the upstream's name or address; `reads`: whether a tool only reads, None if unknown."""
        ...

    def reaches(self, server: str) -> bool:
        """Whether anything of this server could be seen."""
        ...

    def visible(self, kind: ItemKind, entries: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
        """The entries that can be seen, in their order."""
        ...


class VisibleServer(Protocol):
    """A server of the catalogue, whole or as a caller sees it."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def description(self) -> str: ...
    @property
    def identity(self) -> ServerIdentity: ...
    @property
    def pinned(self) -> frozenset[str]: ...
    @property
    def was_read(self) -> bool: ...
    @property
    def failed_before(self) -> bool: ...
    @property
    def settled(self) -> asyncio.Event: ...
    @property
    def state(self) -> ServerState: ...
    @property
    def age(self) -> float: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def reason_unavailable(self) -> str: ...
    @property
    def entries(self) -> Mapping[str, list[CatalogueEntry]]: ...
    @property
    def templates(self) -> TemplateMatcher: ...
    @property
    def is_whole(self) -> bool: ...

    def shown(self, kind: ItemKind, item: UpstreamItem) -> bytes | None: ...
    def find(self, kind: ItemKind, bare: str) -> CatalogueEntry | None: ...
    def entry_of(self, own: str) -> CatalogueEntry: ...
    def has_scheme(self, uri: str) -> bool: ...
    def own_name(self, bare: str) -> str: ...
    def may_call(self, bare: str) -> bool: ...
    def may_read(self, uri: str) -> bool: ...


class VisibleCatalogue(Protocol):
    """The catalogue, whole or as a caller sees it."""

    @property
    def hub(self) -> EventHub: ...
    @property
    def servers(self) -> Mapping[str, VisibleServer]: ...
    @property
    def is_settled(self) -> bool: ...

    def all(self, kind: ItemKind) -> list[CatalogueEntry]: ...
    def find(self, kind: ItemKind, name: str) -> CatalogueEntry | None: ...
    def find_discovered(self, name: str, conversation: str) -> CatalogueEntry | None: ...
    def discovered(self, conversation: str) -> list[CatalogueEntry]: ...
    def permits(self, server: str, own: str) -> bool:
        """Whether a tool may be known of by its own name, listed or not."""
        ...

    def admits(self, server: str, own: str) -> bool:
        """Whether the rules let a caller use a tool by this name, whether it is offered or not."""
        ...

    def unavailable(self) -> dict[str, str]: ...
    async def wait_settled(self, wait: float, names: Sequence[str] | None = None) -> None: ...


class _CutList:
    """A list without what a caller does not see; made anew when the whole list changes.

    It stays the same object while the caller sees no difference, so that nobody is told of one.
    """

    __slots__ = ("by_bare", "kept", "whole")

    def __init__(
        self, whole: list[CatalogueEntry], kept: list[CatalogueEntry], before: "_CutList | None"
    ) -> None:
        self.whole = whole
        self.kept = before.kept if before is not None and before.kept == kept else kept
        self.by_bare = {entry.bare: entry for entry in kept}


class ServerScope:
    """A server as a caller sees it: the server's own state, and lists that are cut."""

    def __init__(self, whole: ServerCatalogue, sight: Sight) -> None:
        self.whole = whole
        self._sight = sight
        self._lists: dict[str, _CutList] = {}
        self._templates: tuple[TemplateMatcher, TemplateMatcher] | None = None

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def number(self) -> int:
        return self.whole.number

    @property
    def description(self) -> str:
        return self.whole.description

    @property
    def identity(self) -> ServerIdentity:
        return self.whole.identity

    @property
    def pinned(self) -> frozenset[str]:
        return self.whole.pinned

    @property
    def was_read(self) -> bool:
        return self.whole.was_read

    @property
    def failed_before(self) -> bool:
        return self.whole.failed_before

    @property
    def settled(self) -> asyncio.Event:
        return self.whole.settled

    @property
    def state(self) -> ServerState:
        return self.whole.state

    @property
    def age(self) -> float:
        return self.whole.age

    @property
    def fault(self) -> str | None:
        return self.whole.fault

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes name items that could not be read, and so might name what the caller may not know of."""
        return ()

    @property
    def reason_unavailable(self) -> str:
        return self.whole.reason_unavailable

    @property
    def entries(self) -> Mapping[str, list[CatalogueEntry]]:
        return {kind.name: self._list(kind).kept for kind in KINDS}

    @property
    def templates(self) -> TemplateMatcher:
        whole = self.whole.templates
        if self._templates is None or self._templates[0] is not whole:
            cut = TemplateMatcher([entry.bare for entry in self._list(TEMPLATES).kept])
            self._templates = (whole, cut)
        return self._templates[1]

    @property
    def is_whole(self) -> bool:
        return False

    def shown(self, kind: ItemKind, item: UpstreamItem) -> bytes | None:
        seen = self._sight.sees(kind, self.name, item.own, item.reads)
        return self.whole.shown(kind, item) if seen else None

    @property
    def is_visible(self) -> bool:
        """Whether the caller may know that there is such a server."""
        if not self._sight.reaches(self.name):
            return False
        if not self.whole.lists_all:  # what may be seen of it has to be discovered
            return True
        kinds = [kind for kind in KINDS if self.whole.entries[kind.name]]
        return not kinds or any(self._list(kind).kept for kind in kinds)

    def listed(self, kind: ItemKind) -> list[CatalogueEntry]:
        return self._list(kind).kept

    def find(self, kind: ItemKind, bare: str) -> CatalogueEntry | None:
        return self._list(kind).by_bare.get(bare)

    def entry_of(self, own: str) -> CatalogueEntry:
        """For a tool that `permits` the caller to know."""
        return self.whole.entry_of(own)

    def has_scheme(self, uri: str) -> bool:
        scheme = uri.partition(":")[0] + ":"
        return any(
            entry.bare.startswith(scheme) for kind in (RESOURCES, TEMPLATES) for entry in self.listed(kind)
        )

    def own_name(self, bare: str) -> str:
        return self.whole.own_name(bare)

    def may_call(self, bare: str) -> bool:
        """A name that is not listed is as unknown as one that is hidden."""
        return False

    def may_read(self, uri: str) -> bool:
        return self._sight.sees(RESOURCES, self.name, uri, None)

    def permits(self, own: str) -> bool:
        listed = self.whole.entry_of(own).item
        return self.whole.allows(own) and self._sight.sees(TOOLS, self.name, own, listed.reads)

    def _list(self, kind: ItemKind) -> _CutList:
        whole = self.whole.entries[kind.name]
        cut = self._lists.get(kind.name)
        if cut is None or cut.whole is not whole:
            kept = self._sight.visible(kind, whole)
            cut = self._lists[kind.name] = _CutList(whole, kept, cut)
        return cut


_ScopedList = tuple[list[CatalogueEntry], dict[str, CatalogueEntry], list[CatalogueEntry]]
"""The whole list it was made from, what is left by name, and what is left in order."""


class CatalogueScope:
    """The catalogue as a caller sees it. Callers with the same rights share one."""

    def __init__(self, whole: Catalogue, sight: Sight) -> None:
        self._whole = whole
        self._sight = sight
        self._servers: dict[str, ServerScope] = {}
        self._lists: dict[str, _ScopedList] = {}

    @property
    def hub(self) -> EventHub:
        return self._whole.hub

    @property
    def servers(self) -> Mapping[str, ServerScope]:
        return {name: scope for name in self._whole.servers if (scope := self._server(name)).is_visible}

    @property
    def is_settled(self) -> bool:
        return self._whole.is_settled

    def _server(self, name: str) -> ServerScope:
        whole = self._whole.servers[name]
        scope = self._servers.get(name)
        if scope is None or scope.whole is not whole:
            scope = self._servers[name] = ServerScope(whole, self._sight)
        return scope

    def all(self, kind: ItemKind) -> list[CatalogueEntry]:
        return self._list(kind)[2]

    def find(self, kind: ItemKind, name: str) -> CatalogueEntry | None:
        known = self._lists.get(kind.name)
        if known is None or known[0] is not self._whole.orders.get(kind.name):
            known = self._list(kind)
        return known[1].get(name)

    def _list(self, kind: ItemKind) -> "_ScopedList":
        whole = self._whole.all(kind)
        known = self._lists.get(kind.name)
        if known is None or known[0] is not whole:
            kept = self._sight.visible(kind, whole)
            if known is not None and known[2] == kept:
                kept = known[2]
            known = self._lists[kind.name] = (whole, {entry.name: entry for entry in kept}, kept)
        return known

    def find_discovered(self, name: str, conversation: str) -> CatalogueEntry | None:
        entry = self._whole.find_discovered(name, conversation)
        return entry if entry is not None and self._sees(entry) else None

    def discovered(self, conversation: str) -> list[CatalogueEntry]:
        return [entry for entry in self._whole.discovered(conversation) if self._sees(entry)]

    def _sees(self, tool: CatalogueEntry) -> bool:
        return self._sight.sees(TOOLS, tool.server, tool.item.own, tool.item.reads)

    def permits(self, server: str, own: str) -> bool:
        return server in self._whole.servers and self._server(server).permits(own)

    def admits(self, server: str, own: str) -> bool:
        return self._sight.sees(TOOLS, server, own, None)

    def unavailable(self) -> dict[str, str]:
        return {name: reason for name, scope in self.servers.items() if (reason := scope.reason_unavailable)}

    async def wait_settled(self, wait: float, names: Sequence[str] | None = None) -> None:
        await self._whole.wait_settled(wait, names)
