"""Tools of several servers at one address: names, pages, hints, headers."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Exchange, Json, Speaker, speaking, text, tool
from tests.app.yard import at, yard

TENANT = {
    "type": "object",
    "properties": {
        "tenant": {"type": "string", "x-mcp-header": "Tenant"},
        "place": {"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}},
    },
}


async def test_two_servers_with_the_same_tools_are_told_apart():
    first, second = Speaker("modern"), Speaker("legacy")

    def answering(words: str) -> Any:
        async def call(exchange: Exchange) -> None:
            await exchange.result(text(words))

        return call

    first.on["tools/call"] = answering("the first")
    second.on["tools/call"] = answering("the second")
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        assert await front.tools() == ["mcp__a__echo", "mcp__b__echo"]
        assert await front.says("mcp__a__echo") == "the first"
        assert await front.says("mcp__b__echo") == "the second"


@pytest.mark.parametrize(
    ("name", "meant"), [("mcp__git__comit", "mcp__git__commit"), ("mcp__git__pushh", "mcp__git__push")]
)
async def test_an_unknown_tool_is_told_what_it_may_have_been(name: str, meant: str):
    speaker = Speaker("modern", [tool("commit"), tool("push")])
    async with speaking(speaker) as url, yard(at(url, "git")) as front:
        error = (await front.call(name)).error
        assert error["code"] == -32602
        assert repr(name) in error["message"]
        assert f"did you mean {meant!r}" in error["message"]


async def test_an_unknown_tool_that_looks_like_none_gets_no_guess():
    async with speaking(Speaker("modern")) as url, yard(at(url)) as front:
        error = (await front.call("completely_different")).error
        assert "did you mean" not in error["message"]


async def test_a_very_long_unknown_name_is_cut_in_the_error():
    async with speaking(Speaker("modern")) as url, yard(at(url)) as front:
        assert len((await front.call("x" * 5000)).error["message"]) < 300


async def test_a_bare_view_passes_a_name_on_that_is_not_listed():
    async with speaking(Speaker("modern")) as url, yard(at(url)) as front:
        await front.tools()
        assert await front.says("hidden", {"text": "found"}, path="/mcp/up") == "found"


# Pages


def numbered(count: int, start: str = "t") -> Speaker:
    return Speaker("modern", [tool(f"{start}{number:02}") for number in range(count)])


async def page(front: Any, cursor: str | None = None) -> Json:
    return (await front.modern("tools/list", {} if cursor is None else {"cursor": cursor})).result


def names(found: Json) -> list[str]:
    return [item["name"].split("__")[-1] for item in found["tools"]]


async def test_pages_show_everything_once():
    async with (
        speaking(numbered(7)) as a,
        speaking(numbered(5, "u")) as b,
        yard(at(a, "a"), at(b, "b"), page_size=3) as front,
    ):
        found = await page(front)
        sizes, seen = [len(found["tools"])], names(found)
        while "nextCursor" in found:
            found = await page(front, found["nextCursor"])
            sizes.append(len(found["tools"]))
            seen += names(found)
        assert sizes == [3, 3, 3, 3]
        assert seen == [f"t0{n}" for n in range(7)] + [f"u0{n}" for n in range(5)]


async def test_a_cursor_is_good_when_servers_come_and_go_meanwhile():
    async with (
        speaking(numbered(4, "a")) as a,
        speaking(numbered(4, "b")) as b,
        speaking(numbered(4, "c")) as c,
    ):
        first, second, third = at(a, "a"), at(b, "b"), at(c, "c")
        async with yard(first, second, page_size=2) as front:
            start = await page(front)
            assert names(start) == ["a00", "a01"]
            config = front.gateway.config
            config = replace(config, gateway=replace(config.gateway, page_size=2))
            await front.gateway.reload(replace(config, servers=(first, second, third)))
            await front.until_health(lambda health: health["servers"]["c"]["tools"] == 4)
            following = await page(front, start["nextCursor"])
            assert names(following) == ["a02", "a03"]
            # The server that the cursor points at goes: the next page begins with the one after it.
            await front.gateway.reload(replace(config, servers=(second, third)))
            assert names(await page(front, following["nextCursor"])) == ["b00", "b01"]


async def test_a_cursor_is_good_when_its_own_tool_has_gone():
    speaker = numbered(6)
    async with speaking(speaker) as url, yard(at(url), page_size=3) as front:
        start = await page(front)
        await speaker.until_listened()
        speaker.tools = [item for item in speaker.tools if item["name"] != "t02"]
        line = await front.listen(toolsListChanged=True)
        await speaker.tell("notifications/tools/list_changed")
        await line.next_message()
        rest: list[str] = []
        cursor = start["nextCursor"]
        while cursor is not None:
            found = await page(front, cursor)
            rest += names(found)
            cursor = found.get("nextCursor")
        assert set(rest) >= {"t03", "t04", "t05"}


@pytest.mark.parametrize("cursor", ["", "nonsense", "W10=", "WyJhIiwxXQ==", "é", "x" * 5000])
async def test_a_cursor_of_somebody_else_is_refused(cursor: str):
    async with speaking(numbered(3)) as url, yard(at(url), page_size=2) as front:
        answer = await front.modern("tools/list", {"cursor": cursor})
        assert answer.error["code"] == -32602
        assert "cursor" in answer.error["message"].lower()


# Headers that mirror arguments


@pytest.fixture
def mirrored() -> Speaker:
    return Speaker("modern", [tool("query", inputSchema=TENANT)])


async def test_a_header_is_added_for_a_client_that_has_none_to_send(mirrored: Speaker):
    async with speaking(mirrored) as url, yard(at(url)) as front:
        session = await front.legacy()
        arguments: Json = {"tenant": "mäx", "place": {"zone": 7}}
        assert "result" in (await session.call("mcp__up__query", **arguments)).json
        (call,) = mirrored.heard("tools/call")
        assert call.headers["mcp-param-tenant"] == "=?base64?bcOkeA==?="
        assert call.headers["mcp-param-zone"] == "7"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_legacy_server_gets_no_arguments_in_headers(era: str):
    speaker = Speaker("legacy", [tool("query", inputSchema=TENANT)])
    async with speaking(speaker) as url, yard(at(url)) as front:
        if era == "modern":
            sent = {"mcp-param-tenant": "max"}
            assert "result" in (await front.call("mcp__up__query", {"tenant": "max"}, headers=sent)).json
        else:
            assert "result" in (await (await front.legacy()).call("mcp__up__query", tenant="max")).json
        (call,) = speaker.heard("tools/call")
        assert not [name for name in call.headers if name.startswith("mcp-param-")]


async def test_a_header_that_says_what_the_body_says_is_passed_on(mirrored: Speaker):
    async with speaking(mirrored) as url, yard(at(url)) as front:
        answer = await front.call("mcp__up__query", {"tenant": "acme"}, headers={"Mcp-Param-Tenant": "acme"})
        assert "result" in answer.json
        (call,) = mirrored.heard("tools/call")
        assert call.headers["mcp-param-tenant"] == "acme"
        assert "mcp-param-zone" not in call.headers


@pytest.mark.parametrize(
    "headers", [{"Mcp-Param-Tenant": "other"}, {}, {"Mcp-Param-Tenant": "acme", "Mcp-Param-Zone": "1"}]
)
@pytest.mark.parametrize(("path", "name"), [("/mcp", "mcp__up__query"), ("/mcp/up", "query")])
async def test_a_header_that_does_not_agree_with_the_body_is_refused(
    mirrored: Speaker, headers: dict[str, str], path: str, name: str
):
    async with speaking(mirrored) as url, yard(at(url)) as front:
        await front.tools()
        answer = await front.call(name, {"tenant": "acme"}, headers=headers, path=path)
        assert answer.status == 400
        assert answer.error["code"] == -32020
    assert not mirrored.heard("tools/call")


async def test_the_instructions_of_each_server_stand_under_its_name():
    first, second = Speaker("modern"), Speaker("legacy")
    first.instructions, second.instructions = "Be kind.", "Be quick."
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        told = (await front.modern("server/discover")).result["instructions"]
        quotes = "Lines behind > are words of the server above them."
        assert told == f"{quotes}\n\n## a\n> Be kind.\n\n## b\n> Be quick."
        bare = (await front.modern("server/discover", path="/mcp/b")).result
        assert bare["instructions"] == "Be quick."


async def test_an_address_that_leads_nowhere_says_where_there_is_something():
    async with speaking(Speaker("modern")) as url, yard(at(url)) as front:
        answer = await front.modern("tools/list", path="/mcp/nobody")
        assert answer.status == 404
        assert "'/mcp'" in answer.error["message"]
