"""Which tools are enabled: for a conversation, or for an agent in all of its conversations.

Kept in the state, so that any replica knows it. What a profile enabled goes with the profile.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from ....catalogue.catalogue import TOOLS, Entry
from ....catalogue.items import shown
from ....catalogue.lending import borrower
from ....kit.content import ToolError
from ....kit.hub import TOOLS_CHANGED, Event
from ....wire.call import Call
from ....wire.threads import thread_of
from ...meta.desk import Desk
from .naming import Named

CONVERSATION_SECONDS = 30 * 24 * 3600.0
MAX_TOOLS = 500
MAX_TRIES = 16
DEFAULT_AGENT = "default"


class Enabled(Struct, frozen=True):
    """What one profile enabled."""

    profile: str
    tools: tuple[Named, ...]


class Scope(Struct, frozen=True):
    """For whom."""

    key: str
    ttl: float | None


def conversation(call: Call) -> Scope:
    return Scope(_key("thread", call.caller.tenant, call.caller.agent, thread_of(call)), CONVERSATION_SECONDS)


def agent(call: Call, name: str) -> Scope:
    """In the caller's tenant. One without a name is `default`."""
    return Scope(_key("agent", call.caller.tenant, name or DEFAULT_AGENT), None)


def _key(*parts: str) -> str:
    # Hashed, because the parts may be long and hold anything.
    whole = msgspec.json.encode(parts)
    return f"suna/enabled/{parts[0]}/{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


async def enable(desk: Desk, call: Call, scope: Scope, new: Enabled) -> None:
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


async def enabled(desk: Desk, call: Call) -> list[Enabled]:
    """For this caller: what was enabled first comes first. Without what deleted profiles enabled."""
    state = desk.supplies.state
    found: dict[str, Enabled] = {}
    for scope in (agent(call, call.caller.agent), conversation(call)):
        for one in _decoded(await state.get(scope.key)):
            found[one.profile] = one
    known = await _profiles(desk, call) if found else set[str]()
    return [one for one in found.values() if one.profile in known]


async def _profiles(desk: Desk, call: Call) -> set[str]:
    """The ids of those there are."""
    profiles = desk.supplies.profiles
    return set() if profiles is None else {one.profile_id for one in await profiles.list(call.caller.tenant)}


def _decoded(value: bytes | None) -> list[Enabled]:
    return [] if value is None else msgspec.json.decode(value, type=list[Enabled])


async def entries(desk: Desk, call: Call, given: Sequence[Enabled]) -> dict[str, Entry]:
    """By full names. What is not lent yet in this conversation is asked for; the lost are left out."""
    names = [tool.full for one in given for tool in one.tools]
    strange = [name for name in names if desk.known.entry(call, name) is None]
    if strange:
        with suppress(TimeoutError):
            async with asyncio.timeout(desk.supplies.yard.list_wait):
                await desk.known.borrow(call, strange)
    return {name: entry for name in names if (entry := desk.known.entry(call, name)) is not None}


def tell_change(desk: Desk, call: Call) -> None:
    """Other tools are listed now in this conversation, for who follows its list."""
    desk.supplies.yard.catalogue.hub.publish(Event(TOOLS_CHANGED, "", borrower(call)))


def listed(name: str, tool: Named, entry: Entry) -> dict[str, Any]:
    """As `tools/list` has it, with the words that Suna appends."""
    found = msgspec.json.decode(shown(TOOLS, entry.item, name), type=dict[str, Any])
    found["description"] = f"{found.get('description') or ''} (MCP Server: {tool.server})".lstrip()
    return found
