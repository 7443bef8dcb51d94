"""What upstreams list: read to the end, item by item, with what cannot be used left out and named."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from tests.app.speaker import Exchange, Json, Speaker, speaking, tool
from tests.app.yard import at, yard
from tests.turning import counting_turns
from toolyard.catalogue import lists
from toolyard.catalogue.catalogue import Catalogue
from toolyard.catalogue.items import (
    MAX_ITEM_BYTES,
    PROMPTS,
    TOOLS,
    UnusableItemError,
    UpstreamItem,
    item_json,
    name_filter,
    read_item,
)
from toolyard.catalogue.lists import ItemList, UnreadableListError, read_list
from toolyard.config import Http, ServerConfig
from toolyard.upstream.base import Forward, Outcome, StatelessUpstream
from toolyard.upstream.connection import GATEWAY_CALLER, UpstreamInfo
from toolyard.upstream.handshake import MODERN_META
from toolyard.upstream.messages.slices import SLICE
from toolyard.upstream.messages.spool import Spool, Spooled
from toolyard.wire.call import Call
from toolyard.wire.errors import MethodNotFound


class Lister(StatelessUpstream):
    """A server of which only lists are asked."""

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        raise NotImplementedError

    async def close(self) -> None:
        return None


class Pages(Lister):
    """A server that gives out lists: `page(cursor)` is a result."""

    def __init__(self, page: Callable[[str | None], Any]) -> None:
        self._page = page
        self.asked: list[str | None] = []

    async def send(self, forward: Forward) -> Outcome:
        cursor = _cursor(forward)
        self.asked.append(cursor)
        return Outcome.of(json.dumps(self._page(cursor)).encode())


def _cursor(forward: Forward) -> str | None:
    found = forward.params.get("cursor")
    return None if found is None else json.loads(bytes(found))


async def read(page: Callable[[str | None], Any], known: ItemList | None = None) -> ItemList:
    return await read_list(Pages(page), TOOLS, GATEWAY_CALLER, MODERN_META, known or ItemList())


def names(listed: ItemList) -> list[str]:
    return [item.own for item in listed.items]


async def test_pages_are_read_to_the_last():
    def page(cursor: str | None) -> Json:
        number = int(cursor or 0)
        more = {"nextCursor": str(number + 1)} if number < 4 else {}
        return {"tools": [tool(f"t{number}")], **more}

    assert names(await read(page)) == ["t0", "t1", "t2", "t3", "t4"]


@pytest.mark.parametrize(
    "pages",
    [{"": "a", "a": "a"}, {"": "a", "a": "b", "b": "a"}, {"": "a", "a": "b", "b": "c", "c": "b"}],
    ids=["itself", "two", "later"],
)
async def test_a_list_that_goes_round_in_circles_is_refused(pages: dict[str, str]):
    server = Pages(lambda cursor: {"tools": [], "nextCursor": pages[cursor or ""]})
    with pytest.raises(UnreadableListError, match="tools"):
        await read_list(server, TOOLS, GATEWAY_CALLER, MODERN_META, ItemList())
    assert len(server.asked) <= lists.MAX_PAGES


async def test_a_list_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lists, "MAX_PAGES", 20)
    with pytest.raises(UnreadableListError, match="more than 20 pages"):
        await read(lambda cursor: {"tools": [], "nextCursor": str(int(cursor or 0) + 1)})


async def test_a_list_of_too_many_items_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lists, "MAX_ITEMS", 10)
    with pytest.raises(UnreadableListError, match="over 10 items"):
        await read(lambda cursor: {"tools": [tool(f"t{n}") for n in range(11)]})


async def test_a_list_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lists, "MAX_BYTES", 2**20)
    with pytest.raises(UnreadableListError, match="MiB"):
        await read(
            lambda cursor: {
                "tools": [tool("t", description="x" * 300_000)],
                "nextCursor": str(int(cursor or 0) + 1),
            }
        )


@pytest.mark.parametrize("body", [{"tools": 5}, {"tools": {}}, [], "tools", {"tools": [], "nextCursor": 5}])
async def test_what_is_no_list_is_refused(body: Any):
    with pytest.raises(UnreadableListError, match="is not valid"):
        await read(lambda cursor: body)


LONG = [tool(f"t{n}", description="d" * (n % 300)) for n in range(5000)]


@pytest.mark.parametrize("spooled", [True, False])
async def test_a_long_list_is_read_in_slices_and_once_if_it_stays_the_same(spooled: bool):
    class Long(Lister):
        async def send(self, forward: Forward) -> Outcome:
            cursor = _cursor(forward)
            more = {} if cursor else {"nextCursor": "2"}
            body = json.dumps(
                {"ttlMs": 7000, "tools": LONG[2500:] if cursor else LONG[:2500], **more}
            ).encode()
            if not spooled:
                return Outcome.of(body)
            spool = Spool(bound=1000)
            spool.write(body)
            whole = spool.finish()
            assert isinstance(whole, Spooled)
            return Outcome(whole, whole.size)

    async with counting_turns() as turns:
        listed = await read_list(Long(), TOOLS, GATEWAY_CALLER, MODERN_META, ItemList())
        assert turns.count > len(LONG) // lists.ITEMS_PER_TURN + len(json.dumps(LONG)) // SLICE
        assert names(listed) == [item["name"] for item in LONG]
        assert listed.ttl == 7
        again = await read_list(Long(), TOOLS, GATEWAY_CALLER, MODERN_META, listed)
    assert again.items is listed.items


async def test_a_long_list_that_cannot_be_cut_is_refused():
    items = [{"name": "t", "inputSchema": {"x": "x" * 2 * 2**20}}]
    with pytest.raises(UnreadableListError, match="an item is over"):
        await read(lambda cursor: {"tools": items})


async def test_a_server_that_does_not_know_the_method_has_none():
    class Without(Lister):
        async def send(self, forward: Forward) -> Outcome:
            raise MethodNotFound(forward.method)

    assert (await read_list(Without(), TOOLS, GATEWAY_CALLER, MODERN_META, ItemList())).items == ()


UNUSABLE: dict[str, Any] = {
    "no name": {"inputSchema": {}},
    "an empty name": {"name": "", "inputSchema": {}},
    "a number for a name": {"name": 5, "inputSchema": {}},
    "no schema": {"name": "a"},
    "a schema that is none": {"name": "a", "inputSchema": "string"},
    "no object": "a",
    "nothing": None,
    "a name without an end": {"name": "a" * 1000, "inputSchema": {}},
    "too much of everything": {"name": "a", "inputSchema": {}, "description": "x" * MAX_ITEM_BYTES},
    "a header that is none": {
        "name": "a",
        "inputSchema": {"properties": {"x": {"type": "string", "x-mcp-header": "no good"}}},
    },
}


@pytest.mark.parametrize("item", UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_an_item_that_cannot_be_used_is_left_out_with_a_note_and_the_others_stay(item: Any):
    listed = await read(lambda cursor: {"tools": [tool("before"), item, tool("after")]})
    assert names(listed) == ["before", "after"]
    (note,) = listed.notes
    assert note.startswith("tools[1] is left out: ")


async def test_of_two_items_with_one_name_the_first_counts():
    listed = await read(lambda cursor: {"tools": [tool("a", title="first"), tool("a", title="second")]})
    assert [json.loads(item_json(TOOLS, item, item.own))["title"] for item in listed.items] == ["first"]


async def test_a_list_that_is_the_same_byte_for_byte_is_not_read_again():
    first = await read(lambda cursor: {"tools": [tool("a")], "ttlMs": 5000})
    same = await read(lambda cursor: {"tools": [tool("a")], "ttlMs": 5000}, first)
    assert same.items is first.items
    other = await read(lambda cursor: {"tools": [tool("a", title="new")], "ttlMs": 5000}, first)
    assert other.items != first.items


async def test_the_notes_of_a_list_that_is_the_same_stay():
    first = await read(lambda cursor: {"tools": [tool("a"), None]})
    same = await read(lambda cursor: {"tools": [tool("a"), None]}, first)
    assert same.notes == first.notes != ()


async def test_a_list_says_how_long_it_is_good_for():
    assert (await read(lambda cursor: {"tools": [], "ttlMs": 1500})).ttl == 1.5
    assert (await read(lambda cursor: {"tools": []})).ttl is None


def item(**members: Any) -> UpstreamItem:
    return read_item(TOOLS, Raw(json.dumps({"name": "t", "inputSchema": {}, **members}).encode()))


def test_an_item_is_shown_under_any_name_with_everything_else_as_it_was():
    members = {"title": "é\u2028", "inputSchema": {"x": [1, 2.5, None]}, "_meta": {"a/b": 1}, "odd": "kept"}
    assert json.loads(item_json(TOOLS, item(**members), "other")) == {"name": "other", **members}
    prompt = read_item(PROMPTS, Raw(b'{"name":"p"}'))
    assert json.loads(item_json(PROMPTS, prompt, "q")) == {"name": "q"}


@pytest.mark.parametrize(
    ("members", "safe"),
    [
        ({}, False),
        ({"annotations": {"readOnlyHint": True}}, True),
        ({"annotations": {"idempotentHint": True}}, True),
        ({"annotations": {"readOnlyHint": "true"}}, False),
        ({"annotations": {"destructiveHint": False}}, False),
        ({"annotations": None}, False),
    ],
)
def test_what_may_run_twice_says_so_itself(members: Json, safe: bool):
    assert item(**members).safe is safe


@pytest.mark.parametrize(
    ("members", "reads"),
    [
        ({}, None),
        ({"annotations": {}}, None),
        ({"annotations": {"readOnlyHint": True}}, True),
        ({"annotations": {"readOnlyHint": False}}, False),
        ({"annotations": {"readOnlyHint": "true"}}, None),
        ({"annotations": {"readOnlyHint": 1}}, None),
        ({"annotations": {"idempotentHint": True}}, None),
    ],
)
def test_whether_a_tool_only_reads_is_what_its_annotations_say(members: Json, reads: bool | None):
    assert item(**members).reads is reads


def test_bytes_that_are_not_text_make_an_item_unusable():
    with pytest.raises(UnusableItemError):
        read_item(TOOLS, Raw(b'{"name":"\xff","inputSchema":{}}'))


@pytest.mark.parametrize(
    ("allow", "deny", "passing"),
    [
        (["*"], [], {"read", "write", "write_all"}),
        (["read"], [], {"read"}),
        (["w*"], [], {"write", "write_all"}),
        (["*"], ["w*"], {"read"}),
        (["*"], ["write"], {"read", "write_all"}),
        (["[rw]*"], ["*_all"], {"read", "write"}),
        ([], [], set()),
        (["READ"], [], set()),
    ],
)
def test_names_pass_by_patterns(allow: list[str], deny: list[str], passing: set[str]):
    admits = name_filter(allow, deny)
    assert {name for name in ("read", "write", "write_all") if admits(name)} == passing


def test_a_name_does_not_depend_on_what_else_is_mounted():
    def configured(name: str) -> ServerConfig:
        return ServerConfig(name=name, where=Http(url="http://localhost"))

    one = Catalogue()
    one.add(configured("b")).replace_list(TOOLS, (item(),))
    many = Catalogue()
    for name in ("a", "b", "c"):
        many.add(configured(name)).replace_list(TOOLS, (item(),))
    (alone,) = one.all(TOOLS)
    assert alone.name in {entry.name for entry in many.all(TOOLS)}


# Through the gateway


TOOLS_OF_A_FILE_SERVER = [tool("read"), tool("write"), tool("delete_file"), tool("delete_folder")]


async def test_what_is_denied_is_neither_listed_nor_called_in_any_view():
    speaker = Speaker("modern", TOOLS_OF_A_FILE_SERVER)
    async with speaking(speaker) as url, yard(at(url, deny=("delete_*",))) as front:
        assert await front.tools() == ["mcp__up__read", "mcp__up__write"]
        assert await front.tools("/mcp/up") == ["read", "write"]
        for path, name in (("/mcp", "mcp__up__delete_file"), ("/mcp/up", "delete_file")):
            error = (await front.call(name, path=path)).error
            assert error["code"] == -32602
            assert "Unknown tool" in error["message"]
    assert not speaker.heard("tools/call")


async def test_what_is_renamed_is_known_by_its_new_name_only_in_any_view():
    speaker = Speaker("modern", TOOLS_OF_A_FILE_SERVER)
    async with speaking(speaker) as url, yard(at(url, rename={"read": "look"}, allow=("read",))) as front:
        assert await front.tools() == ["mcp__up__look"]
        assert await front.tools("/mcp/up") == ["look"]
        for path, new, old in (("/mcp", "mcp__up__look", "mcp__up__read"), ("/mcp/up", "look", "read")):
            assert await front.says(new, {"text": "seen"}, path=path) == "seen"
            assert (await front.call(old, path=path)).error["code"] == -32602
    assert {call.name for call in speaker.heard("tools/call")} == {"read"}
    assert {call.headers["mcp-name"] for call in speaker.heard("tools/call")} == {"read"}


async def test_two_names_can_be_swapped():
    speaker = Speaker("modern", [tool("read"), tool("write")])

    async def call(exchange: Exchange) -> None:
        await exchange.result({"content": [{"type": "text", "text": exchange.name}]})

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, rename={"read": "write", "write": "read"})) as front:
        assert await front.says("mcp__up__read") == "write"
        assert await front.says("write", path="/mcp/up") == "read"


async def test_what_is_left_out_is_told_by_health_and_the_rest_is_served():
    speaker = Speaker("modern", [tool("good"), {"name": "bad"}])
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == ["mcp__up__good"]
        server = await front.server()
        assert server["state"] == "up"
        assert "tools[1]" in server["notes"][0]


async def test_a_list_that_cannot_be_read_takes_no_calls_away():
    speaker = Speaker("modern")

    async def endless(exchange: Exchange) -> None:
        await exchange.result({"tools": [], "nextCursor": "a"})

    speaker.on["tools/list"] = endless
    async with speaking(speaker) as url, yard(at(url), list_wait=2) as front:
        assert await front.tools() == []
        assert "repeats a cursor" in (await front.server())["notes"][0]
        assert await front.says("echo", {"text": "anyway"}, path="/mcp/up") == "anyway"


BAD_PROMPTS: dict[str, Any] = {
    "no list": lambda exchange: exchange.result({"prompts": "x"}),
    "an error": lambda exchange: exchange.error(-32603, "prompts are broken"),
    "no end": lambda exchange: exchange.result({"prompts": [], "nextCursor": "a"}),
    "no json": lambda exchange: exchange.whole(200, "application/json", b"<html>"),
    "half a character": lambda exchange: exchange.whole(
        200,
        "application/json",
        b'{"jsonrpc":"2.0","id":%d,"result":{"prompts":[{"name":"\\ud800"}]}}' % exchange.id,
    ),
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("how", BAD_PROMPTS)
async def test_a_list_that_cannot_be_read_takes_none_of_the_others_away(era: str, how: str):
    speaker = Speaker(era)
    speaker.capabilities["prompts"] = {}
    speaker.on["prompts/list"] = BAD_PROMPTS[how]
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == ["mcp__up__echo"]
        assert await front.says("mcp__up__echo", {"text": "works"}) == "works"
        server = await front.server()
        assert server["state"] == "up"
        assert "prompts" in json.dumps(server.get("notes"))


@pytest.mark.parametrize("offer", [None, True, {}, {"listChanged": None}])
async def test_what_is_offered_in_a_sloppy_way_is_offered(offer: Any):
    speaker = Speaker("modern")
    speaker.capabilities = {"tools": offer}
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == ["mcp__up__echo"]
