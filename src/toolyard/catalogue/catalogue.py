"""The catalogue: the lists of every mounted server as they were last read, and what a name leads to.

Also holds discovered tools: an upstream with thousands of tools lists only a few, and what a caller
finds there is kept for that caller's conversation, within bounds. Reading the lists is the business of
`sync`.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..config import ServerConfig
from ..kit.events import ChangeEvent, EventHub
from ..kit.features.resources import UriTemplate
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
    name_filter,
    resource_alias,
    shown_name,
)

MAX_EACH = 512
MAX_BYTES = 32 * 1024 * 1024
_OVERHEAD = 500


def conversation_of(call: Call) -> str:
    """Whose loan a call may use: its principal's, in its conversation."""
    return f"{call.caller.identity.principal}\0{thread_of(call)}"


class _ConversationTools:
    """By full names, the longest unused first."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, CatalogueEntry] = OrderedDict()
        self.size = 0


class DiscoveredTools:
    def __init__(self, max_bytes: int = MAX_BYTES, max_each: int = MAX_EACH) -> None:
        self._max_bytes = max_bytes
        self._max_each = max_each
        self._loans: OrderedDict[str, _ConversationTools] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """How many have something on loan."""
        return len(self._loans)

    def lend(self, entries: "Iterable[CatalogueEntry]", whose: str) -> None:
        entries = list(entries)
        if not entries:  # whoever finds nothing is not remembered for it
            return
        loan = self._loans.setdefault(whose, _ConversationTools())
        self._loans.move_to_end(whose)
        for entry in entries:
            self._drop(loan, entry.name)
            loan.entries[entry.name] = entry
            self._count(loan, _size(entry))
        while len(loan.entries) > self._max_each:
            self._drop(loan, next(iter(loan.entries)))
        while self._size > self._max_bytes and len(self._loans) > 1:
            self._size -= self._loans.popitem(last=False)[1].size
        while self._size > self._max_bytes and len(loan.entries) > 1:
            self._drop(loan, next(iter(loan.entries)))

    def find(self, name: str, whose: str) -> "CatalogueEntry | None":
        loan = self._loans.get(whose)
        entry = None if loan is None else loan.entries.get(name)
        if loan is not None and entry is not None:
            self._loans.move_to_end(whose)
            loan.entries.move_to_end(name)
        return entry

    def all(self, whose: str) -> "list[CatalogueEntry]":
        loan = self._loans.get(whose)
        return [] if loan is None else list(loan.entries.values())

    def forget(self, server: str) -> None:
        """The upstream is not what it was: nothing of it is on loan any more."""
        for whose, loan in list(self._loans.items()):
            for name in [name for name, entry in loan.entries.items() if entry.server == server]:
                self._drop(loan, name)
            if not loan.entries:
                del self._loans[whose]

    def _drop(self, loan: _ConversationTools, name: str) -> None:
        entry = loan.entries.pop(name, None)
        if entry is not None:
            self._count(loan, -_size(entry))

    def _count(self, loan: _ConversationTools, size: int) -> None:
        loan.size += size
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
        """The template that an address is of, the one with the longest fixed beginning first."""
        tried = 0
        for length in self._lengths:
            for template in self._by_start.get(uri[:length], ()) if length <= len(uri) else ():
                tried += 1
                if tried > MAX_TRIED:
                    return None
                known = _compiled(template)
                # One of a form that we do not know may well be meant: its upstream will say.
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
STARTING = "it is still starting"

ServerState = Literal["starting", "ready", "down"]
ItemTransform = Callable[[UpstreamItem], UpstreamItem]


class CatalogueEntry(Struct, frozen=True, gc=False):
    """An item that is shown."""

    server: str
    name: str
    """In a view of everything. For resources and templates the address."""
    bare: str
    """In a view of its server alone."""
    item: UpstreamItem
    about: str = ""
    """What the configuration says of its server."""


class ServerIdentity(Struct, frozen=True):
    """What an upstream said of itself, checked when it came in."""

    version: str = ""
    info: Raw = Raw(b"{}")
    capabilities: dict[str, Any] = {}
    instructions: str | None = None


class ServerCatalogue:
    """One upstream's place in the catalogue."""

    def __init__(
        self,
        config: ServerConfig,
        number: int,
        dress: ItemTransform,
        starting: Callable[[], StartProgress | None] = lambda: None,
    ) -> None:
        self._dress = dress
        self._mounted_at = time.monotonic()
        self.server = config.name
        self.number = number
        self.identity = ServerIdentity()
        self.known = False
        """Whether its lists were ever read, now or in an earlier life of the gateway."""
        self.failed_before = False
        """Never seen well, not in an earlier life of the gateway either: nobody waits long for it."""
        self.fault: str | None = None
        """Why it is missing, or why what is shown of it may be old."""
        self.notes: tuple[str, ...] = ()
        self.settled = asyncio.Event()
        """Its first try is over, well or badly."""
        self._starting = starting
        """How its connection comes along, while one is being opened."""
        self.lists: dict[str, tuple[UpstreamItem, ...]] = {}
        self.digests: dict[str, bytes] = {}
        """Of each list as its upstream sent it."""
        self.entries: dict[str, list[CatalogueEntry]] = {kind.name: [] for kind in KINDS}
        self._by_bare: dict[str, dict[str, CatalogueEntry]] = {kind.name: {} for kind in KINDS}
        self.templates = TemplateMatcher([])
        self._schemes: dict[str, set[str]] = {}
        self.reconfigure(config)

    @property
    def state(self) -> ServerState:
        """`starting` until its first try is over, however long that takes; and while a known one starts."""
        if self.settled.is_set() and self.fault is not None:
            return "down"
        return "ready" if self.settled.is_set() and self._starting() is None else "starting"

    @property
    def age(self) -> float:
        """Seconds since it was mounted."""
        return time.monotonic() - self._mounted_at

    @property
    def activity(self) -> str:
        """What a program that is starting wrote last: a package runner says there what it downloads."""
        start = self._starting()
        return "" if start is None else start.activity

    @property
    def absence(self) -> str:
        """Why nothing of it is shown, or nothing current; empty when all is well.

        Our own words come first, up to a colon; what a program wrote comes after it.
        """
        if self.state == "starting" and (self.fault is not None or not self.known):
            return f"{STARTING}: {self._starting() or StartProgress(self.age)}"
        return self.fault or ""

    def reconfigure(self, config: ServerConfig) -> None:
        self._admits = name_filter(config.allow, config.deny)
        self._rename = config.rename
        self.pinned = frozenset(config.pinned)
        self.about = config.description
        for kind in KINDS:
            self.put(kind, self.lists.pop(kind.name, ()))

    def put(self, kind: ItemKind, items: tuple[UpstreamItem, ...]) -> bool:
        """Take a new list; whether it differs from the old one."""
        if items is self.lists.get(kind.name):
            return False
        changed = items != self.lists.get(kind.name)
        self.lists[kind.name] = items
        named = kind.key == "name"
        found: dict[str, CatalogueEntry] = {}
        for item in items:
            if named and not self._admits(item.own):
                continue
            item = self._dress(item) if kind is TOOLS else item
            entry = self.entry(item) if named else CatalogueEntry(self.server, item.own, item.own, item)
            found.setdefault(entry.bare, entry)
        if kind is TEMPLATES:
            self.templates = TemplateMatcher(list(found))
        if not named:
            self._schemes[kind.name] = {uri.partition(":")[0] for uri in found}
        self._by_bare[kind.name] = found
        self.entries[kind.name] = list(found.values())
        return changed

    def entry(self, item: UpstreamItem) -> CatalogueEntry:
        """A tool or prompt under the names that it has here."""
        bare = self._rename.get(item.own, item.own)
        return CatalogueEntry(self.server, self.full_name(item.own), bare, item, self.about)

    def entry_of(self, own: str) -> CatalogueEntry:
        """The entry of a tool by its own name. A tool that is not listed gets one without a definition."""
        listed = self.find(TOOLS, self._rename.get(own, own))
        if listed is not None and listed.item.own == own:
            return listed
        return self.entry(UpstreamItem(own, b"}"))

    def full_name(self, own: str) -> str:
        """In a view of everything."""
        return shown_name(self.server, self._rename.get(own, own))

    def find(self, kind: ItemKind, bare: str) -> CatalogueEntry | None:
        return self._by_bare[kind.name].get(bare)

    def has_scheme(self, uri: str) -> bool:
        """Whether it offers anything at addresses of this kind."""
        scheme = uri.partition(":")[0]
        return any(scheme in schemes for schemes in self._schemes.values())

    def admits(self, own: str) -> bool:
        return self._admits(own)

    def own_name(self, bare: str) -> str:
        """What the upstream itself calls what we show under this name."""
        return next((own for own, shown in self._rename.items() if shown == bare), bare)

    def shows(self, bare: str) -> bool:
        """Whether a name may be used at all, known or not: it is admitted, and not one renamed away."""
        own = self.own_name(bare)
        return self._admits(own) and (own != bare or own not in self._rename)


class Catalogue:
    """`transform` changes the definition of a tool before it is shown."""

    def __init__(self, transform: ItemTransform = lambda item: item) -> None:
        self._transform = transform
        self.shelves: dict[str, ServerCatalogue] = {}
        self.hub = EventHub()
        self._lending = DiscoveredTools()
        self._numbers = 0
        self._order: dict[str, list[CatalogueEntry]] = {}
        self._index: dict[str, dict[str, CatalogueEntry]] = {}

    def add(
        self, config: ServerConfig, starting: Callable[[], StartProgress | None] = lambda: None
    ) -> ServerCatalogue:
        """`starting` tells how the server's first connection gets on, while it is being opened."""
        self._numbers += 1
        shelf = ServerCatalogue(config, self._numbers, self._transform, starting)
        self.shelves[config.name] = shelf
        self._forget()
        return shelf

    def remove(self, server: str) -> None:
        if self.shelves.pop(server, None) is not None:
            self._lending.forget(server)
            self.changed(server, KINDS)

    def changed(self, server: str, kinds: tuple[ItemKind, ...]) -> None:
        """An upstream's lists are others than before: say so to whoever listens."""
        self._forget()
        for method in dict.fromkeys(kind.changed for kind in kinds):
            self.hub.publish(ChangeEvent(method, server))

    def _forget(self) -> None:
        self._order.clear()
        self._index.clear()

    def all(self, kind: ItemKind) -> list[CatalogueEntry]:
        """Every entry, in the order of mounting; of two resources with one address the later has an alias."""
        order = self._order.get(kind.name)
        if order is None:
            found: dict[str, CatalogueEntry] = {}
            for entry in self._walk(kind):
                if entry.name in found and kind is RESOURCES:
                    entry = replace(entry, name=resource_alias(entry.server, entry.item.own))
                found.setdefault(entry.name, entry)
            self._index[kind.name] = found
            order = self._order[kind.name] = list(found.values())
        return order

    def _walk(self, kind: ItemKind) -> Iterator[CatalogueEntry]:
        for shelf in sorted(self.shelves.values(), key=lambda shelf: shelf.number):
            yield from shelf.entries[kind.name]

    def find(self, kind: ItemKind, name: str) -> CatalogueEntry | None:
        if kind.name not in self._index:
            self.all(kind)
        return self._index[kind.name].get(name)

    # What is not listed

    def lend(self, server: str, items: Sequence[UpstreamItem], whose: str) -> list[CatalogueEntry]:
        """Have somebody call tools that an upstream has and does not list; `borrower` says who it is.

        Those that may not be used here are left out, as if there were none; those that are listed need no
        lending.
        """
        shelf = self.shelves.get(server)
        if shelf is None:
            return []
        found = [shelf.entry(item) for item in items if shelf.admits(item.own)]
        found = [shelf.find(TOOLS, entry.bare) or entry for entry in found]
        self._lending.lend([entry for entry in found if shelf.find(TOOLS, entry.bare) is None], whose)
        return found

    def lent(self, name: str, whose: str) -> CatalogueEntry | None:
        """A tool under its full name, if it was lent to them and may still be used."""
        entry = self._lending.find(name, whose)
        return entry if entry is not None and self._holds(entry) else None

    def on_loan(self, whose: str) -> list[CatalogueEntry]:
        """Everything that somebody was lent, what was used last at the end."""
        return [entry for entry in self._lending.all(whose) if self._holds(entry)]

    def _holds(self, entry: CatalogueEntry) -> bool:
        """The configuration may have changed since."""
        shelf = self.shelves.get(entry.server)
        return (
            shelf is not None and shelf.admits(entry.item.own) and shelf.entry(entry.item).name == entry.name
        )

    @property
    def is_settled(self) -> bool:
        return all(shelf.known or shelf.settled.is_set() for shelf in self.shelves.values())

    async def settled(self, wait: float, whose: list[ServerCatalogue] | None = None) -> None:
        """Wait for the first try of every upstream never seen before, or of these; but not for long.

        `wait` counts from when each was mounted, once for all who ask: whoever comes later waits for nobody.
        """
        shelves = [shelf for shelf in self.shelves.values() if not shelf.known] if whose is None else whose
        short = min(wait, FAILED_BEFORE_SECONDS) if whose is None else wait
        trying = [shelf for shelf in shelves if not shelf.settled.is_set()]
        while left := [
            (shelf, seconds)
            for shelf in trying
            if not shelf.settled.is_set()
            and (seconds := (short if shelf.failed_before else wait) - shelf.age) > 0
        ]:
            waiting = [asyncio.ensure_future(shelf.settled.wait()) for shelf, _ in left]
            try:
                shortest = min(seconds for _, seconds in left)
                await asyncio.wait(waiting, timeout=shortest, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for future in waiting:
                    future.cancel()

    def missing(self) -> dict[str, str]:
        """What is not there, or not current, and why."""
        reasons = {shelf.server: shelf.absence or "; ".join(shelf.notes) for shelf in self.shelves.values()}
        return {server: reason for server, reason in reasons.items() if reason}


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
