"""What a caller sees: everything under full names, one upstream as it is, or a few meta tools.

A view is a `wire.call.Service`, so every edge can serve it. It answers lists from the catalogue and
forwards the rest. In the search view pinned tools are listed beside the meta tools; the list stays the same
otherwise, because a change costs the client its prompt cache. Any tool the caller may use answers to its
full name.
"""

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..catalogue.catalogue import CatalogueEntry, ServerCatalogue, conversation_of
from ..catalogue.items import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    ItemKind,
    UpstreamItem,
    item_json,
    with_server_description,
)
from ..dispatch import Mount
from ..kit.calls.content import ToolError, error_result
from ..kit.events import TOOLS_CHANGED, ChangeEvent
from ..upstream.errors import UpstreamError
from ..wire.call import SERVER_KEY, TASKS_EXTENSION, UI_EXTENSION, Call
from ..wire.errors import InvalidParams, MethodNotFound, Unavailable
from ..wire.messages import decode_params, encode
from ..wire.types import CallToolResult, Implementation, ListParams, Result, SetLevelParams, UriParams
from ..wire.versions import MODERN_VERSIONS
from .context import MetaToolContext, ViewContext
from .dialects.definitions import Dialect, MetaTool, RenamingDialect
from .dialects.native import read_result_tool
from .forwarding import (
    RequestForwarder,
    is_offered,
    not_found,
    run_in_background,
    servers_for,
    why_unavailable,
)
from .instructions import brief, how_to_search, instructions
from .meta.conversation import UnknownToolError, is_identified
from .meta.service import MetaToolService
from .stored_results import READ_RESOURCE_HINT, READ_RESULT, READ_RESULT_HINT, RESULT_TEMPLATE
from .subscriptions import MAX_SUBSCRIPTIONS, Subscriptions

if TYPE_CHECKING:
    from .context import ViewContext


TTL_MS = 5_000


class ListView(Protocol):
    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]: ...

    def name_of(self, entry: CatalogueEntry) -> str: ...

    def item_of(self, entry: CatalogueEntry) -> UpstreamItem: ...

    def server_info(self) -> Raw: ...


class ListPages:
    ttl_ms = TTL_MS

    def __init__(self, yard: "ViewContext", view: ListView) -> None:
        self._yard = yard
        self._view = view

    def page(self, call: Call, kind: ItemKind, first: Sequence[bytes] = ()) -> Raw:
        """`first`: what the list begins with that is not in the catalogue, as JSON."""
        entries = self._view.entries(kind, call)
        cursor = decode_params(call.params, ListParams).cursor
        start = 0 if cursor is None else self._after(kind, entries, cursor)
        found = entries[start : start + self._yard.page_size]
        name_of, item_of = self._view.name_of, self._view.item_of
        pieces = [b'{"%s":[' % kind.name.encode()]
        before = first if cursor is None else ()
        pieces.append(
            b",".join([*before, *(item_json(kind, item_of(entry), name_of(entry)) for entry in found)])
        )
        pieces.append(b"]")
        if found and start + len(found) < len(entries):
            pieces.append(b',"nextCursor":"%s"' % self._cursor(found[-1], start + len(found) - 1))
        if call.caller.era == "modern":
            pieces.append(
                b',"ttlMs":%d,"cacheScope":"private","resultType":"complete","_meta":{"%s":%s}'
                % (TTL_MS, SERVER_KEY.encode(), bytes(self._view.server_info()))
            )
        pieces.append(b"}")
        return Raw(b"".join(pieces))

    def _cursor(self, entry: CatalogueEntry, position: int) -> bytes:
        number = self._yard.catalogue.shelves[entry.server].number
        return base64.urlsafe_b64encode(encode([number, entry.bare, position]))

    def _after(self, kind: ItemKind, entries: list[CatalogueEntry], cursor: str) -> int:
        """Where the next page begins: after the entry that the last one ended with, were it gone or not."""
        try:
            decoded = base64.b64decode(cursor, altchars=b"-_", validate=True)
            number, bare, at = msgspec.json.decode(decoded, type=tuple[int, str, int])
        except (binascii.Error, ValueError, msgspec.DecodeError):
            raise InvalidParams(f"Invalid cursor {cursor[:80]!r}; start again without one") from None
        shelves = self._yard.catalogue.shelves
        following = len(entries)
        for position, entry in enumerate(entries):
            shelf = shelves[entry.server].number
            if shelf == number and entry.bare == bare:
                return position + 1
            if shelf > number and position < following:
                following = position
        # It has gone: about where it was, among those of its server.
        return min(max(at, 0), following)


MethodHandler = Callable[[Call], Awaitable[Any]]

_RESULT_TEMPLATE_JSON = encode(RESULT_TEMPLATE)


class View(ABC):
    sees_all = False
    """Every upstream there is, or will be."""
    more = READ_RESOURCE_HINT

    def __init__(self, yard: ViewContext) -> None:
        self.yard = yard
        self._pages = ListPages(yard, self)
        self._calling = RequestForwarder(yard, self)
        self._listening = Subscriptions(yard, self)
        shared: dict[str, MethodHandler] = {
            "tools/list": self._list(TOOLS),
            "prompts/list": self._list(PROMPTS),
            "resources/list": self._list(RESOURCES),
            "resources/templates/list": self._list(TEMPLATES),
            "tools/call": self._calling.call_tool,
            "prompts/get": self._calling.get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._calling.complete,
        }
        self._modern: dict[str, MethodHandler] = {
            **shared,
            "server/discover": self._discover,
            "subscriptions/listen": self._listening.modern,
            "tasks/get": self._calling.task,
            "tasks/update": self._calling.task,
            "tasks/cancel": self._calling.task,
        }
        self._legacy: dict[str, MethodHandler] = {
            **shared,
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "notifications/roots/list_changed": self._roots_changed,
        }

    # What the views differ in

    @abstractmethod
    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]: ...

    @abstractmethod
    def name_of(self, entry: CatalogueEntry) -> str: ...

    def item_of(self, entry: CatalogueEntry) -> UpstreamItem:
        """As it is listed."""
        return entry.item

    @abstractmethod
    def resolve(self, kind: ItemKind, name: str, call: Call) -> tuple[Mount, str, CatalogueEntry | None]:
        """Where a tool's or prompt's name leads and what it is called there; InvalidParams if nowhere."""

    @abstractmethod
    def places_of(self, uri: str) -> tuple[list[Mount], str]:
        """Who may have a resource, likeliest first, and its address there."""

    @abstractmethod
    def knows(self, uri: str) -> bool:
        """Whether some upstream offers a resource at this address."""

    @abstractmethod
    def servers(self) -> list[str]:
        """The upstreams that can be seen here."""

    def concerns(self, event: ChangeEvent, call: Call) -> bool:
        """Whether a change is one that this caller can see. What has params is told to those it is for."""
        # A server that has just gone is not among them any more, and its tools are gone with it.
        return event.params is None and (self.sees_all or event.about in self.servers())

    def offers(self, kind: ItemKind) -> bool:
        return True

    @abstractmethod
    def server_info(self) -> Raw: ...

    @abstractmethod
    async def about(self, modern: bool) -> dict[str, Any]:
        """`capabilities`, `serverInfo` and `instructions`."""

    # Service

    async def handle(self, call: Call) -> Any:
        answer = (self._modern if call.caller.era == "modern" else self._legacy).get(call.method)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        return await answer(call)

    async def listen(self, call: Call) -> None:
        await self._listening.legacy(call)

    async def close(self) -> None:
        """Ends who listens; the upstreams belong to whoever mounted them."""
        self._listening.close()

    def health(self) -> dict[str, Any]:
        return {"status": "ok"}

    # First words

    async def _discover(self, call: Call) -> Any:
        self.yard.met(call)
        about = await self.about(modern=True)
        info = about.pop("serverInfo")
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            **about,
            "ttlMs": self._pages.ttl_ms,
            "cacheScope": "private",
            "resultType": "complete",
            "_meta": {SERVER_KEY: info},
        }

    async def _initialize(self, call: Call) -> Any:
        self.yard.met(call)
        return {"protocolVersion": call.caller.version, **await self.about(modern=False)}

    async def _ping(self, call: Call) -> Any:
        return Result()

    async def _set_level(self, call: Call) -> Any:
        level = decode_params(call.params, SetLevelParams).level
        if call.session is not None:
            call.session.log_level = level
        return Result()

    # Lists

    def _list(self, kind: ItemKind) -> MethodHandler:
        async def answer(call: Call) -> Any:
            if not self.offers(kind):
                raise MethodNotFound(call.method)
            await self.yard.catalogue.settled(self.yard.list_wait)
            self.yard.touch()
            return self._pages.page(call, kind, self._ours(kind))

        return answer

    def _ours(self, kind: ItemKind) -> list[bytes]:
        """What the gateway itself has."""
        return [_RESULT_TEMPLATE_JSON] if kind is TEMPLATES and self.yard.stored is not None else []

    async def _read_resource(self, call: Call) -> Any:
        stored = self.yard.stored
        if stored is not None and stored.is_result_uri(decode_params(call.params, UriParams).uri):
            return await stored.read(call)
        return await self._calling.read_resource(call)

    # What a legacy session sets

    async def _subscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if not self.knows(uri):
            raise not_found(call, uri)
        if call.session is not None:
            if len(call.session.subscriptions | {uri}) > MAX_SUBSCRIPTIONS:
                raise InvalidParams(f"A session may subscribe to {MAX_SUBSCRIPTIONS} resources")
            call.session.subscriptions.add(uri)
            await self._listening.subscribed(call.session)
        return Result()

    async def _unsubscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if call.session is not None:
            call.session.subscriptions.discard(uri)
            await self._listening.subscribed(call.session)
        return Result()

    async def end_session(self, call: Call) -> None:
        """What was opened upstream for this client alone goes with it."""
        for server in self.servers():
            mount = self.yard.mounts.get(server)
            if mount is not None:
                mount.let_go(call)

    async def _roots_changed(self, call: Call) -> None:
        """Told side by side and behind the client's back: one that hangs holds up nobody."""
        for server in self.servers():
            mount = self.yard.mounts.get(server)
            if mount is not None and mount.roots_changed is not None:
                run_in_background(mount.roots_changed(call))


OPTIONAL_CAPABILITIES: dict[str, Any] = {
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
MAX_COMPARED = 200
EXTENSIONS = (TASKS_EXTENSION, UI_EXTENSION)


class AllView(View):
    sees_all = True

    def __init__(self, yard: ViewContext, implementation: Implementation, own_instructions: str = "") -> None:
        super().__init__(yard)
        self._implementation = implementation
        self._info = Raw(msgspec.json.encode(implementation))
        self._own_instructions = own_instructions

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        return self.yard.catalogue.all(kind)

    def name_of(self, entry: CatalogueEntry) -> str:
        return entry.name

    def item_of(self, entry: CatalogueEntry) -> UpstreamItem:
        return with_server_description(entry.item, entry.about)

    def server_info(self) -> Raw:
        return self._info

    def servers(self) -> list[str]:
        return list(self.yard.catalogue.shelves)

    def resolve(self, kind: ItemKind, name: str, call: Call) -> tuple[Mount, str, CatalogueEntry | None]:
        entry = self.yard.catalogue.find(kind, name)
        mount = None if entry is None else self.yard.mounts.get(entry.server)
        if entry is None or mount is None:
            raise why_unavailable(self.yard.catalogue, name) or InvalidParams(self._unknown(kind, name))
        return mount, entry.item.own, entry

    def _unknown(self, kind: ItemKind, name: str) -> str:
        what = "tool" if kind is TOOLS else "prompt"
        # Comparing takes long: only with those of the same server or of the same name, and with few.
        start = "__".join(name.split("__", 2)[:2]) + "__"
        end = name[len(start) - 2 :]
        known = [entry.name for entry in self.yard.catalogue.all(kind)]
        names = [one for one in known if one.startswith(start)] or [one for one in known if one.endswith(end)]
        near = get_close_matches(name[:80], names[:MAX_COMPARED], 3, 0.6)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return f"Unknown {what}: {name[:80]!r}{hint}"

    def places_of(self, uri: str) -> tuple[list[Mount], str]:
        servers, own = servers_for(self.yard.catalogue, uri)
        mounts = self.yard.mounts
        return [mounts[server] for server in servers if server in mounts], own

    def knows(self, uri: str) -> bool:
        servers, own = servers_for(self.yard.catalogue, uri)
        shelves = self.yard.catalogue.shelves
        return any(is_offered(shelves[server], own) for server in servers)

    def _instructions(self) -> str:
        return instructions(self._own_instructions, self.yard.catalogue)

    def health(self) -> dict[str, Any]:
        return self.yard.health()

    async def about(self, modern: bool) -> dict[str, Any]:
        catalogue = self.yard.catalogue
        await catalogue.settled(self.yard.list_wait)
        found = [shelf.identity.capabilities for shelf in catalogue.shelves.values()]
        # What is not mounted yet may come with the next change of the configuration; tools always do.
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        if self.yard.stored is not None:
            capabilities["resources"] = {}
        capabilities |= {
            name: offer for name, offer in OPTIONAL_CAPABILITIES.items() if any(name in one for one in found)
        }
        extensions: dict[str, Any] = {
            name: {}
            for name in EXTENSIONS
            if (modern or name != TASKS_EXTENSION)
            and any(name in (one.get("extensions") or {}) for one in found)
        }
        if extensions:
            capabilities["extensions"] = extensions
        text = self._instructions()
        return {
            "capabilities": capabilities,
            "serverInfo": self._implementation,
            **({"instructions": text} if text else {}),
        }


class BareView(View):
    def __init__(self, yard: ViewContext, server: str) -> None:
        super().__init__(yard)
        self._server = server

    @property
    def _shelf(self) -> ServerCatalogue:
        shelf = self.yard.catalogue.shelves.get(self._server)
        if shelf is None:
            raise Unavailable(f"server {self._server!r} is not mounted any more")
        return shelf

    @property
    def _mount(self) -> Mount:
        mount = self.yard.mounts.get(self._server)
        if mount is None:
            raise Unavailable(f"server {self._server!r} is not mounted any more")
        return mount

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        return self._shelf.entries[kind.name]

    def name_of(self, entry: CatalogueEntry) -> str:
        return entry.bare

    def server_info(self) -> Raw:
        return self._shelf.identity.info

    def offers(self, kind: ItemKind) -> bool:
        identity = self._shelf.identity
        ours = kind.capability == "resources" and self.yard.stored is not None
        return ours or not identity.version or kind.capability in identity.capabilities

    def servers(self) -> list[str]:
        return [self._server]

    def resolve(self, kind: ItemKind, name: str, call: Call) -> tuple[Mount, str, CatalogueEntry | None]:
        """A name that we do not know may be new: the upstream itself says whether it is."""
        shelf = self._shelf
        entry = shelf.find(kind, name)
        if entry is None and not shelf.shows(name):
            what = "tool" if kind is TOOLS else "prompt" if kind is PROMPTS else "resource"
            raise InvalidParams(f"Unknown {what}: {name[:80]!r}")
        return self._mount, shelf.own_name(name) if entry is None else entry.item.own, entry

    def places_of(self, uri: str) -> tuple[list[Mount], str]:
        return [self._mount], uri

    def knows(self, uri: str) -> bool:
        return is_offered(self._shelf, uri)

    async def about(self, modern: bool) -> dict[str, Any]:
        shelf = self._shelf
        if not shelf.known:
            await self.yard.catalogue.settled(self.yard.list_wait, [shelf])
        identity = shelf.identity
        capabilities = {name: value for name, value in identity.capabilities.items() if name != "tasks"}
        if self.yard.stored is not None:
            capabilities.setdefault("resources", {})
        for name in ("tools", "prompts", "resources"):
            if name in capabilities:
                capabilities[name] = {**(capabilities[name] or {}), "listChanged": True}
        extensions = dict(capabilities.get("extensions") or {})
        if not modern:
            extensions.pop(TASKS_EXTENSION, None)
        capabilities.pop("extensions", None)
        if extensions:
            capabilities["extensions"] = extensions
        text = identity.instructions
        if shelf.fault is not None:
            text = f"{text or ''}\n\nThis server is not available now: {brief(shelf.fault)}".strip()
        return {
            "capabilities": capabilities,
            "serverInfo": identity.info if identity.version else {"name": self._server, "version": "0"},
            **({"instructions": text} if text else {}),
        }


class SearchView(AllView):
    more = READ_RESULT_HINT

    def __init__(
        self,
        supplies: MetaToolContext,
        dialects: Sequence[Dialect],
        implementation: Implementation,
        own_instructions: str = "",
    ) -> None:
        super().__init__(supplies.yard, implementation, own_instructions)
        self._dialects = dialects
        self._tools: dict[str, MetaTool] = {}
        for dialect in dialects:
            for tool in dialect.tools():
                self._tools.setdefault(tool.name, tool)
        if supplies.yard.stored is not None:
            self._tools.setdefault(READ_RESULT, read_result_tool(supplies.yard.stored))
        self._definitions = [encode(tool.shown()) for tool in self._tools.values()]
        self.desk = MetaToolService(supplies, self._calling.call_tool, self._tools)
        for methods in (self._modern, self._legacy):
            methods["tools/list"] = self._list_tools
            methods["tools/call"] = self._call_tool

    # Lists

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        if kind is not TOOLS:
            return super().entries(kind, call)
        shelves = self.yard.catalogue.shelves
        listed = {
            entry.name: entry
            for shelf in shelves.values()
            if shelf.pinned
            for entry in shelf.entries[TOOLS.name]
            if entry.bare in shelf.pinned or entry.item.own in shelf.pinned
        }
        found = self.desk.finds.tools(conversation_of(call)) if self.desk.lists_found(call) else ()
        for name in found:
            entry = self.desk.known.entry(call, name)
            if entry is not None:
                listed.setdefault(name, entry)
        # In the order of mounting, which is what pages go by.
        return sorted(listed.values(), key=lambda entry: shelves[entry.server].number)

    async def _list_tools(self, call: Call) -> Any:
        await self.yard.catalogue.settled(self.yard.list_wait)
        self.yard.touch()
        renamed = [
            encode(tool)
            for dialect in self._dialects
            if isinstance(dialect, RenamingDialect)
            for tool in await dialect.listed(self.desk, call)
        ]
        return self._pages.page(call, TOOLS, [*self._definitions, *renamed])

    def concerns(self, event: ChangeEvent, call: Call) -> bool:
        if event.method != TOOLS_CHANGED:
            return super().concerns(event, call)
        whose = conversation_of(call)
        if event.params is not None:
            return event.params == whose
        if not event.about:
            return is_identified(call, self.yard)
        shelf = self.yard.catalogue.shelves.get(event.about)
        if shelf is None or shelf.pinned:
            return True
        return self.desk.lists_found(call) and event.about in self.desk.finds.servers(whose)

    def _instructions(self) -> str:
        return how_to_search(self._own_instructions, list(self._tools), self.yard.catalogue)

    # Calls

    def resolve(self, kind: ItemKind, name: str, call: Call) -> tuple[Mount, str, CatalogueEntry | None]:
        entry = self.desk.known.entry(call, name) if kind is TOOLS else None
        if entry is None:
            return super().resolve(kind, name, call)
        return self.yard.mounts[entry.server], entry.item.own, entry

    async def _call_tool(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        name = decode_params(members.get("name", Raw(b"null")), str)
        tool = self._tools.get(name)
        if tool is not None:
            return self._stamped(call, await self._answered(tool, call, members))
        try:
            full = await self._full_name(call, name)
        except UnknownToolError as error:
            raise InvalidParams(str(error)) from None
        except ToolError as error:
            return self._stamped(call, error_result(str(error)))
        if full != name:
            call = replace(call, params=Raw(encode({**members, "name": full})))
        return await self.desk.executing.run(call, full)

    async def _full_name(self, call: Call, name: str) -> str:
        if self.desk.known.entry(call, name) is not None:
            return name
        for dialect in self._dialects:
            if isinstance(dialect, RenamingDialect):
                full = await dialect.full_name(self.desk, call, name)
                if full is not None:
                    return full
        return (await self.desk.known.seek(call, name)).name

    async def _answered(self, tool: MetaTool, call: Call, members: dict[str, Raw]) -> Any:
        """What goes wrong is for the model to read, unless it is about the protocol."""
        try:
            arguments = decode_params(members.get("arguments", Raw(b"{}")), dict[str, Any])
            return await tool.answer(self.desk, call, arguments)
        except (ToolError, UpstreamError) as error:
            return error_result(str(error))
        except InvalidParams as error:
            if "requestState" in members:
                raise
            return error_result(error.message)

    def _stamped(self, call: Call, result: Any) -> Any:
        """Results of upstreams say already whose they are; our own do not."""
        if call.caller.era == "modern" and isinstance(result, CallToolResult) and result.result_type is UNSET:
            result.result_type = "complete"
            meta = {} if result.meta is UNSET else result.meta
            result.meta = {SERVER_KEY: self._implementation, **meta}
        return result
