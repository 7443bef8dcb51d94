"""The view that is chosen: an index while it is small, a search above; a conversation keeps its own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolyard
from tests.app.speaker import TOOLS_CHANGED, Speaker, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.meta.office import in_thread, text_of
from toolyard.catalogue.items import TOOLS
from toolyard.config import ServerConfig, Stdio
from toolyard.views.auto import AutoView
from toolyard.views.choice import CLIENTS, choose, index_line
from toolyard.wire.call import ClientInfo

FEW = [tool("pay", description="Pays money. To anybody."), tool("refund", description="Gives money back.")]
MANY = [tool(f"pay_{at}", description=f"Pays money in way {at}.") for at in range(120)]


@asynccontextmanager
async def served(tools: list[dict[str, Any]], view: str = "auto") -> AsyncIterator[tuple[Yard, Speaker]]:
    speaker = Speaker("modern", tools)
    async with speaking(speaker) as url, yard(at(url), view=view) as front:
        yield front, speaker


async def listed(front: Yard, client: str = "tests", headers: dict[str, str] | None = None) -> list[Any]:
    info = ClientInfo(client, "1")
    async with toolyard.Client(front.client.url, info=info, headers=headers) as asking:
        return await asking.list_all("tools/list")


async def test_few_tools_are_an_index_in_the_schema_of_one_tool_which_calls_them():
    async with served(FEW) as (front, _):
        (only,) = await listed(front)
        assert only["name"] == "call_tool"
        assert only["_meta"] == {"anthropic/alwaysLoad": True}
        lines = only["inputSchema"]["properties"]["tool"]["description"].split("\n")
        assert lines == ["One of:", "mcp__up__pay() Pays money", "mcp__up__refund() Gives money back"]
        assert len(only["description"]) < 300
        through = (await front.call("call_tool", {"tool": "mcp__up__pay"})).result
        assert through == (await front.call("mcp__up__pay")).result
        about = (await front.modern("server/discover")).result
        assert "search_tools" not in about.get("instructions", "")
        found = await front.call("call_tool", {"tool": "search_tools", "arguments": {"queries": ["pay"]}})
        assert text_of(found.result).startswith("mcp__up__pay() Pays money")


async def test_an_index_names_the_server_whose_tools_nobody_knows():
    gone = ServerConfig(name="gone", where=Stdio(command="/nowhere/to/be/found"))
    async with speaking(Speaker("modern", FEW)) as url, yard(at(url), gone, view="index") as front:
        await front.until_health(lambda health: health["servers"]["gone"]["state"] == "down")
        (index,) = await listed(front)
        *_, last = index["inputSchema"]["properties"]["tool"]["description"].split("\n")
        assert last.startswith("# gone: ")
        assert "manage_connections" in last


async def test_many_tools_are_searched_for():
    async with served(MANY) as (front, _):
        assert [one["name"] for one in await listed(front)] == ["search_tools", "call_tool"]
        about = (await front.modern("server/discover")).result
        assert "search_tools" in about["instructions"]


async def test_a_person_s_inspector_is_shown_everything():
    async with served(FEW) as (front, _):
        tools = await listed(front, "mcp-inspector")
        assert [one["name"] for one in tools] == ["mcp__up__pay", "mcp__up__refund"]


async def test_the_budget_is_the_client_s_own_and_counts_tokens():
    async with served(MANY) as (front, _):
        await listed(front)
        catalogue = front.gateway.catalogue
        for row in CLIENTS:
            if not row.budget:
                continue
            tokens, tools = 0, 0
            while tokens <= row.budget:
                tokens += index_line(catalogue.all(TOOLS)[tools])[1]
                tools += 1
            assert 25 <= tools < len(MANY)
            assert choose(ClientInfo(row.names[0]), catalogue).tokens == tokens


async def test_lists_are_the_same_bytes_for_every_conversation():
    for tools in (FEW, MANY):
        async with served(tools) as (front, _):
            first = await listed(front, headers=in_thread("one"))
            assert json.dumps(first) == json.dumps(await listed(front, headers=in_thread("two")))
            assert json.dumps(first) == json.dumps(await listed(front))


async def test_a_conversation_keeps_its_view_when_the_catalogue_grows_and_a_new_one_gets_another():
    async with served(FEW) as (front, speaker):
        assert [one["name"] for one in await listed(front, headers=in_thread("old"))] == ["call_tool"]
        line = await front.listen(headers=in_thread("old"), toolsListChanged=True)
        speaker.tools = MANY
        await speaker.until_listened()
        await speaker.tell(TOOLS_CHANGED)
        assert (await line.next_message())["method"] == TOOLS_CHANGED
        (index,) = await listed(front, headers=in_thread("old"))
        assert "mcp__up__pay_119()" in index["inputSchema"]["properties"]["tool"]["description"]
        assert len(await listed(front, headers=in_thread("new"))) == 2


async def test_a_legacy_session_keeps_its_view():
    async with served(FEW) as (front, speaker):
        session = await front.legacy()
        before = (await session.request("tools/list")).result["tools"]
        assert [one["name"] for one in before] == ["call_tool"]
        speaker.tools = MANY
        await speaker.until_listened()
        await speaker.tell(TOOLS_CHANGED)
        await front.until_health(lambda health: health["servers"]["up"]["tools"] == len(MANY))
        after = (await session.request("tools/list")).result["tools"]
        assert [one["name"] for one in after] == ["call_tool"]


@pytest.mark.parametrize(
    ("view", "names"), [("index", ["call_tool"]), ("search", ["search_tools", "call_tool"])]
)
async def test_a_view_that_is_asked_for_is_served_whatever_the_size(view: str, names: list[str]):
    for tools in (FEW, MANY):
        async with served(tools, view=view) as (front, _):
            assert [one["name"] for one in await listed(front)] == names


async def test_calls_do_not_ask_which_view_is_served(monkeypatch: pytest.MonkeyPatch):
    async with served(FEW) as (front, _):
        await listed(front)
        view = front.gateway.view()
        assert isinstance(view, AutoView)
        asked: list[str] = []
        monkeypatch.setattr(view, "chosen", lambda call: asked.append(call.method))
        await front.call("call_tool", {"tool": "mcp__up__pay"})
        await front.call("mcp__up__pay")
        assert asked == []
