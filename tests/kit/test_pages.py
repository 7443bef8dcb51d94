"""Lists in pages: everything once, in order, whatever happens between two pages."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard import Client
from toolyard.kit import Server
from toolyard.wire.errors import McpError


async def nothing() -> str:
    return ""


def with_tools(size: int, *names: str) -> Server:
    server = Server("pages", page_size=size)
    for name in names:
        server.add_tool(nothing, name=name)
    return server


async def page(
    server: Server, cursor: str | None = None, era: Any = "modern"
) -> tuple[list[str], str | None]:
    async with Client(server, era=era) as client:
        answer = await client.request("tools/list", {"cursor": cursor} if cursor is not None else {})
    return [tool["name"] for tool in answer["tools"]], answer.get("nextCursor")


async def pages(server: Server, cursor: str | None = None) -> list[list[str]]:
    found: list[list[str]] = []
    while True:
        names, cursor = await page(server, cursor)
        found.append(names)
        if cursor is None:
            return found


async def test_pages_follow_one_another_in_the_order_of_declaration(era: Any) -> None:
    server = with_tools(2, *"edcba")
    first, cursor = await page(server, era=era)
    second, cursor = await page(server, cursor, era)
    third, end = await page(server, cursor, era)
    assert [first, second, third, end] == [["e", "d"], ["c", "b"], ["a"], None]


async def test_a_last_page_that_is_full_ends_the_list() -> None:
    assert await pages(with_tools(2, *"abcd")) == [["a", "b"], ["c", "d"]]


async def test_resources_templates_and_prompts_come_in_pages_too() -> None:
    server = Server("pages", page_size=1)
    for name in "ab":
        server.resource(f"r://{name}")(lambda: "")
        server.add_prompt(nothing, name=name)

    @server.resource("t://{x}")
    def one(x: str) -> str:
        return x

    @server.resource("u://{x}")
    def two(x: str) -> str:
        return x

    async with Client(server) as client:
        for method, member in (
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ):
            first = await client.request(method)
            second = await client.request(method, {"cursor": first["nextCursor"]})
            assert len(first[member]) == len(second[member]) == 1
            assert first[member] != second[member]
            assert "nextCursor" not in second


@pytest.mark.parametrize("cursor", ["", "x", "bm90IG91cnM=", "é", "WzEsMl0=", "W10=", "\x00", "9" * 10_000])
async def test_a_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    with pytest.raises(McpError) as error:
        await page(with_tools(2, *"abc"), cursor)
    assert error.value.code == -32602
    assert len(error.value.message) < 200


async def test_what_was_added_meanwhile_comes_at_the_end() -> None:
    server = with_tools(2, *"abcd")
    _, cursor = await page(server)
    server.add_tool(nothing, name="new")
    assert await pages(server, cursor) == [["c", "d"], ["new"]]


async def test_a_tool_replaced_between_two_pages_hides_no_other() -> None:
    server = with_tools(2, *"abcd")
    _, cursor = await page(server)
    server.remove_tool("b")
    server.add_tool(nothing, name="b")
    assert [name for names in await pages(server, cursor) for name in names][:2] == ["c", "d"]


async def test_a_cursor_past_the_end_gives_an_empty_page() -> None:
    server = with_tools(2, *"abc")
    _, cursor = await page(server)
    server.remove_tool("c")
    assert await page(server, cursor) == ([], None)


NAMES = "abcdefgh"


@given(
    size=st.integers(1, 4),
    changes=st.lists(st.lists(st.sampled_from(NAMES), max_size=3, unique=True), max_size=8),
)
def test_what_stays_is_shown_exactly_once_whatever_goes(size: int, changes: list[list[str]]) -> None:
    async def scroll() -> None:
        server = with_tools(size, *NAMES)
        gone: set[str] = set()
        shown: list[str] = []
        cursor: str | None = None
        plan = iter(changes)
        while True:
            names, cursor = await page(server, cursor)
            shown += names
            if cursor is None:
                break
            for name in next(plan, []):
                if name in server.tools and len(server.tools) > 1:
                    server.remove_tool(name)
                    gone.add(name)
        assert [name for name in shown if name not in gone] == [name for name in NAMES if name not in gone]
        assert len(shown) == len(set(shown))

    asyncio.run(scroll())
