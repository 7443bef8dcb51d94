"""Servers of one kind have the same tools: what the configuration says of each tells them apart."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.app.speaker import TOOLS_CHANGED, Speaker, speaking, tool
from tests.app.yard import at, yard
from tests.meta.office import Front, front, text_of
from toolyard.config import InProcess, ServerConfig

ABOUT = {
    "one": "orders database of the shop in Berlin",
    "two": "HR database: staff, salaries and holidays",
    "three": "telemetry of the machines in the Hamburg plant",
}


def described(descriptions: dict[str, str] = ABOUT, module: str = "sql") -> list[ServerConfig]:
    """A bundled server, on its sample, under several names."""
    where = InProcess(module=f"toolyard.servers.{module}")
    return [ServerConfig(name=name, where=where, description=text) for name, text in descriptions.items()]


@asynccontextmanager
async def databases(descriptions: dict[str, str] = ABOUT, module: str = "sql") -> AsyncIterator[Front]:
    async with front(*described(descriptions, module)) as client:
        yield client


@pytest.mark.parametrize(
    ("use_case", "server"),
    [
        ("how many orders did the shop in Berlin have", "one"),
        ("query the orders database of the shop in Berlin", "one"),
        ("query the HR database", "two"),
        ("what are the salaries of our staff", "two"),
        ("readings of the machines in Hamburg", "three"),
        ("salários dos funcionários", "two"),
    ],
)
async def test_a_search_finds_the_server_that_is_described_so(use_case: str, server: str):
    async with databases() as client:
        (found,) = (await client.search(use_case, limit=3))["results"]
        assert found["results"][0]["server"] == server


async def test_the_words_about_a_server_do_not_drown_those_of_its_tools():
    async with databases(module="schema") as client:
        await client.search("wait for them")
        tools = [entry.bare for entry in client.gateway.catalogue.servers["one"].entries["tools"]]
        assert len(tools) == 3
        for server, words in ABOUT.items():
            for own in tools:
                wanted = f"{own.replace('_', ' ')}, {words}"
                assert (await client.names(wanted, limit=1)) == [f"mcp__{server}__{own}"]


async def test_a_description_stands_before_those_of_its_tools_in_answers_and_is_cut_there():
    long = "orders of the shop " * 20
    async with databases({"short": "orders of the shop", "long": long[:500].strip()}) as client:
        (found,) = (await client.search("query the orders", limit=25))["results"]
        for one in found["results"]:
            assert one["description"].startswith("[orders of the shop")
            assert "] " in one["description"][:125]
        text = text_of(await client.meta("search_tools", {"queries": ["query the orders"]}))
        assert "\nshort: orders of the shop" in text
        assert "\nlong: orders of the shop" in text
        assert "[orders" not in text
        names = [one["tool"] for one in found["results"]][:2]
        answer = await client.meta("describe_tools", {"tools": names})
        shown = answer["structuredContent"]["tools"]
        assert all(one["description"].startswith("[orders of the shop") for one in shown)
        about = (await client.modern("server/discover")).result["instructions"]
        assert "(orders of the shop)" in about


async def test_every_tool_of_a_described_server_says_so_in_the_list_of_everything_but_not_in_its_own():
    async with yard(*described(), view="all") as client:
        page = (await client.modern("tools/list")).result
        for listed in page["tools"]:
            server = listed["name"].split("__")[1]
            assert listed["description"].startswith(f"[{ABOUT[server]}] ")
            assert listed["inputSchema"]["type"] == "object"
        assert "## two\nHR database" in (await client.modern("server/discover")).result["instructions"]
        alone = (await client.modern("tools/list", path="/mcp/two")).result
        assert alone["tools"]
        assert not any("HR database" in listed["description"] for listed in alone["tools"])


ODD = [tool("plain"), tool("silent", description=None), tool("numbered", description=5)]


async def test_a_tool_without_a_description_or_with_one_that_is_none_is_described_by_its_server():
    async with (
        speaking(Speaker("modern", ODD)) as url,
        yard(at(url, description="odd things"), view="all") as client,
    ):
        page = (await client.modern("tools/list")).result
        assert {listed["description"].split("]")[0] for listed in page["tools"]} == {"[odd things"}


async def test_a_changed_description_is_shown_and_found_without_connecting_again():
    async def score(client: Front) -> float:
        (found,) = (await client.search("orders of the shop"))["results"]
        return sum(one["score"] for one in found["results"])

    speaker = Speaker("modern", [tool("query", description="Run a query.")])
    async with speaking(speaker) as url, front(at(url, pinned=("query",))) as client:
        assert (await client.listed())["mcp__up__query"]["description"] == "Run a query."
        before, openings = await score(client), len(speaker.heard("server/discover"))
        line = await client.listen(toolsListChanged=True)
        (server,) = client.gateway.config.servers
        for description, fits in (("orders of the shop", True), ("staff", False)):
            changed = (replace(server, description=description),)
            await client.gateway.reload(replace(client.gateway.config, servers=changed))
            assert (await line.next_message())["method"] == TOOLS_CHANGED
            listed = await client.listed()
            assert listed["mcp__up__query"]["description"] == f"[{description}] Run a query."
            assert (await score(client) > 2 * before) is fits
        assert len(speaker.heard("server/discover")) == openings
