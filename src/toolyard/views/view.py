"""The views: everything under full names, one upstream unchanged, or a few meta tools.

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

from ..catalogue.catalogue import CatalogueEntry, ServerIdentity, conversation_of
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
from ..catalogue.scope import VisibleCatalogue, VisibleServer
from ..dispatch import CallTarget, Mount
from ..kit.calls.content import ToolError, error_result
from ..kit.events import TOOLS_CHANGED, ChangeEvent
from ..upstream.base import Outcome
from ..upstream.connection import Params
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
from .stored_results import (
    READ_RESOURCE_HINT,
    READ_RESULT,
    READ_RESULT_HINT,
    RESULT_TEMPLATE,
)
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

    def __init__(self, context: "ViewContext", view: ListView) -> None:
        self._context = context
        self._view = view

    def page(self, call: Call, kind: ItemKind, first: Sequence[bytes] = ()) -> Raw:
        """`first`: JSON of the gateway's own entries, which come first."""
        entries = self._view.entries(kind, call)
        cursor = decode_params(call.params, ListParams).cursor
        start = 0 if cursor is None else self._after(kind, entries, cursor)
        found = entries[start : start + self._context.settings.page_size]
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
        number = self._context.catalogue.servers[entry.server].number
        return base64.urlsafe_b64encode(encode([number, entry.bare, position]))

    def _after(self, kind: ItemKind, entries: list[CatalogueEntry], cursor: str) -> int:
        """Returns where the next page begins: after the previous page's last entry, even if that is gone."""
        try:
            decoded = base64.b64decode(cursor, altchars=b"-_", validate=True)
            number, bare, at = msgspec.json.decode(decoded, type=tuple[int, str, int])
        except (binascii.Error, ValueError, msgspec.DecodeError):
            raise InvalidParams(f"Invalid cursor {cursor[:80]!r}; start again without one") from None
        servers = self._context.catalogue.servers
        following = len(entries)
        for position, entry in enumerate(entries):
            other = servers[entry.server].number
            if other == number and entry.bare == bare:
                return position + 1
            if other > number and position < following:
                following = position
        # The entry is gone: continue near its place among the entries of its server.
        return min(max(at, 0), following)


MethodHandler = Callable[[Call], Awaitable[Any]]

_RESULT_TEMPLATE_JSON = encode(RESULT_TEMPLATE)


class View(ABC):
    sees_all = False
    """Whether the view shows every upstream, including future ones."""
    read_hint = READ_RESOURCE_HINT

    def __init__(self, context: ViewContext) -> None:
        self.context = context
        self._pages = ListPages(context, self)
        self._forwarder = RequestForwarder(context, self)
        self._subscriptions = Subscriptions(context, self)
        shared: dict[str, MethodHandler] = {
            "tools/list": self._list(TOOLS),
            "prompts/list": self._list(PROMPTS),
            "resources/list": self._list(RESOURCES),
            "resources/templates/list": self._list(TEMPLATES),
            "tools/call": self._forwarder.call_tool,
            "prompts/get": self._forwarder.get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._forwarder.complete,
        }
        self._modern: dict[str, MethodHandler] = {
            **shared,
            "server/discover": self._discover,
            "subscriptions/listen": self._subscriptions.modern,
            "tasks/get": self._forwarder.task,
            "tasks/update": self._forwarder.task,
            "tasks/cancel": self._forwarder.task,
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

    # Overridden by each view

    @abstractmethod
    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]: ...

    @abstractmethod
    def name_of(self, entry: CatalogueEntry) -> str: ...

    def item_of(self, entry: CatalogueEntry) -> UpstreamItem:
        """Returns the entry as it is listed."""
        return entry.item

    @abstractmethod
    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        """Returns the upstream of a tool or prompt and its name there. Raises InvalidParams if unknown."""

    @abstractmethod
    def places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]:
        """Returns the upstreams that may have a resource, likeliest first, and its URI there."""

    @abstractmethod
    def knows(self, uri: str, call: Call) -> bool:
        """Returns whether an upstream offers this resource."""

    @abstractmethod
    def servers(self, call: Call) -> list[str]:
        """Returns the upstreams that this view shows."""

    def concerns(self, event: ChangeEvent, call: Call) -> bool:
        """Returns whether this caller can see a change. An event with params is only for its addressees."""
        # A server that has just gone is not among them any more, and its tools are gone with it.
        if event.params is not None:
            return False
        if not event.about:  # other rules
            return True
        gone = event.about not in self.context.catalogue.servers
        return (self.sees_all and gone) or event.about in self.servers(call)

    def offers(self, kind: ItemKind, call: Call) -> bool:
        return True

    @abstractmethod
    def server_info(self) -> Raw: ...

    @abstractmethod
    async def about(self, call: Call) -> dict[str, Any]:
        """Returns `capabilities`, `serverInfo` and `instructions`."""

    # Service

    async def handle(self, call: Call) -> Any:
        answer = (self._modern if call.caller.era == "modern" else self._legacy).get(call.method)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        tracing = self.context.tracing
        return await answer(call) if tracing is None else await tracing.serve(call, answer)

    async def listen(self, call: Call) -> None:
        await self._subscriptions.legacy(call)

    async def close(self) -> None:
        """Ends all listeners. The upstreams belong to the gateway."""
        self._subscriptions.close()

    def health(self) -> dict[str, Any]:
        return {"status": "ok"}

    # Initialization

    async def _discover(self, call: Call) -> Any:
        self.context.host.client_seen(call)
        about = await self.about(call)
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
        self.context.host.client_seen(call)
        return {"protocolVersion": call.caller.version, **await self.about(call)}

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
            if not self.offers(kind, call):
                raise MethodNotFound(call.method)
            await self.context.catalogue.wait_settled(self.context.list_wait)
            self.context.host.lists_wanted()
            return self._pages.page(call, kind, self._ours(kind))

        return answer

    def _ours(self, kind: ItemKind) -> list[bytes]:
        """Returns the gateway's own entries."""
        return [_RESULT_TEMPLATE_JSON] if kind is TEMPLATES and self.context.stored is not None else []

    async def _read_resource(self, call: Call) -> Any:
        stored = self.context.stored
        if stored is not None and stored.is_result_uri(decode_params(call.params, UriParams).uri):
            return await stored.read(call)
        return await self._forwarder.read_resource(call)

    # State of legacy sessions

    async def _subscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if not self.knows(uri, call):
            await self.context.note_unknown(call, RESOURCES, uri)
            raise not_found(call, uri)
        if call.session is not None:
            if len(call.session.subscriptions | {uri}) > MAX_SUBSCRIPTIONS:
                raise InvalidParams(f"A session may subscribe to {MAX_SUBSCRIPTIONS} resources")
            call.session.subscriptions.add(uri)
            await self._subscriptions.subscribed(call.session)
        return Result()

    async def _unsubscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if call.session is not None:
            call.session.subscriptions.discard(uri)
            await self._subscriptions.subscribed(call.session)
        return Result()

    async def end_session(self, call: Call) -> None:
        """Closes the upstream sessions that were opened for this client."""
        for server in self.servers(call):
            mount = self.context.mounts.get(server)
            if mount is not None:
                mount.upstream.end_session(call)

    async def _roots_changed(self, call: Call) -> None:
        """Notifies all upstreams in the background, so that one that hangs does not block the others."""
        for server in self.servers(call):
            mount = self.context.mounts.get(server)
            if mount is not None:
                run_in_background(mount.upstream.roots_changed(call))


OPTIONAL_CAPABILITIES: dict[str, Any] = {
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
MAX_COMPARED = 200
EXTENSIONS = (TASKS_EXTENSION, UI_EXTENSION)


def _unknown(catalogue: VisibleCatalogue, kind: ItemKind, name: str) -> str:
    what = "tool" if kind is TOOLS else "prompt"
    # Comparing takes long: only with those of the same server or of the same name, and with few.
    start = "__".join(name.split("__", 2)[:2]) + "__"
    end = name[len(start) - 2 :]
    known = [entry.name for entry in catalogue.all(kind)]
    names = [one for one in known if one.startswith(start)] or [one for one in known if one.endswith(end)]
    near = get_close_matches(name[:80], names[:MAX_COMPARED], 3, 0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"Unknown {what}: {name[:80]!r}{hint}"


class AllView(View):
    sees_all = True

    def __init__(
        self, context: ViewContext, implementation: Implementation, own_instructions: str = ""
    ) -> None:
        super().__init__(context)
        self._implementation = implementation
        self._info = Raw(msgspec.json.encode(implementation))
        self._own_instructions = own_instructions

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        return self.context.visible(call).all(kind)

    def name_of(self, entry: CatalogueEntry) -> str:
        return entry.name

    def item_of(self, entry: CatalogueEntry) -> UpstreamItem:
        return with_server_description(entry.item, entry.about)

    def server_info(self) -> Raw:
        return self._info

    def servers(self, call: Call) -> list[str]:
        return list(self.context.visible(call).servers)

    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        catalogue = self.context.visible(call)
        entry = catalogue.find(kind, name)
        mount = None if entry is None else self.context.mounts.get(entry.server)
        if entry is None or mount is None:
            raise why_unavailable(catalogue, name) or InvalidParams(_unknown(catalogue, kind, name))
        return CallTarget(mount, entry.item.own, entry)

    def places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]:
        servers, own = servers_for(self.context.visible(call), uri)
        mounts = self.context.mounts
        return [mounts[server] for server in servers if server in mounts], own

    def knows(self, uri: str, call: Call) -> bool:
        catalogue = self.context.visible(call)
        servers, own = servers_for(catalogue, uri)
        visible = catalogue.servers
        return any(is_offered(visible[server], own) for server in servers)

    def _instructions(self, call: Call) -> str:
        return instructions(self._own_instructions, self.context.visible(call))

    def health(self) -> dict[str, Any]:
        return self.context.host.health()

    async def about(self, call: Call) -> dict[str, Any]:
        catalogue, modern = self.context.visible(call), call.caller.era == "modern"
        await catalogue.wait_settled(self.context.list_wait)
        found = [server.identity.capabilities for server in catalogue.servers.values()]
        # Upstreams mounted later may add other capabilities; tools are always there.
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        if self.context.stored is not None:
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
        text = self._instructions(call)
        return {
            "capabilities": capabilities,
            "serverInfo": self._implementation,
            **({"instructions": text} if text else {}),
        }


class BareView(View):
    def __init__(self, context: ViewContext, server: str) -> None:
        super().__init__(context)
        self._server = server

    def _listing(self, call: Call) -> VisibleServer:
        listing = self.context.visible(call).servers.get(self._server)
        if listing is None:
            raise Unavailable(f"server {self._server!r} is not mounted any more")
        return listing

    @property
    def _mount(self) -> Mount:
        mount = self.context.mounts.get(self._server)
        if mount is None:
            raise Unavailable(f"server {self._server!r} is not mounted any more")
        return mount

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        return self._listing(call).entries[kind.name]

    def name_of(self, entry: CatalogueEntry) -> str:
        return entry.bare

    def server_info(self) -> Raw:
        server = self.context.catalogue.servers.get(self._server)
        return ServerIdentity().info if server is None else server.identity.info

    def offers(self, kind: ItemKind, call: Call) -> bool:
        identity = self._listing(call).identity
        ours = kind.capability == "resources" and self.context.stored is not None
        return ours or not identity.version or kind.capability in identity.capabilities

    def servers(self, call: Call) -> list[str]:
        return [self._server] if self._server in self.context.visible(call).servers else []

    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        """Passes unknown names on: they may be new, and the upstream decides."""
        listing = self._listing(call)
        entry = listing.find(kind, name)
        if entry is None and not listing.may_call(name):
            what = "tool" if kind is TOOLS else "prompt" if kind is PROMPTS else "resource"
            raise InvalidParams(f"Unknown {what}: {name[:80]!r}")
        own = listing.own_name(name) if entry is None else entry.item.own
        return CallTarget(self._mount, own, entry)

    def places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]:
        return ([self._mount] if self._listing(call).may_read(uri) else []), uri

    def knows(self, uri: str, call: Call) -> bool:
        return is_offered(self._listing(call), uri)

    async def about(self, call: Call) -> dict[str, Any]:
        listing = self._listing(call)
        if not listing.was_read:
            await self.context.catalogue.wait_settled(self.context.list_wait, [self._server])
        identity = listing.identity
        capabilities = {name: value for name, value in identity.capabilities.items() if name != "tasks"}
        if self.context.stored is not None:
            capabilities.setdefault("resources", {})
        for name in ("tools", "prompts", "resources"):
            if name in capabilities:
                capabilities[name] = {**(capabilities[name] or {}), "listChanged": True}
        extensions = dict(capabilities.get("extensions") or {})
        if call.caller.era != "modern":
            extensions.pop(TASKS_EXTENSION, None)
        capabilities.pop("extensions", None)
        if extensions:
            capabilities["extensions"] = extensions
        text = identity.instructions
        if listing.fault is not None:
            text = f"{text or ''}\n\nThis server is not available now: {brief(listing.fault)}".strip()
        return {
            "capabilities": capabilities,
            "serverInfo": identity.info if identity.version else {"name": self._server, "version": "0"},
            **({"instructions": text} if text else {}),
        }


class SearchView(AllView):
    read_hint = READ_RESULT_HINT

    def __init__(
        self,
        context: MetaToolContext,
        dialects: Sequence[Dialect],
        implementation: Implementation,
        own_instructions: str = "",
    ) -> None:
        super().__init__(context.view_context, implementation, own_instructions)
        self._dialects = dialects
        self._tools: dict[str, MetaTool] = {}
        for dialect in dialects:
            for tool in dialect.tools():
                self._tools.setdefault(tool.name, tool)
        if context.view_context.stored is not None:
            self._tools.setdefault(READ_RESULT, read_result_tool(context.view_context.stored))
        self._definitions = [encode(tool.shown()) for tool in self._tools.values()]
        self.meta_tools = MetaToolService(context, self._forwarder.send_tool, self._tools)
        for methods in (self._modern, self._legacy):
            methods["tools/list"] = self._list_tools
            methods["tools/call"] = self._call_tool

    # Lists

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        if kind is not TOOLS:
            return super().entries(kind, call)
        servers = self.context.visible(call).servers
        listed = {
            entry.name: entry
            for server in servers.values()
            if server.pinned
            for entry in server.entries[TOOLS.name]
            if entry.bare in server.pinned or entry.item.own in server.pinned
        }
        found = (
            self.meta_tools.finds.tools(conversation_of(call)) if self.meta_tools.lists_found(call) else ()
        )
        for name in found:
            entry = self.meta_tools.known.entry(call, name)
            if entry is not None:
                listed.setdefault(name, entry)
        # In the order of mounting, as pages expect.
        return sorted(listed.values(), key=lambda entry: servers[entry.server].number)

    async def _list_tools(self, call: Call) -> Any:
        await self.context.catalogue.wait_settled(self.context.list_wait)
        self.context.host.lists_wanted()
        renamed = [
            encode(tool)
            for dialect in self._dialects
            if isinstance(dialect, RenamingDialect)
            for tool in await dialect.listed(self.meta_tools, call)
        ]
        return self._pages.page(call, TOOLS, [*self._definitions, *renamed])

    def concerns(self, event: ChangeEvent, call: Call) -> bool:
        if event.method != TOOLS_CHANGED:
            return super().concerns(event, call)
        whose = conversation_of(call)
        if event.params is not None:
            return event.params == whose
        if not event.about:  # other settings or rules
            visible = self.context.visible(call).servers.values()
            return is_identified(call, self.context) or any(server.pinned for server in visible)
        if event.about not in self.context.catalogue.servers:
            return True
        server = self.context.visible(call).servers.get(event.about)
        if server is None:
            return False
        if server.pinned:
            return True
        return self.meta_tools.lists_found(call) and event.about in self.meta_tools.finds.servers(whose)

    def _instructions(self, call: Call) -> str:
        return how_to_search(self._own_instructions, list(self._tools), self.context.visible(call))

    # Calls

    async def _call_tool(self, call: Call) -> Any:
        params = call.members()
        name = decode_params(params.get("name", Raw(b"null")), str)
        tool = self._tools.get(name)
        if tool is None:
            return await self._call_directly(call, name, params)
        try:
            arguments = decode_params(params.get("arguments", Raw(b"{}")), dict[str, Any])
            answer = await tool.answer(self.meta_tools, call, arguments)
        except (ToolError, UpstreamError) as error:  # for the model to read
            answer = error_result(str(error))
        except InvalidParams as error:
            if "requestState" in params:  # about the protocol
                raise
            answer = error_result(error.message)
        if isinstance(answer, Outcome):  # of a server: the pipeline has noted it
            return answer.body
        await self.context.note_answered(call, name, answer.is_error is True)
        return self._stamped(call, answer)

    async def _call_directly(self, call: Call, name: str, params: Params) -> Any:
        """Calls a tool by its full name, or by a dialect's name for it."""
        try:
            target = await self._target(call, name)
        except UnknownToolError as error:
            raise InvalidParams(str(error)) from None
        except ToolError as error:
            return self._stamped(call, error_result(str(error)))
        return (await self.meta_tools.send(call, target, params)).body

    async def _target(self, call: Call, name: str) -> CallTarget:
        tools = self.meta_tools.known
        found = tools.target(call, name)
        if found is not None:
            return found
        for dialect in self._dialects:
            if isinstance(dialect, RenamingDialect):
                full = await dialect.full_name(self.meta_tools, call, name)
                if full is not None:
                    return await tools.find(call, full)
        return await tools.find(call, name)

    def _stamped(self, call: Call, result: CallToolResult) -> CallToolResult:
        """Adds the members that the modern era requires to a result of our own."""
        if call.caller.era == "modern" and result.result_type is UNSET:
            result.result_type = "complete"
            meta = {} if result.meta is UNSET else result.meta
            result.meta = {SERVER_KEY: self._implementation, **meta}
        return result
