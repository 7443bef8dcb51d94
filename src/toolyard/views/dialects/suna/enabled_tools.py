"""The tools that are enabled for a conversation or an agent, and Suna's names of them.

A tool's key is `custom_<server>_<tool>`. The model sees the part after the key's second underscore, with `-`
as `_`. If two tools get the same name, the one enabled first keeps it and the other is shown under its key.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from ....catalogue.catalogue import CatalogueEntry, conversation_of
from ....catalogue.items import TOOLS, item_json
from ....kit.calls.content import ToolError
from ....kit.events import TOOLS_CHANGED, ChangeEvent
from ....wire.call import Call, thread_of
from ...meta.conversation import CONVERSATION_SECONDS, MAX_TRIES
from ...meta.service import MetaToolService

_VALID_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class EnabledTool(Struct, frozen=True):
    server: str
    """The name of the toolkit."""
    own: str
    full: str

    @property
    def key(self) -> str:
        return f"custom_{self.server.lower().replace(' ', '_')}_{self.own}"

    @property
    def method(self) -> str:
        return self.key.split("_", 2)[2].replace("-", "_")


def shown_names(tools: Iterable[EnabledTool], taken: Iterable[str]) -> dict[str, EnabledTool]:
    """Give each tool one name. A tool without a valid free name is left out; it has its full name."""
    shown: dict[str, EnabledTool] = {}
    used = set(taken)
    unique: dict[str, EnabledTool] = {}
    for tool in tools:
        unique.setdefault(tool.full, tool)  # two profiles may enable the same tool
    for tool in unique.values():
        for name in (tool.method, tool.key):
            if name not in used and _VALID_NAME.fullmatch(name):
                used.add(name)
                shown[name] = tool
                break
    return shown


def tool_named(tools: Iterable[EnabledTool], name: str) -> EnabledTool | None:
    """Find a tool by the name it is shown under, by its key, or by its own name."""
    tools = list(tools)
    return (
        shown_names(tools, ()).get(name)
        or next((tool for tool in tools if tool.key == name), None)
        or next((tool for tool in tools if tool.own == name), None)
    )


MAX_TOOLS = 500
DEFAULT_AGENT = "default"


class ProfileTools(Struct, frozen=True):
    """The tools that one profile enabled."""

    profile: str
    tools: tuple[EnabledTool, ...]


class EnabledScope(Struct, frozen=True):
    """A conversation or an agent for which tools are enabled."""

    key: str
    ttl: float | None


def conversation(call: Call) -> EnabledScope:
    return EnabledScope(
        _key("thread", call.caller.owner, call.caller.agent, thread_of(call)), CONVERSATION_SECONDS
    )


def agent(call: Call, name: str) -> EnabledScope:
    """Return the scope of an agent in the caller's tenant; one without a name is `default`."""
    return EnabledScope(_key("agent", call.caller.owner, name or DEFAULT_AGENT), None)


def _key(*parts: str) -> str:
    # Hashed because the parts may be long and have any characters.
    whole = msgspec.json.encode(parts)
    return f"suna/enabled/{parts[0]}/{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


async def enable(service: MetaToolService, call: Call, scope: EnabledScope, new: ProfileTools) -> None:
    """Enable tools; replaces those that the same profile enabled before."""
    state, known = service.context.state, await _profiles(service, call)
    for _ in range(MAX_TRIES):
        old = await state.get(scope.key)
        others = [one for one in _decode(old) if one.profile in known - {new.profile}]
        if sum(len(one.tools) for one in (*others, new)) > MAX_TOOLS:
            raise ToolError(
                f"More than {MAX_TOOLS} tools would be enabled; enable fewer, or delete a profile"
            )
        if await state.swap(scope.key, old, msgspec.json.encode([*others, new]), scope.ttl):
            return
    raise ToolError("Another request changed the enabled tools; try again")


async def enabled(service: MetaToolService, call: Call) -> list[ProfileTools]:
    """Return the tools enabled for this caller, in the order of enabling, without deleted profiles."""
    state = service.context.state
    found: dict[str, ProfileTools] = {}
    for scope in (agent(call, call.caller.agent), conversation(call)):
        for one in _decode(await state.get(scope.key)):
            found[one.profile] = one
    known = await _profiles(service, call) if found else set[str]()
    return [one for one in found.values() if one.profile in known]


async def has(service: MetaToolService, call: Call, tool: str) -> bool:
    """Return whether a tool is enabled for this caller, by its full name."""
    return any(tool == enabled.full for one in await enabled(service, call) for enabled in one.tools)


async def _profiles(service: MetaToolService, call: Call) -> set[str]:
    """Return the ids of all profiles."""
    profiles = service.context.profiles
    return set() if profiles is None else {one.profile_id for one in await profiles.list(call.caller.owner)}


def _decode(value: bytes | None) -> list[ProfileTools]:
    return [] if value is None else msgspec.json.decode(value, type=list[ProfileTools])


async def entries(
    service: MetaToolService, call: Call, given: Sequence[ProfileTools]
) -> dict[str, CatalogueEntry]:
    """Return the entries by full name; asks the remotes for unknown ones, and leaves out those not found."""
    names = [tool.full for one in given for tool in one.tools]
    unknown = [name for name in names if service.known.entry(call, name) is None]
    if unknown:
        with suppress(TimeoutError):
            async with asyncio.timeout(service.context.view_context.list_wait):
                await service.known.discover(call, unknown)
    return {name: entry for name in names if (entry := service.known.entry(call, name)) is not None}


def notify_changed(service: MetaToolService, call: Call) -> None:
    """Publish that the list of tools has changed in this conversation."""
    service.context.view_context.catalogue.hub.publish(ChangeEvent(TOOLS_CHANGED, "", conversation_of(call)))


def listed(name: str, tool: EnabledTool, entry: CatalogueEntry) -> dict[str, Any]:
    """Return a tool in the form of `tools/list`, with the server name that Suna appends."""
    found = msgspec.json.decode(item_json(TOOLS, entry.item, name), type=dict[str, Any])
    found["description"] = f"{found.get('description') or ''} (MCP Server: {tool.server})".lstrip()
    return found
