"""A server that is not connected is named wherever its tools are missed, with what to do about it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.connections.yard import Guarded, config_of, connect, guarded, replica
from toolyard import Client

TOOL = "mcp__guarded__whoami"
TO_DO = "it wants you to log in; use manage_connections, or run `toolyard login guarded`"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[Guarded]:
    async with guarded() as found:
        yield found


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    return (await client.call_tool(tool, arguments)).structured


async def search(client: Client) -> Any:
    answer = await client.call_tool("search_tools", {"queries": ["who calls"]})
    return answer.raw["_meta"]["toolyard/search"]


async def manage(client: Client, action: str) -> Any:
    (one,) = (await said(client, "manage_connections", action=action, names=["guarded"]))["connections"]
    return one


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_before_anybody_has_logged_in(upstream: Guarded, tmp_path: Path, era: Any):
    config = config_of(upstream.url, tmp_path)
    async with replica(config) as (_, url), Client(url, era=era) as client:
        assert (await manage(client, "status"))["message"] == "not connected"
        found = await search(client)
        assert found["missing"] == [{"server": "guarded", "reason": TO_DO}]
        described = await said(client, "describe_tools", tools=[TOOL])
        assert TO_DO in described["unknown"][TOOL]
        failed = await client.call_tool("call_tool", {"tool": TOOL, "arguments": {}})
        assert (failed.is_error, TO_DO in failed.text) == (True, True), failed.text
        async with aiohttp.ClientSession() as http, http.get(url.replace("/mcp", "/health")) as health:
            assert (await health.json())["servers"]["guarded"]["reason"] == TO_DO
        async with Client(url, era=era) as later:
            assert f"- guarded: {TO_DO}" in (later.instructions or "")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_list_without_its_tools_comes_with_instructions_that_say_so(
    upstream: Guarded, tmp_path: Path, era: Any
):
    config = config_of(upstream.url, tmp_path)
    config = replace(config, gateway=replace(config.gateway, view="all"))
    async with replica(config) as (_, url), Client(url, era=era) as client:
        assert TOOL not in [tool.name for tool in await client.list_tools()]
        async with Client(url, era=era) as later:
            assert f"- guarded: {TO_DO}" in (later.instructions or "")


async def test_after_a_login_has_ended_tools_are_shown_as_not_connected(upstream: Guarded, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (_, url), Client(url) as client:
        await connect((await manage(client, "link"))["link"])
        assert (await manage(client, "wait"))["status"] == "active"
        (one,) = (await search(client))["results"][0]["results"]
        assert one.get("connected", True)
        await manage(client, "disconnect")
        found = await search(client)
        (one,) = found["results"][0]["results"]
        assert (one["tool"], one["connected"], one["auth"]) == (TOOL, False, "oauth")
        assert found["missing"] == [{"server": "guarded", "reason": "not connected; see manage_connections"}]
        (one,) = (await said(client, "describe_tools", tools=[TOOL]))["tools"]
        assert (one["connected"], one["auth"]) == (False, "oauth")
