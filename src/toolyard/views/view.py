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
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from ..catalogue.catalogue import CatalogueEntry, conversation_of
from ..catalogue.items import (
    PAGE,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    ItemKind,
    UpstreamItem,
    item_json,
    with_own_page,
    with_server_description,
)
from ..catalogue.scope import VisibleCatalogue, VisibleServer
from ..dispatch import CallTarget, Mount
from ..kit.calls.content import ToolError, error_result
from ..kit.events import TOOLS_CHANGED, ChangeEvent
from ..kit.features.base import invalid_cursor, unknown
from ..languages import answering, said
from ..upstream.base import Outcome
from ..upstream.connection import Params
from ..upstream.errors import UpstreamError
from ..wire.call import SERVER_KEY, TASKS_EXTENSION, UI_EXTENSION, Call
from ..wire.errors import InvalidParams, MethodNotFound
from ..wire.messages import decode_params, encode
from ..wire.types import CallToolResult, Implementation, ListParams, Result, SetLevelParams, UriParams
from ..wire.versions import MODERN_VERSIONS
from .context import MetaToolContext, ViewContext
from .dialects.definitions import Dialect, MetaTool, RenamingDialect, StrictDialect, refusal
from .dialects.native import CALL_TOOL, arguments_within, read_result_tool
from .forwarding import (
    RequestForwarder,
    is_offered,
    not_found,
    own_link,
    run_in_background,
    servers_for,
    why_unavailable,
)
from .instructions import how_to_search, instructions
from .meta.conversation import UnknownToolError, is_identified
from .meta.service import MetaToolService
from .stored_results import READ_RESULT, read_resource_hint, read_result_hint, result_template
from .subscriptions import MAX_SUBSCRIPTIONS, Subscriptions

if TYPE_CHECKING:
    from .context import ViewContext


TTL_MS = 5_000
PAGE_JSON = b'"%s' % PAGE.encode()


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
            raise invalid_cursor(cursor) from None
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

_READ_RESULT_JSON = encode(READ_RESULT)


class View(ABC):
    sees_all = False
    """Whether the view shows every upstream, including future ones."""

    @property
    def read_hint(self) -> str:
        return read_resource_hint()

    @property
    def marks(self) -> bool:
        """Whether the words of servers are marked as theirs."""
        return True

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
            "tools/call": self._call_tool,
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
        if event.params is not None:  # a conversation has discovered tools
            return event.params == conversation_of(call) and event.about in self.servers(call)
        if not event.about:  # other rules
            return True
        gone = event.about not in self.context.catalogue.servers
        return (self.sees_all and gone) or event.about in self.servers(call)

    def seals_tasks(self, call: Call) -> bool:
        """Returns whether ids of tasks are bound to their callers."""
        return True

    def _discovered(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        """Returns the tools that the caller's conversation has discovered, in an order that stays."""
        if kind is not TOOLS:
            return []
        found = self.context.visible(call).discovered(conversation_of(call))
        return sorted(found, key=lambda entry: entry.name)

    @abstractmethod
    def server_info(self) -> Raw: ...

    @abstractmethod
    async def about(self, call: Call) -> dict[str, Any]:
        """Returns `capabilities`, `serverInfo` and `instructions`."""

    # Service

    async def handle(self, call: Call) -> Any:
        answer = self._handler(call)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        tracing = self.context.tracing
        with answering(self.context.locale):
            return await answer(call) if tracing is None else await tracing.serve(call, answer)

    def _handler(self, call: Call) -> MethodHandler | None:
        return (self._modern if call.caller.era == "modern" else self._legacy).get(call.method)

    async def listen(self, call: Call) -> None:
        with answering(self.context.locale):
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
            await self.context.catalogue.wait_settled(self.context.list_wait)
            await self.context.host.read_lists(self.servers(call))
            self.context.host.lists_wanted()
            return self._pages.page(call, kind, self._ours(kind))

        return answer

    def _ours(self, kind: ItemKind) -> list[bytes]:
        """Returns the gateway's own entries."""
        return [encode(result_template())] if kind is TEMPLATES and self.context.stored is not None else []

    # Calls

    async def _call_tool(self, call: Call) -> Any:
        """Calls a server's tool; also answers `read_result`, listed or not, unless a server has it."""
        stored, params = self.context.stored, call.members()
        if stored is None or bytes(params.get("name", b"")) != _READ_RESULT_JSON:
            return await self._forwarder.call_tool(call)
        with suppress(InvalidParams):
            if self.resolve(TOOLS, READ_RESULT, call).entry is not None:
                return await self._forwarder.call_tool(call)
        try:
            arguments = decode_params(params.get("arguments", Raw(b"{}")), dict[str, Any])
            answer = await stored.answer(call, arguments)
        except ToolError as error:
            answer = error_result(str(error))
        await self.context.note_answered(call, READ_RESULT, answer.is_error is True)
        return stamped(call, answer, self.server_info())

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
                raise InvalidParams(
                    said(
                        f"A session may subscribe to {MAX_SUBSCRIPTIONS} resources",
                        f"Uma sessão pode assinar {MAX_SUBSCRIPTIONS} recursos",
                    )
                )
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
        await self.context.note_session_end(call)

    async def _roots_changed(self, call: Call) -> None:
        """Notifies all upstreams in the background, so that one that hangs does not block the others."""
        for server in self.servers(call):
            mount = self.context.mounts.get(server)
            if mount is not None:
                run_in_background(mount.upstream.notified(call))


OPTIONAL_CAPABILITIES: dict[str, Any] = {
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
MAX_COMPARED = 200
EXTENSIONS = (TASKS_EXTENSION, UI_EXTENSION)


def _unknown(catalogue: VisibleCatalogue, kind: ItemKind, name: str) -> InvalidParams:
    # Comparing takes long: only with those of the same server or of the same name, and with few.
    start = "__".join(name.split("__", 2)[:2]) + "__"
    end = name[len(start) - 2 :]
    known = [entry.name for entry in catalogue.all(kind)]
    names = [one for one in known if one.startswith(start)] or [one for one in known if one.endswith(end)]
    near = get_close_matches(name[:80], names[:MAX_COMPARED], 3, 0.6)
    names_near = said(" or ", " ou ").join(map(repr, near))
    hint = said(f"; did you mean {names_near}?", f"; seria {names_near}?") if near else ""
    return unknown("tool" if kind is TOOLS else "prompt", name, hint)


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
        listed = self.context.visible(call).all(kind)
        found = self._discovered(kind, call)
        if not found:
            return listed
        servers = self.context.catalogue.servers  # in the order of mounting, as pages expect
        return sorted([*listed, *found], key=lambda entry: servers[entry.server].number)

    def name_of(self, entry: CatalogueEntry) -> str:
        return entry.name

    def item_of(self, entry: CatalogueEntry) -> UpstreamItem:
        item = with_server_description(entry.item, entry.about)
        catalogue = self.context.catalogue
        if not catalogue.has_rivals or PAGE_JSON not in item.rest:
            return item
        return with_own_page(item, lambda page: own_link(catalogue, entry.server, page, listed=True))

    def server_info(self) -> Raw:
        return self._info

    def servers(self, call: Call) -> list[str]:
        return list(self.context.visible(call).servers)

    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        catalogue = self.context.visible(call)
        entry = catalogue.find(kind, name)
        if entry is None and kind is TOOLS:
            entry = catalogue.find_discovered(name, conversation_of(call))
        mount = None if entry is None else self.context.mounts.get(entry.server)
        if entry is None or mount is None:
            raise why_unavailable(catalogue, name) or _unknown(catalogue, kind, name)
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

    @property
    def announces_results(self) -> bool:
        """Whether stored results alone are a reason to announce resources."""
        return self.context.stored is not None

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
        if self.announces_results:
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


class SearchView(AllView):
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
        with answering(context.view_context.locale):
            for dialect in dialects:
                for tool in dialect.tools():
                    self._tools.setdefault(tool.name, tool)
            stored = context.view_context.stored
            if stored is not None:
                is_listed = CALL_TOOL not in self._tools
                self._tools.setdefault(READ_RESULT, read_result_tool(stored, is_listed=is_listed))
        self._definitions = [encode(tool.shown()) for tool in self._tools.values() if tool.is_listed]
        self._strict = [dialect for dialect in dialects if isinstance(dialect, StrictDialect)]
        searches = [dialect.search_tool for dialect in dialects]
        self.meta_tools = MetaToolService(
            context, self._forwarder.send_tool, self._tools, searches, finds_first=bool(self._strict)
        )
        for methods in (self._modern, self._legacy):
            methods["tools/list"] = self._list_tools
            methods["tools/call"] = self._call_tool

    @property
    def read_hint(self) -> str:
        return read_result_hint(is_listed=CALL_TOOL not in self._tools)

    @property
    def announces_results(self) -> bool:
        """They are read by `read_result`; Claude Code shows its model three more tools for resources."""
        return False

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
            if _is_pinned(server, entry)
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
        if event.params is not None:  # what is discovered is listed only if it was found by a search
            return event.params == whose and not event.about
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
            if name == CALL_TOOL and (within := self._within(arguments)) is not None:
                tool, name, arguments = within, within.name, arguments_within(arguments)
            work = partial(tool.answer, self.meta_tools, call, arguments)
            answer = await (self.context.counted(call, tool, work) if tool.is_counted else work())
        except (ToolError, UpstreamError) as error:  # for the model to read
            answer = _refused(tool, str(error))
        except InvalidParams as error:
            if "requestState" in params:  # about the protocol
                raise
            answer = _refused(tool, error.message)
        if isinstance(answer, Outcome):  # of a server: the pipeline has noted it
            return answer.body
        await self.context.note_answered(call, name, answer.is_error is True)
        return stamped(call, answer, self._info)

    def _within(self, arguments: dict[str, Any]) -> MetaTool | None:
        """Return the meta tool that `call_tool` is to call: a host calls only what is listed."""
        name = arguments.get("tool")
        return self._tools.get(name) if isinstance(name, str) and name != CALL_TOOL else None

    async def _call_directly(self, call: Call, name: str, params: Params) -> Any:
        """Calls a tool by its full name, or by a dialect's name for it."""
        try:
            target = await self._target(call, name)
        except UnknownToolError as error:
            raise InvalidParams(str(error)) from None
        except ToolError as error:
            return stamped(call, refusal(str(error)), self._info)
        return (await self.meta_tools.send(call, target, params)).body

    async def _target(self, call: Call, name: str) -> CallTarget:
        tools = self.meta_tools.known
        found = tools.target(call, name)
        for dialect in self._dialects if found is None else ():
            if isinstance(dialect, RenamingDialect):
                full = await dialect.full_name(self.meta_tools, call, name)
                if full is not None:
                    return await tools.find(call, full)
        found = found or await tools.find(call, name)
        if self._strict and not call.depth:  # a nested call is a server's
            await self._check_strictly(call, found)
        return found

    async def _check_strictly(self, call: Call, target: CallTarget) -> None:
        """Raises ToolError for a tool that a dialect wants found first, unless it is listed."""
        server = self.context.visible(call).servers.get(target.mount.server)
        if target.entry is None or (server is not None and _is_pinned(server, target.entry)):
            return
        for dialect in self._strict:
            await dialect.check(self.meta_tools, call, target.entry)


def _is_pinned(server: VisibleServer, tool: CatalogueEntry) -> bool:
    return tool.bare in server.pinned or tool.item.own in server.pinned


def _refused(tool: MetaTool, reason: str) -> CallToolResult:
    """Structured content of another form than the tool's own would be an error to clients."""
    plain = tool.output_schema is not None or tool.refuses_in_words
    return error_result(reason) if plain else refusal(reason)


def stamped(call: Call, result: CallToolResult, info: Raw) -> CallToolResult:
    """Adds the members that the modern era requires to a result of our own."""
    if call.caller.era == "modern" and result.result_type is UNSET:
        result.result_type = "complete"
        meta = {} if result.meta is UNSET else result.meta
        result.meta = {SERVER_KEY: info, **meta}
    return result
