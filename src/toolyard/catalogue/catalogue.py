"""The catalogue: the last good lists of every mounted server, and the item each name leads to.

Also holds discovered tools: an upstream with thousands of tools lists only a few, and tools that a caller
finds there are kept for that caller's conversation, within bounds. `sync` reads the lists, `store` saves
them.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..config import Composio, ServerConfig
from ..kit.events import TOOLS_CHANGED, ChangeEvent, EventHub
from ..kit.features.resources import UriTemplate
from ..languages import said
from ..upstream.connection import StartProgress
from ..wire.call import Call, thread_of
from .items import (
    KINDS,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    ItemKind,
    UpstreamItem,
    item_json,
    name_filter,
    own_address,
    resource_alias,
    shown_name,
    with_owner,
)

MAX_CLASHES = 20
MAX_EACH = 512
MAX_BYTES = 32 * 1024 * 1024
_OVERHEAD = 500


def conversation_of(call: Call) -> str:
    """The key of a call's conversation: its principal and its thread."""
    return f"{call.caller.identity.principal.binding}\0{thread_of(call)}"


class _ConversationTools:
    """The discovered tools of one conversation by full name, the longest unused first."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, CatalogueEntry] = OrderedDict()
        self.size = 0


class DiscoveredTools:
    def __init__(self, max_bytes: int = MAX_BYTES, max_each: int = MAX_EACH) -> None:
        self._max_bytes = max_bytes
        self._max_each = max_each
        self._by_conversation: OrderedDict[str, _ConversationTools] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """The number of conversations that have discovered tools."""
        return len(self._by_conversation)

    def add(self, entries: "Iterable[CatalogueEntry]", conversation: str) -> None:
        entries = list(entries)
        if not entries:
            return
        tools = self._by_conversation.setdefault(conversation, _ConversationTools())
        self._by_conversation.move_to_end(conversation)
        for entry in entries:
            self._drop(tools, entry.name)
            tools.entries[entry.name] = entry
            self._count(tools, _size(entry))
        while len(tools.entries) > self._max_each:
            self._drop(tools, next(iter(tools.entries)))
        while self._size > self._max_bytes and len(self._by_conversation) > 1:
            self._size -= self._by_conversation.popitem(last=False)[1].size
        while self._size > self._max_bytes and len(tools.entries) > 1:
            self._drop(tools, next(iter(tools.entries)))

    def find(self, name: str, conversation: str) -> "CatalogueEntry | None":
        tools = self._by_conversation.get(conversation)
        entry = None if tools is None else tools.entries.get(name)
        if tools is not None and entry is not None:
            self._by_conversation.move_to_end(conversation)
            tools.entries.move_to_end(name)
        return entry

    def all(self, conversation: str) -> "list[CatalogueEntry]":
        tools = self._by_conversation.get(conversation)
        return [] if tools is None else list(tools.entries.values())

    def forget(self, server: str) -> None:
        """Drop all tools of an upstream that was removed or replaced."""
        for conversation, tools in list(self._by_conversation.items()):
            for name in [name for name, entry in tools.entries.items() if entry.server == server]:
                self._drop(tools, name)
            if not tools.entries:
                del self._by_conversation[conversation]

    def _drop(self, tools: _ConversationTools, name: str) -> None:
        entry = tools.entries.pop(name, None)
        if entry is not None:
            self._count(tools, -_size(entry))

    def _count(self, tools: _ConversationTools, size: int) -> None:
        tools.size += size
        self._size += size


def _size(entry: "CatalogueEntry") -> int:
    return len(entry.item.rest) + len(entry.name) + _OVERHEAD


MAX_TRIED = 50


class TemplateMatcher:
    def __init__(self, uris: list[str]) -> None:
        self._by_start: dict[str, list[str]] = {}
        for uri in uris:
            self._by_start.setdefault(uri.partition("{")[0], []).append(uri)
        self._lengths = sorted({len(start) for start in self._by_start}, reverse=True)

    def match(self, uri: str) -> str | None:
        """The template that an address fits; the one with the longest fixed beginning if several do."""
        tried = 0
        for length in self._lengths:
            for template in self._by_start.get(uri[:length], ()) if length <= len(uri) else ():
                tried += 1
                if tried > MAX_TRIED:
                    return None
                known = _compiled(template)
                # A template of a form unknown to us may fit: the upstream decides.
                if known is None or known.match(uri) is not None:
                    return template
        return None


@lru_cache(maxsize=1024)
def _compiled(uri: str) -> UriTemplate | None:
    try:
        return UriTemplate(uri)
    except ValueError:
        return None


FAILED_BEFORE_SECONDS = 0.5
ServerState = Literal["starting", "ready", "down"]
ItemTransform = Callable[[UpstreamItem], UpstreamItem]


class CatalogueEntry(Struct, frozen=True, gc=False):
    """An item with the names that it is shown under."""

    server: str
    name: str
    """The name in a view of all servers. For resources and templates the address."""
    bare: str
    """The name in a view of its server alone."""
    item: UpstreamItem
    about: str = ""
    """The description of its server in the configuration."""


class ServerIdentity(Struct, frozen=True):
    """An upstream's description of itself."""

    version: str = ""
    info: Raw = Raw(b"{}")
    capabilities: dict[str, Any] = {}
    instructions: str | None = None


class ServerCatalogue:
    """One upstream's part of the catalogue: its lists, identity and state, and why anything is missing."""

    def __init__(
        self,
        config: ServerConfig,
        number: int,
        transform: ItemTransform | None = None,
        starting: Callable[[], StartProgress | None] = lambda: None,
    ) -> None:
        self._transform = transform
        self._mounted_at = time.monotonic()
        self.name = config.name
        self.lists_all = not isinstance(config.where, Composio)
        """Whether its lists have all of its tools; others are discovered."""
        self.number = number
        self.identity = ServerIdentity()
        self.was_read = False
        """Whether its lists were ever read, by this process or an earlier one."""
        self.written = False
        """Whether a tool was called, since its lists were read, that may have changed them."""
        self.failed_before = False
        """Whether an earlier process tried and never read its lists: nobody waits long for it."""
        self.fault: str | None = None
        """Why it is missing, or why its lists may be old."""
        self.notes: tuple[str, ...] = ()
        self.settled = asyncio.Event()
        """Set when the first attempt to read its lists is over, with success or failure."""
        self._starting = starting
        self.lists: dict[str, tuple[UpstreamItem, ...]] = {}
        self.digests: dict[str, bytes] = {}
        """The digest of each list as its upstream sent it."""
        self.entries: dict[str, list[CatalogueEntry]] = {kind.name: [] for kind in KINDS}
        self._by_bare: dict[str, dict[str, CatalogueEntry]] = {kind.name: {} for kind in KINDS}
        self.templates = TemplateMatcher([])
        self._schemes: dict[str, set[str]] = {}
        self.reconfigure(config)

    @property
    def state(self) -> ServerState:
        """`starting` until the first attempt is over, however long that takes, and while it starts again."""
        if self.settled.is_set() and self.fault is not None:
            return "down"
        return "ready" if self.settled.is_set() and self._starting() is None else "starting"

    @property
    def age(self) -> float:
        """Seconds since it was mounted."""
        return time.monotonic() - self._mounted_at

    @property
    def activity(self) -> str:
        """The last line that a starting program wrote: package runners say there what they download."""
        start = self._starting()
        return "" if start is None else start.activity

    @property
    def reason_unavailable(self) -> str:
        """Why its lists are missing or may be old; empty if they are current.

        Our own words come first, up to a colon; words of a program come after it.
        """
        if self.state == "starting" and (self.fault is not None or not self.was_read):
            how = str(self._starting() or StartProgress(self.age))
            return said(f"it is still starting: {how}", f"ainda está iniciando: {how}")
        return self.fault or ""

    def reconfigure(self, config: ServerConfig) -> None:
        self._allows = name_filter(config.allow, config.deny)
        self._rename = config.rename
        leaves_out = config.allow != ("*",) or bool(config.deny)
        self.is_whole = self._transform is None and not leaves_out and not config.rename
        """Whether its lists are shown as the upstream sends them."""
        self.pinned = frozenset(config.pinned)
        self.description = config.description
        for kind in KINDS:
            self.replace_list(kind, self.lists.pop(kind.name, ()))

    def replace_list(self, kind: ItemKind, items: tuple[UpstreamItem, ...]) -> bool:
        """Take a new list. Returns whether it differs from the old one."""
        if items is self.lists.get(kind.name):
            return False
        changed = items != self.lists.get(kind.name)
        self.lists[kind.name] = items
        named = kind.key == "name"
        found: dict[str, CatalogueEntry] = {}
        for item in items:
            if named and not self._allows(item.own):
                continue
            item = self._transformed(kind, item)
            entry = self.entry(item) if named else CatalogueEntry(self.name, item.own, item.own, item)
            found.setdefault(entry.bare, entry)
        if kind is TEMPLATES:
            self.templates = TemplateMatcher(list(found))
        if not named:
            self._schemes[kind.name] = {uri.partition(":")[0] for uri in found}
        self._by_bare[kind.name] = found
        self.entries[kind.name] = list(found.values())
        return changed

    def _transformed(self, kind: ItemKind, item: UpstreamItem) -> UpstreamItem:
        return item if self._transform is None or kind is not TOOLS else self._transform(item)

    def shown(self, kind: ItemKind, item: UpstreamItem) -> bytes | None:
        """An item of a list that was just read, under its bare name; None if it is left out."""
        if kind.key != "name":
            return item_json(kind, item, item.own)
        if not self._allows(item.own):
            return None
        return item_json(kind, self._transformed(kind, item), self._rename.get(item.own, item.own))

    def entry(self, item: UpstreamItem) -> CatalogueEntry:
        """A tool or prompt with the names that it is shown under."""
        bare = self._rename.get(item.own, item.own)
        return CatalogueEntry(self.name, self.full_name(item.own), bare, item, self.description)

    def entry_of(self, own: str) -> CatalogueEntry:
        """The entry of a tool by its own name. A tool that is not listed gets one without a definition."""
        listed = self.find(TOOLS, self._rename.get(own, own))
        if listed is not None and listed.item.own == own:
            return listed
        return self.entry(UpstreamItem(own, b"}"))

    def full_name(self, own: str) -> str:
        """The name in a view of all servers."""
        return shown_name(self.name, self._rename.get(own, own))

    def find(self, kind: ItemKind, bare: str) -> CatalogueEntry | None:
        return self._by_bare[kind.name].get(bare)

    @property
    def has_resources(self) -> bool:
        return bool(self.entries[RESOURCES.name] or self.entries[TEMPLATES.name])

    def has_scheme(self, uri: str) -> bool:
        """Whether it lists a resource or template with the scheme of this address."""
        scheme = uri.partition(":")[0]
        return any(scheme in schemes for schemes in self._schemes.values())

    def allows(self, own: str) -> bool:
        return self._allows(own)

    def own_name(self, bare: str) -> str:
        """The upstream's own name of the item that we show under this name."""
        return next((own for own, shown in self._rename.items() if shown == bare), bare)

    def may_read(self, uri: str) -> bool:
        """Whether an address may be asked for, listed or not."""
        return True

    def may_call(self, bare: str) -> bool:
        """Whether a name may be used, listed or not: it is allowed, and was not replaced by another name."""
        own = self.own_name(bare)
        return self._allows(own) and (own != bare or own not in self._rename)


class Catalogue:
    """`transform` changes the definition of a tool before it is shown."""

    def __init__(self, transform: ItemTransform | None = None) -> None:
        self._transform = transform
        self.servers: dict[str, ServerCatalogue] = {}
        self.hub = EventHub()
        self._discovered = DiscoveredTools()
        self._numbers = 0
        self.orders: dict[str, list[CatalogueEntry]] = {}
        """The whole lists by kind, as far as they were asked for since the last change."""
        self._aliases: dict[str, dict[str, str]] = {}
        """By server: its addresses that lead to another, which comes first, and those that lead to it."""
        self.has_rivals = False
        """Whether several servers have resources, so that an address of one may lead to another."""
        self._index: dict[str, dict[str, CatalogueEntry]] = {}

    def add(
        self, config: ServerConfig, starting: Callable[[], StartProgress | None] = lambda: None
    ) -> ServerCatalogue:
        """`starting` tells how the server's first connection gets on, while it is being opened."""
        self._numbers += 1
        server = ServerCatalogue(config, self._numbers, self._transform, starting)
        self.servers[config.name] = server
        self._forget()
        return server

    def remove(self, server: str) -> None:
        if self.servers.pop(server, None) is not None:
            self._discovered.forget(server)
            self.changed(server, KINDS)

    def changed(self, server: str, kinds: tuple[ItemKind, ...]) -> None:
        """Tell listeners that an upstream's lists have changed."""
        self._forget()
        if RESOURCES in kinds or TEMPLATES in kinds:
            self.all(RESOURCES)
        for method in dict.fromkeys(kind.changed for kind in kinds):
            self.hub.publish(ChangeEvent(method, server))

    def note_written(self, server: str) -> None:
        """A tool was called that may have changed what there is."""
        if (known := self.servers.get(server)) is not None:
            known.written = True

    def _forget(self) -> None:
        self.orders.clear()
        self._index.clear()

    def arrange(self, servers: Sequence[str]) -> None:
        """Put the servers into the order of the configuration: of one address the first server has it."""
        known = [self.servers[name] for name in servers if name in self.servers]
        self.servers = {server.name: server for server in known}
        numbers = [server.number for server in known]
        if numbers != sorted(numbers):
            for server in known:
                self._numbers += 1
                server.number = self._numbers
            self.changed("", (RESOURCES, TEMPLATES))
        else:
            self.all(RESOURCES)

    def all(self, kind: ItemKind) -> list[CatalogueEntry]:
        """Every entry in the order of the configuration.

        Of two resources with one address the first says whose it is, and the other gets an alias.
        """
        order = self.orders.get(kind.name)
        if order is None:
            found: dict[str, CatalogueEntry] = {}
            aliases: dict[str, dict[str, str]] = {}
            for entry in self._in_order(kind):
                first = found.get(entry.name)
                if kind is RESOURCES and (first is not None or own_address(entry.name) is not None):
                    if first is not None:
                        found[entry.name] = replace(first, item=with_owner(first.item, first.server))
                    alias = resource_alias(entry.server, entry.item.own)
                    aliases.setdefault(entry.server, {})[entry.item.own] = alias
                    entry = replace(entry, name=alias)
                found.setdefault(entry.name, entry)
            if kind is RESOURCES:
                self._aliases = aliases
                offering = [one for one in self.servers.values() if one.has_resources]
                self.has_rivals = len(offering) > 1
            self._index[kind.name] = found
            order = self.orders[kind.name] = list(found.values())
        return order

    def clashes(self, server: str) -> list[str]:
        """What of a server's addresses leads to another one."""
        found = [
            f"{own!r} leads to {entry.server!r}, which comes first; its own is {alias!r}"
            for own, alias in self._aliases.get(server, {}).items()
            if (entry := self.find(RESOURCES, own)) is not None
        ]
        for one in self.servers[server].entries[TEMPLATES.name]:
            entry = self.find(TEMPLATES, one.name)
            if entry is not None and entry.server != server:
                found.append(f"{one.name!r} leads to {entry.server!r} first, which has the same template")
        return found[:MAX_CLASHES]

    def _in_order(self, kind: ItemKind) -> Iterator[CatalogueEntry]:
        for server in sorted(self.servers.values(), key=lambda server: server.number):
            yield from server.entries[kind.name]

    def find(self, kind: ItemKind, name: str) -> CatalogueEntry | None:
        if kind.name not in self._index:
            self.all(kind)
        return self._index[kind.name].get(name)

    def add_discovered(
        self, name: str, items: Sequence[UpstreamItem], conversation: str
    ) -> list[CatalogueEntry]:
        """Let a conversation call tools that the upstream `name` has and does not list.

        Leaves out tools that the configuration does not allow. Listed tools are returned and not added.
        """
        server = self.servers.get(name)
        if server is None:
            return []
        found = [server.entry(item) for item in items if server.allows(item.own)]
        found = [server.find(TOOLS, entry.bare) or entry for entry in found]
        new = [entry for entry in found if server.find(TOOLS, entry.bare) is None]
        known = {entry.name: entry for entry in self._discovered.all(conversation)}
        self._discovered.add(new, conversation)
        if any(known.get(entry.name) != entry for entry in new):
            self.hub.publish(ChangeEvent(TOOLS_CHANGED, name, conversation))
        return found

    def find_discovered(self, name: str, conversation: str) -> CatalogueEntry | None:
        """A tool by its full name, if the conversation discovered it and it may still be called."""
        entry = self._discovered.find(name, conversation)
        return entry if entry is not None and self._is_usable(entry) else None

    def discovered(self, conversation: str) -> list[CatalogueEntry]:
        """All discovered tools of a conversation, the one used last at the end."""
        return [entry for entry in self._discovered.all(conversation) if self._is_usable(entry)]

    def _is_usable(self, entry: CatalogueEntry) -> bool:
        """The configuration may have changed since the tool was discovered."""
        server = self.servers.get(entry.server)
        if server is None or not server.allows(entry.item.own):
            return False
        return server.entry(entry.item).name == entry.name

    @property
    def is_settled(self) -> bool:
        return all(server.was_read or server.settled.is_set() for server in self.servers.values())

    def permits(self, server: str, own: str) -> bool:
        """Whether a tool may be known of by its own name, listed or not."""
        return server in self.servers and self.servers[server].allows(own)

    def admits(self, server: str, own: str) -> bool:
        """Whether the rules let a caller use a tool by this name, whether it is offered or not."""
        return True

    async def wait_settled(self, wait: float, names: Sequence[str] | None = None) -> None:
        """Wait a little for the first attempt of these servers, or of all whose lists were never read.

        `wait` counts from when each was mounted, so only the first callers wait.
        """
        short = wait if names is not None else min(wait, FAILED_BEFORE_SECONDS)
        servers = (
            [server for server in self.servers.values() if not server.was_read]
            if names is None
            else [self.servers[name] for name in names if name in self.servers]
        )
        trying = [server for server in servers if not server.settled.is_set()]
        while left := [
            (server, seconds)
            for server in trying
            if not server.settled.is_set()
            and (seconds := (short if server.failed_before else wait) - server.age) > 0
        ]:
            waiting = [asyncio.ensure_future(server.settled.wait()) for server, _ in left]
            try:
                shortest = min(seconds for _, seconds in left)
                await asyncio.wait(waiting, timeout=shortest, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for future in waiting:
                    future.cancel()

    def unavailable(self) -> dict[str, str]:
        """The reason for each server whose lists are missing, incomplete or may be old."""
        reasons = {
            name: server.reason_unavailable or "; ".join(server.notes)
            for name, server in self.servers.items()
        }
        return {name: reason for name, reason in reasons.items() if reason}


__all__ = [
    "KINDS",
    "PROMPTS",
    "RESOURCES",
    "TEMPLATES",
    "TOOLS",
    "Catalogue",
    "CatalogueEntry",
    "ServerCatalogue",
    "ServerIdentity",
]
