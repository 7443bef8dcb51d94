"""Claude Code in front of the search view: which tools its model is offered, and that they stay the same.

A model's prompt cache begins with the tools: a list that changes costs the whole of it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import at
from tests.clients.claude_peer import PREFIX, ClaudePeer, claude_code
from tests.clients.yard import Yard
from tests.meta.office import Front, front
from tests.serving import serving
from toolyard.config import SearchConfig

META = ["call_tool", "search_tools"]
"""In the order in which Claude Code offers them."""
ASKED = (
    "add two numbers",
    "go for a walk",
    "note something down",
    "ask the person for a name",
    "ponder a question",
    "wait for something",
    "greet somebody",
    "look around",
    "count to ten",
    "book a table",
)
eras = pytest.mark.parametrize(("negotiation", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
settings = pytest.mark.parametrize("list_found", [False, True])


@asynccontextmanager
async def searched(list_found: bool) -> AsyncIterator[tuple[Front, Yard]]:
    """A gateway in front of a yard, and another client of it."""
    yard, search = Yard(), SearchConfig(list_found=list_found)
    async with serving(yard.server.asgi()) as served, front(at(served.url), search=search) as other:
        yield other, yard


@asynccontextmanager
async def fresh(
    home: Path, other: Front, yard: Yard, negotiation: str, version: str
) -> AsyncIterator[ClaudePeer]:
    """A Claude Code that has just been started."""
    server = {"type": "http", "url": other.client.url}
    environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
    async with claude_code(home, server, version, yard.started.wait, environment=environment) as peer:
        yield peer


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def offered(peer: ClaudePeer, request: int) -> list[dict[str, Any]]:
    """The definitions of ours in one request to the model, as they were sent."""
    return [tool for name, tool in peer.model.requests[request].tools.items() if name.startswith(PREFIX)]


@eras
@settings
async def test_a_new_conversation_is_offered_the_same_tools_whatever_others_have_found(
    tmp_path: Path, list_found: bool, negotiation: str, version: str
):
    async with searched(list_found) as (other, yard):
        async with fresh(folder(tmp_path / "before"), other, yard, negotiation, version) as peer:
            await peer.say("Hello.", "Hello.")
            before = offered(peer, 0)
        assert [tool["name"] for tool in before] == [PREFIX + name for name in META]
        found = {name for use_case in ASKED for name in await other.names(use_case)}
        assert len(found) >= 8
        async with fresh(folder(tmp_path / "after"), other, yard, negotiation, version) as peer:
            await peer.say("Hello.", "Hello.")
            assert offered(peer, 0) == before


@eras
async def test_the_tools_do_not_change_during_a_conversation(tmp_path: Path, negotiation: str, version: str):
    async with (
        searched(list_found=False) as (other, yard),
        fresh(folder(tmp_path / "home"), other, yard, negotiation, version) as peer,
    ):
        for use_case in ASKED:
            found = await peer.call("search_tools", queries=[use_case])
            assert not found.is_error
        called = await peer.call("call_tool", tool="mcp__up__walk", arguments={})
        assert called.text == "walked"
        offers = [offered(peer, request) for request in range(len(peer.model.requests))]
        assert len(offers) == 2 * len(ASKED) + 2
        assert [tool["name"] for tool in offers[0]] == [PREFIX + name for name in META]
        assert all(offer == offers[0] for offer in offers)


async def test_by_setting_what_a_session_has_found_is_offered_in_it_and_in_no_other(tmp_path: Path):
    legacy = ("legacy", "2025-11-25")
    async with searched(list_found=True) as (other, yard):
        async with fresh(folder(tmp_path / "one"), other, yard, *legacy) as peer:
            before = set(await peer.tools())
            async with peer.watching() as changed:
                await peer.call("search_tools", queries=[{"use_case": "add two numbers"}])
                await changed()
            assert "mcp__up__add" in set(await peer.tools()) - before
        async with fresh(folder(tmp_path / "other"), other, yard, *legacy) as peer:
            assert set(await peer.tools()) == before
