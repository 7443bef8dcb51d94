"""What all of this is for, over HTTP, by an agent's client: search, connect, discover, call, summary."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.faults.yard import Gateway
from tests.flow.process import agent, authorise, configured, found_tools, started

ISSUES = "mcp__composio__GITHUB_LIST_ISSUES"
WANTED = "list the open issues of a github repository"


@pytest.fixture
async def composio() -> AsyncIterator[ComposioEmulator]:
    async with ComposioEmulator() as emulator:
        yield emulator


@pytest.fixture
async def gateway(composio: ComposioEmulator, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with started(tmp_path, configured(composio, tmp_path)) as running:
        yield running


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_whole_flow(mode: str, composio: ComposioEmulator, gateway: Gateway):
    async with agent(gateway, mode) as one:
        menu = await one.tools()
        found = await one.search(WANTED)
        assert found["source"] in ("composio", "composio+local")
        assert found["session"]["id"].startswith("trs_")
        assert found["session"]["source"] == "composio"
        assert ISSUES in found_tools(found)
        entry = next(tool for tool in found["results"][0]["results"] if tool["tool"] == ISSUES)
        assert entry["connected"] is False
        assert entry["auth"] != "none"

        refused = await one.client.call_tool(
            "call_tool", {"tool": ISSUES, "arguments": {"owner": "acme", "repo": "shop"}}
        )
        assert refused.is_error

        linked = await one.does("manage_connections", action="link", names=["github"])
        (connection,) = linked["connections"]
        assert connection["status"] == "initiated"
        await authorise(connection["link"])
        waited = await one.does("manage_connections", action="wait", names=["github"], seconds=10)
        assert waited["connections"][0]["status"] == "active"

        described = await one.does("describe_tools", tools=[ISSUES])
        assert "owner" in str(described)
        assert await one.tools() == menu

        answer = await one.calls(ISSUES, owner="acme", repo="shop")
        assert answer["truncated"] is True
        assert answer["tool_name"] == ISSUES
        assert answer["summary"]["item_count"] > 20
        assert answer["preview"]
        read = await one.does(
            "read_result", id=answer["storage"]["resource"], sql="SELECT count(*) AS n FROM result"
        )
        assert read["rows"] == [{"n": answer["summary"]["item_count"]}]


@pytest.mark.parametrize(("status", "times"), [(401, 1), (410, 1)])
async def test_a_session_refused_in_the_middle_is_renewed_and_the_call_succeeds(
    status: int, times: int, composio: ComposioEmulator, gateway: Gateway
):
    composio.connect("local", "github")
    async with agent(gateway) as one:
        before = (await one.search(WANTED))["session"]["id"]
        begun = len(composio.sessions)
        composio.expire(before, status)
        answer = await one.calls(ISSUES, owner="acme", repo="shop")
        assert answer["summary"]["item_count"] > 20
        assert len(composio.sessions) == begun + 1
        assert (await one.search(WANTED))["session"]["id"] != before


async def test_an_outage_falls_back_to_what_is_here(composio: ComposioEmulator, gateway: Gateway):
    async with agent(gateway) as one:
        composio.fail("search", 500, times=50)
        found = await one.search("add two numbers")
        assert found["source"] == "fallback"
        assert "mcp__demo__add" in found_tools(found)
        assert any(item["server"] == "composio" for item in found["missing"])
        added = await one.client.call_tool(
            "call_tool", {"tool": "mcp__demo__add", "arguments": {"a": 1, "b": 2}}
        )
        assert not added.is_error


async def test_a_search_that_finds_nothing_there_falls_back_too(composio: ComposioEmulator, gateway: Gateway):
    async with agent(gateway) as one:
        composio.empty("search", times=50)
        found = await one.search("add two numbers")
        assert found["source"] == "fallback"
        assert "mcp__demo__add" in found_tools(found)


async def test_without_a_remote_the_session_is_our_own(tmp_path: Path):
    async with started(tmp_path, configured(None, tmp_path)) as gateway, agent(gateway) as one:
        found = await one.search("add two numbers")
        assert found["source"] == "local"
        assert found["session"]["id"].startswith("local-")
        assert found["session"] | {"id": "", "expires_at": ""} == {
            "id": "", "ttl": 3600.0, "expires_at": "", "generated": True, "source": "local",
        }  # fmt: skip
