"""The conversation a meta tool works in: its thread, the tools it can name, and the tools it has found.

A search returns a session id; a caller who sends it continues that conversation. The tools found are kept in
this process; they affect lists and feedback, never what may be called. A dialect whose tools have to be found
before they are called has them in the state as well, for all replicas.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ...catalogue.catalogue import CatalogueEntry, conversation_of
from ...catalogue.items import TOOLS
from ...dispatch import CallTarget
from ...dispatch.remote import RemoteTool, discover
from ...kit.calls.content import ToolError
from ...languages import said
from ...sessions.leases import Lease
from ...state.store import State, StateError
from ...wire.call import MAX_THREAD, Call, Caller, thread_of
from ..context import MetaToolContext, ViewContext
from ..forwarding import why_unavailable
from ..instructions import brief
from .tools import QueryMatches

MAX_NAME = 80


class UnknownToolError(ToolError):
    """The tool does not exist, or the caller may not know of it. `tool` is the name as it came."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool


class ToolResolver:
    def __init__(
        self, context: MetaToolContext, own: Collection[str] = (), searches: Sequence[str] = ()
    ) -> None:
        """`own`: the names of the meta tools, which cannot be called through another; `searches` search."""
        self._context = context
        self._own = own
        self._searches = searches

    # Known tools

    def target(self, call: Call, name: str) -> CallTarget | None:
        """Returns the target of a full name; None if it is not known."""
        context = self._context.view_context
        catalogue = context.visible(call)
        entry = catalogue.find(TOOLS, name) or catalogue.find_discovered(name, conversation_of(call))
        mount = None if entry is None else context.mounts.get(entry.server)
        return None if entry is None or mount is None else CallTarget(mount, entry.item.own, entry)

    def entry(self, call: Call, name: str) -> CatalogueEntry | None:
        found = self.target(call, name)
        return None if found is None else found.entry

    async def find(self, call: Call, name: str) -> CallTarget:
        """Finds a tool, also one that is not known yet: of a server still being read, or of a remote."""
        found = self.target(call, name)
        catalogue = self._context.view_context.visible(call)
        if found is None and not catalogue.is_settled:
            await catalogue.wait_settled(self._context.view_context.list_wait)
            found = self.target(call, name)
        if found is None and name not in self._own:
            discovered = await self.discover(call, [name])
            found = next(filter(None, (self.target(call, tool.name) for tool in discovered)), None)
        if found is None:
            await self._context.view_context.note_unknown(call, TOOLS, name)
            raise why_unavailable(catalogue, name) or await self.unknown(call, name)
        return found

    async def seek(self, call: Call, name: str) -> CatalogueEntry:
        entry = (await self.find(call, name)).entry
        assert entry is not None, "a tool that was found is in the catalogue"
        return entry

    async def discover(self, call: Call, names: Sequence[str]) -> list[RemoteTool]:
        """Asks the remotes for tools with these names; this conversation may call those they describe."""
        return await discover(
            self._context.remotes_of(call), call, names, self._context.settings.remote_seconds
        )

    def state_of(self, server: str) -> str:
        """`up` or `down`."""
        server_catalogue = self._context.view_context.catalogue.servers.get(server)
        return "up" if server_catalogue is not None and server_catalogue.fault is None else "down"

    def missing(self, call: Call) -> dict[str, str]:
        """Returns the servers without current lists, and why; not those that only lack single tools."""
        servers = self._context.view_context.visible(call).servers.values()
        return {one.name: brief(one.reason_unavailable) for one in servers if one.reason_unavailable}

    # Unknown tools

    async def unknown(self, call: Call, name: str) -> UnknownToolError:
        shown = name[:MAX_NAME]
        if name in self._own:
            return UnknownToolError(
                name,
                said(
                    f"{shown!r} finds and calls other tools; call it directly, by itself",
                    f"{shown!r} encontra e chama outras ferramentas; chame-a diretamente, sozinha",
                ),
            )
        catalogue = self._context.view_context.visible(call)
        index = await self._context.index()
        near = index.nearest(name, among=lambda tool: catalogue.find(TOOLS, tool) is not None)
        names = said(" or ", " ou ").join(map(repr, near))
        hint = said(f" Did you mean {names}?", f" Seria {names}?") if near else ""
        advice = self._advice()
        return UnknownToolError(
            name,
            said(
                f"Tool function {shown!r} not found.{hint}{advice}",
                f"A ferramenta {shown!r} não foi encontrada.{hint}{advice}",
            ),
        )

    def _advice(self) -> str:
        names = said(" or ", " ou ").join(self._searches)
        return (
            said(
                f" Search for what you want to do with {names}.",
                f" Procure o que você quer fazer com {names}.",
            )
            if names
            else ""
        )


MAX_REMEMBERED = 10_000


def is_identified(call: Call, view_context: ViewContext) -> bool:
    """Returns whether a call names its conversation. All calls that name none share one thread."""
    return bool(thread_of(call)) or view_context.one_client


class Conversations:
    def __init__(self, context: MetaToolContext) -> None:
        self._context = context
        self._told: OrderedDict[str, str] = OrderedDict()
        """The entries that this process has written, so that not every search writes them again."""

    async def within(self, call: Call, session: str | None) -> Call:
        """Returns the call in the thread that `session` names."""
        if not session:
            return call
        thread = await self._thread(call, session)
        return call if thread == thread_of(call) else in_thread(call, thread)

    async def _thread(self, call: Call, session: str) -> str:
        if session == thread_of(call) or await self._has(call, session):
            return thread_of(call)
        key = _key(call.caller.owner, session)
        known = self._told.get(key)
        if known is None:
            with suppress(StateError):
                kept = await self._context.state.get(key)
                known = None if kept is None else kept.decode()
        return session[:MAX_THREAD] if known is None else known

    async def _has(self, call: Call, session: str) -> bool:
        """Returns whether the id is that of a session of the call's own thread."""
        thread = thread_of(call)
        for upstream in ("", *self._context.remotes()):
            with suppress(StateError):
                lease = await self._context.leases.peek(call.caller.owner, thread, upstream)
                if lease is not None and lease.id == session:
                    return True
        return False

    async def remember(self, call: Call, lease: Lease) -> None:
        """Stores the thread of a session id, for the lifetime of the session."""
        key, thread = _key(call.caller.owner, lease.id), thread_of(call)
        if self._told.get(key) == thread:
            return
        with suppress(StateError):
            await self._context.state.put(key, thread.encode(), lease.ttl)
            self._told[key] = thread
            while len(self._told) > MAX_REMEMBERED:
                self._told.popitem(last=False)


def in_thread(call: Call, thread: str) -> Call:
    caller = call.caller
    identity = replace(caller.identity, thread=thread)
    moved = Caller(caller.version, caller.capabilities, caller.client, identity, caller.log_level)
    return replace(call, caller=moved)


def _key(tenant: str, session: str) -> str:
    return "thread/" + hashlib.blake2b(f"{tenant}\0{session}".encode(), digest_size=16).hexdigest()


MAX_THREADS = 2_000
MAX_TOOLS = 24
"""Tools kept for a conversation: a model has to read the list."""
MAX_KEPT_USE_CASE = 300


class FoundInConversation(Struct):
    """The tools that one conversation has found."""

    tools: OrderedDict[str, tuple[str, str]] = field(default_factory=OrderedDict[str, tuple[str, str]])
    """The server and the use case by full name, the latest last."""
    last: tuple[str, ...] = ()
    """The use cases of the last search."""

    def use_case(self, tool: str) -> str | None:
        """Returns the use case that a tool was found for."""
        found = self.tools.get(tool)
        return None if found is None else found[1]

    @property
    def last_use_case(self) -> str | None:
        """Returns the use case of the last search, if it had only one."""
        return self.last[0] if len(self.last) == 1 else None


class FoundTools:
    """The tools found by each conversation, keyed by `conversation_of`."""

    def __init__(self) -> None:
        self.conversations: OrderedDict[str, FoundInConversation] = OrderedDict()

    def note(self, conversation: str, findings: Iterable[QueryMatches]) -> bool:
        """Records the tools found; returns whether the list of tools has changed."""
        findings = list(findings)
        found = self.conversations.setdefault(conversation, FoundInConversation())
        self.conversations.move_to_end(conversation)
        while len(self.conversations) > MAX_THREADS:
            self.conversations.popitem(last=False)
        before = set(found.tools)
        found.last = tuple(finding.query.use_case[:MAX_KEPT_USE_CASE] for finding in findings)
        # The best come last, so that they stay longest.
        for finding, use_case in zip(reversed(findings), reversed(found.last), strict=True):
            for match in reversed(finding.results):
                found.tools[match.tool] = (match.server, use_case)
                found.tools.move_to_end(match.tool)
        while len(found.tools) > MAX_TOOLS:
            found.tools.popitem(last=False)
        return set(found.tools) != before

    def tools(self, conversation: str) -> list[str]:
        found = self.conversations.get(conversation)
        return [] if found is None else list(found.tools)

    def servers(self, conversation: str) -> set[str]:
        found = self.conversations.get(conversation)
        return set() if found is None else {server for server, _ in found.tools.values()}


CONVERSATION_SECONDS = 30 * 24 * 3600.0
MAX_REGISTERED = 1_000
MAX_TRIES = 16


class FoundToolNames:
    """The names of the tools that a conversation has found, in the state."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def add(self, call: Call, tools: Iterable[str]) -> None:
        """Raises StateError."""
        key, tools = self._key(call), list(dict.fromkeys(tools))
        for _ in range(MAX_TRIES):
            old = await self._state.get(key)
            known = _names(old)
            new = [tool for tool in tools if tool not in known]
            if not new:
                return
            kept = msgspec.json.encode([*known, *new][-MAX_REGISTERED:])
            if await self._state.swap(key, old, kept, CONVERSATION_SECONDS):
                return

    async def has(self, call: Call, tool: str) -> bool:
        """Raises StateError."""
        return tool in _names(await self._state.get(self._key(call)))

    def _key(self, call: Call) -> str:
        whole = conversation_of(call).encode()
        return f"found/{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


def _names(value: bytes | None) -> list[str]:
    return [] if value is None else msgspec.json.decode(value, type=list[str])
