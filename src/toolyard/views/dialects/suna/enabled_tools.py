"""Which tools are enabled, for a conversation or an agent, and the names Suna gives them.

A tool's key is `custom_<server>_<tool>`; the model sees what follows the key's second underscore, with `-`
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
from ...meta.service import MetaToolService

_FIT = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class EnabledTool(Struct, frozen=True):
    server: str
    """What the toolkit is called."""
    own: str
    full: str

    @property
    def key(self) -> str:
        return f"custom_{self.server.lower().replace(' ', '_')}_{self.own}"

    @property
    def method(self) -> str:
        return self.key.split("_", 2)[2].replace("-", "_")


def shown_names(tools: Iterable[EnabledTool], taken: Iterable[str]) -> dict[str, EnabledTool]:
    """Each tool under one name; none for a tool that only its full name fits."""
    shown: dict[str, EnabledTool] = {}
    used = set(taken)
    each: dict[str, EnabledTool] = {}
    for tool in tools:
        each.setdefault(tool.full, tool)  # two profiles may have enabled the same
    for tool in each.values():
        for name in (tool.method, tool.key):
            if name not in used and _FIT.fullmatch(name):
                used.add(name)
                shown[name] = tool
                break
    return shown


def tool_named(tools: Iterable[EnabledTool], name: str) -> EnabledTool | None:
    """The tool that is meant: by the name it is shown under, by its key, or by its own name."""
    tools = list(tools)
    return (
        shown_names(tools, ()).get(name)
        or next((tool for tool in tools if tool.key == name), None)
        or next((tool for tool in tools if tool.own == name), None)
    )


CONVERSATION_SECONDS = 30 * 24 * 3600.0
MAX_TOOLS = 500
MAX_TRIES = 16
DEFAULT_AGENT = "default"


class ProfileTools(Struct, frozen=True):
    """What one profile enabled."""

    profile: str
    tools: tuple[EnabledTool, ...]


class EnabledScope(Struct, frozen=True):
    """For whom."""

    key: str
    ttl: float | None


def conversation(call: Call) -> EnabledScope:
    return EnabledScope(
        _key("thread", call.caller.tenant, call.caller.agent, thread_of(call)), CONVERSATION_SECONDS
    )


def agent(call: Call, name: str) -> EnabledScope:
    """In the caller's tenant. One without a name is `default`."""
    return EnabledScope(_key("agent", call.caller.tenant, name or DEFAULT_AGENT), None)


def _key(*parts: str) -> str:
    # Hashed, because the parts may be long and hold anything.
    whole = msgspec.json.encode(parts)
    return f"suna/enabled/{parts[0]}/{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


async def enable(desk: MetaToolService, call: Call, scope: EnabledScope, new: ProfileTools) -> None:
    """In the place of what the same profile enabled before."""
    state, known = desk.supplies.state, await _profiles(desk, call)
    for _ in range(MAX_TRIES):
        old = await state.get(scope.key)
        kept = [one for one in _decoded(old) if one.profile in known - {new.profile}]
        if sum(len(one.tools) for one in (*kept, new)) > MAX_TOOLS:
            raise ToolError(
                f"More than {MAX_TOOLS} tools would be enabled; enable fewer, or delete a profile"
            )
        if await state.swap(scope.key, old, msgspec.json.encode([*kept, new]), scope.ttl):
            return
    raise ToolError("Others enable tools at the same time; try again")


async def enabled(desk: MetaToolService, call: Call) -> list[ProfileTools]:
    """For this caller: what was enabled first comes first. Without what deleted profiles enabled."""
    state = desk.supplies.state
    found: dict[str, ProfileTools] = {}
    for scope in (agent(call, call.caller.agent), conversation(call)):
        for one in _decoded(await state.get(scope.key)):
            found[one.profile] = one
    known = await _profiles(desk, call) if found else set[str]()
    return [one for one in found.values() if one.profile in known]


async def _profiles(desk: MetaToolService, call: Call) -> set[str]:
    """The ids of those there are."""
    profiles = desk.supplies.profiles
    return set() if profiles is None else {one.profile_id for one in await profiles.list(call.caller.tenant)}


def _decoded(value: bytes | None) -> list[ProfileTools]:
    return [] if value is None else msgspec.json.decode(value, type=list[ProfileTools])


async def entries(
    desk: MetaToolService, call: Call, given: Sequence[ProfileTools]
) -> dict[str, CatalogueEntry]:
    """By full names. What is not lent yet in this conversation is asked for; the lost are left out."""
    names = [tool.full for one in given for tool in one.tools]
    strange = [name for name in names if desk.known.entry(call, name) is None]
    if strange:
        with suppress(TimeoutError):
            async with asyncio.timeout(desk.supplies.yard.list_wait):
                await desk.known.borrow(call, strange)
    return {name: entry for name in names if (entry := desk.known.entry(call, name)) is not None}


def tell_change(desk: MetaToolService, call: Call) -> None:
    """Other tools are listed now in this conversation, for who follows its list."""
    desk.supplies.yard.catalogue.hub.publish(ChangeEvent(TOOLS_CHANGED, "", conversation_of(call)))


def listed(name: str, tool: EnabledTool, entry: CatalogueEntry) -> dict[str, Any]:
    """As `tools/list` has it, with the words that Suna appends."""
    found = msgspec.json.decode(item_json(TOOLS, entry.item, name), type=dict[str, Any])
    found["description"] = f"{found.get('description') or ''} (MCP Server: {tool.server})".lstrip()
    return found
