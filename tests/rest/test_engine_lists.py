"""Lists in parts, whole lists, filters, and what of a reply is kept."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.rest.asking import KEY, asking, table
from tests.rest.loopback import Asked, Loopback, Raw, reply
from tests.serving import modern, serving
from toolyard.rest.definition.model import ApiDefinition, Auth
from toolyard.rest.response.paging import MAX_PAGES
from toolyard.rest.server import RestSettings, build
from toolyard.wire.seal import KEY_VARIABLE

PAGE = {"kind": "page", "position": "page", "first": 1, "size": "limit", "default": 2, "most": 3}
OFFSET = {"kind": "offset", "position": "skip", "size": "limit", "default": 2, "most": 3}
CURSOR = {
    "kind": "cursor",
    "position": "after",
    "next": "meta.next",
    "size": "limit",
    "default": 2,
    "most": 3,
}
LINK = {"kind": "link", "size": "limit", "default": 2, "most": 3}


def things(count: int, answer: Callable[[list[Any], int, int], Raw], start: Callable[[Asked], int]) -> Any:
    """A list of so many things, in the parts that are asked for."""

    def say(asked: Asked) -> Raw:
        begin, size = start(asked), int(asked.query.get("limit", "2"))
        return answer(
            [{"id": n, "name": f"n{n}"} for n in range(begin, min(begin + size, count))], begin, size
        )

    return say


def by_page(asked: Asked) -> int:
    return (int(asked.query["page"]) - 1) * int(asked.query["limit"])


def by_skip(asked: Asked) -> int:
    return int(asked.query["skip"])


def by_cursor(asked: Asked) -> int:
    return int(asked.query.get("after", "c0")[1:])


def with_cursor(items: list[Any], begin: int, size: int) -> Raw:
    following = f"c{begin + size}" if begin + size < 5 else None
    return reply({"list": items, "meta": {"next": following, "total": 5}})


async def numbers(ask: Any, tool: str, **arguments: Any) -> list[tuple[list[int], Any]]:
    """The ids of every part, and what leads to the next, following `next` to the end."""
    found: list[tuple[list[int], Any]] = []
    while True:
        part = await ask.ok(tool, **arguments)
        found.append(([item["id"] for item in part["items"]], part.get("next")))
        if "next" not in part:
            return found
        assert len(found) < 10
        (position,) = [name for name in ("page", "skip", "after", "cursor") if name in POSITIONS[tool]]
        arguments[position] = part["next"]


POSITIONS = {"pages": "page", "skips": "skip", "cursors": "after", "links": "cursor"}


async def test_each_way_of_paging_leads_from_part_to_part_to_the_end(api: Loopback) -> None:
    api.on("GET /v1/pages", things(5, lambda items, *_: reply(items, X_Total_Items="5"), by_page))
    api.on("GET /v1/skips", things(5, lambda items, *_: reply(items), by_skip))
    api.on("GET /v1/cursors", things(5, with_cursor, by_cursor))
    rows = table(
        api,
        {
            "pages": {"path": "/pages", "paging": "page"},
            "skips": {"path": "/skips", "paging": "offset"},
            "cursors": {"path": "/cursors", "paging": "cursor", "result": {"items": "list"}},
        },
        paging={
            "page": {**PAGE, "total_header": "X-Total-Items"},
            "offset": OFFSET,
            "cursor": {**CURSOR, "total": "meta.total"},
        },
    )
    async with asking(rows) as ask:
        assert await numbers(ask, "pages") == [([0, 1], 2), ([2, 3], 3), ([4], None)]
        assert await numbers(ask, "pages", limit=3) == [([0, 1, 2], 2), ([3, 4], None)]
        assert await numbers(ask, "skips") == [([0, 1], 2), ([2, 3], 4), ([4], None)]
        assert await numbers(ask, "cursors") == [([0, 1], "c2"), ([2, 3], "c4"), ([4], None)]
        assert (await ask.ok("pages"))["total"] == 5
        assert (await ask.ok("cursors"))["total"] == 5
        assert "total" not in await ask.ok("skips")
        assert (await ask.ok("pages", page=9)) == {"items": [], "total": 5}


async def test_links_are_followed_within_their_list_only(api: Loopback) -> None:
    links = [
        f'<{api.url}/v1/links?limit=2&token=a%20b&k={KEY}>; rel="next", <{api.url}/v1/links>; rel="first"',
        '</v1/links?token=c>; title="x"; rel=next',
        '<?token=d>;rel="last next"',
        '</v1/links?token=x>; rel="nextish", </v1/links?token=e>; title="a, b"; REL = "Next"',
        '<https://elsewhere.test/v1/others?token=e>; rel="next"',
    ]
    api.on("GET /v1/links", *(reply([{"id": n}], Link=link) for n, link in enumerate(links)))
    auth = {"kind": "query", "name": "k"}
    rows = table(api, {"links": {"path": "/links", "paging": "link"}}, paging={"link": LINK}, auth=auth)
    async with asking(rows) as ask:
        found = await numbers(ask, "links")
    assert [ids for ids, _ in found] == [[0], [1], [2], [3], [4]]
    assert [asked.query for asked in api.asked] == [
        {"limit": "2", "k": KEY},
        {"limit": "2", "token": "a b", "k": KEY},
        {"token": "c", "k": KEY},
        {"token": "d", "k": KEY},
        {"token": "e", "k": KEY},
    ]


def linked(api: Loopback, **more: Any) -> ApiDefinition:
    """Two lists whose next links have the query of the request."""

    def repeating(asked: Asked) -> Raw:
        _, _, query = asked.target.partition("?")
        return reply([{"id": 1}], Link=f'<{asked.path}?{query}&page=2>; rel="next"')

    api.on("GET /v1/links", repeating)
    api.on("GET /v1/others", repeating)
    tool: dict[str, Any] = {"paging": "link", "parameters": {"status": {}, "org": {}}, **more}
    tools = {"links": {"path": "/links", **tool}, "others": {"path": "/others", **tool}}
    return table(api, tools, paging={"link": LINK})


WRITTEN = [
    "status=closed",
    "org[]=evil",
    "ORG=evil",
    "%6Frg=evil",
    "org%5B%5D=evil",
    "admin=1",
    "status=open&page=2",
    "status=open&status=closed&page=2",
    "https://elsewhere.test/v1/links?status=closed",
    "?status=closed",
    "page=2#status=closed",
    "a b",
    "a\r\nb",
    "\u00fc",
    "AAAA",
]


@pytest.mark.parametrize(
    "more", [{}, {"all_pages": True, "parameters": {"cursor": {}}}], ids=["pages", "all"]
)
async def test_a_caller_cannot_write_a_link(api: Loopback, more: dict[str, Any]) -> None:
    arguments = {} if more else {"status": "open"}
    async with asking(linked(api, **more)) as ask:
        for cursor in WRITTEN:
            told = await ask.wrong("links", cursor=cursor, **arguments)
            assert told.startswith("'cursor' is not a cursor from this tool"), cursor
    assert api.asked == []


async def test_a_link_counts_only_for_the_call_that_got_it(api: Loopback) -> None:
    async with asking(linked(api, fixed={"scope": "public"})) as ask:
        first = (await ask.ok("links", status="open", limit=3))["next"]
        await ask.ok("links", limit=3, cursor=first, status="open")
        assert api.last.target == "/v1/links?status=open&limit=3&page=2&scope=public"
        asked = len(api.asked)
        for other in ({}, {"status": "closed"}, {"status": "open"}, {"status": "open", "limit": 2}):
            told = await ask.wrong("links", cursor=first, **other)
            assert told.startswith("'cursor' is from a call with other arguments"), other
        same = {"status": "open", "limit": 3}
        assert "other arguments" in await ask.wrong("links", cursor=first, org="evil", **same)
        assert "other arguments" in await ask.wrong("others", cursor=first, **same)
        for altered in (first[:-1], first + "A", first.swapcase(), first[::-1]):
            assert "not a cursor" in await ask.wrong("links", cursor=altered, **same)
    assert len(api.asked) == asked


async def test_links_are_followed_by_whoever_has_the_key_of_the_process_that_sealed_them(
    api: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = linked(api)
    async with asking(rows) as ask:
        alone = (await ask.ok("links", status="open"))["next"]
    async with asking(rows) as ask:
        assert "no longer valid" in await ask.wrong("links", status="open", cursor=alone)
    monkeypatch.setenv(KEY_VARIABLE, "the key of all replicas")
    async with asking(rows) as ask:
        shared = (await ask.ok("links", status="open"))["next"]
    async with asking(rows) as ask:
        await ask.ok("links", status="open", cursor=shared)
        assert api.last.query == {"status": "open", "limit": "2", "page": "2"}
    async with asking(replace(rows, base_url=f"{api.url}/v2")) as ask:
        assert "other arguments" in await ask.wrong("links", status="open", cursor=shared)


async def test_a_link_of_one_caller_is_none_of_another(api: Loopback) -> None:
    auth = {"kind": "bearer", "caller": ["authorization"]}
    server = build(replace(linked(api), auth=msgspec.convert(auth, Auth)), RestSettings())

    async def call(name: str, **arguments: str) -> Any:
        sent, message = modern("tools/call", {"name": "links", "arguments": arguments})
        return (await client.post({**sent, "authorization": f"Bearer {name}-0123456789"}, message)).result

    async with serving(server.asgi()) as client:
        cursor = (await call("alice", status="open"))["structuredContent"]["next"]
        assert "next" in (await call("alice", status="open", cursor=cursor))["structuredContent"]
        told = await call("bob", status="open", cursor=cursor)
        assert "other arguments" in told["content"][0]["text"]
    await server.close()
    assert len(api.asked) == 2


async def test_a_key_that_an_api_writes_into_its_links_goes_no_further(api: Loopback) -> None:
    link = f'</v1/links?filter[key]=x&token={KEY}&page=2>; rel="next"'
    api.on("GET /v1/links", reply([{"id": 1}], Link=link))
    rows = table(
        api,
        {"links": {"path": "/links", "paging": "link"}},
        paging={"link": LINK},
        auth={"kind": "bearer"},
    )
    async with asking(rows) as ask:
        await ask.ok("links", cursor=(await ask.ok("links"))["next"])
    assert api.last.target == "/v1/links?filter[key]=x&page=2"


async def test_a_position_or_size_that_makes_no_sense_is_refused_and_a_big_size_is_the_biggest(
    api: Loopback,
) -> None:
    api.on("GET /v1/things", reply([]))
    own = {"from": {"type": "number", "as": "page"}, "count": {"type": "number", "as": "limit"}}
    rows = table(api, {"list": {"path": "/things", "paging": "p", "parameters": own}}, paging={"p": PAGE})
    async with asking(rows) as ask:
        (listed,) = await ask.client.list_all("tools/list")
        assert list(listed["inputSchema"]["properties"]) == ["from", "count"]
        assert "`from`" in listed["outputSchema"]["properties"]["next"]["description"]
        for name, value in (("from", 0), ("from", -1), ("from", 1.5), ("count", 0), ("count", 0.5)):
            told = f"{name!r} must be a whole number, 1 or more."
            assert await ask.wrong("list", **{name: value}) == told
        assert api.asked == []
        await ask.ok("list", **{"from": 2.0, "count": 1000})
    assert api.last.query == {"page": "2", "limit": "3"}


async def test_paging_is_shown_to_the_model_unless_all_pages_are_read(api: Loopback) -> None:
    rows = table(
        api,
        {
            "some": {"path": "/a", "paging": "p", "parameters": {"q": {"description": "What"}}},
            "all": {"path": "/a", "paging": "p", "all_pages": True},
        },
        paging={"p": PAGE},
    )
    async with asking(rows) as ask:
        some, every = await ask.client.list_all("tools/list")
    assert list(some["inputSchema"]["properties"]) == ["q", "page", "limit"]
    assert some["inputSchema"]["properties"]["limit"]["maximum"] == 3
    assert "page" in some["outputSchema"]["properties"]["next"]["description"]
    assert every["inputSchema"]["properties"] == {}


async def test_all_pages_are_read_within_the_limit_and_what_is_missing_is_said(api: Loopback) -> None:
    api.on("GET /v1/pages", things(8, lambda items, *_: reply(items, X_Total_Items="8"), by_page))
    api.on("GET /v1/cursors", things(5, with_cursor, by_cursor))
    api.on("GET /v1/loop", reply({"meta": {"next": "same"}, "items": [{"id": 1}]}))
    rows = table(
        api,
        {
            "eight": {"path": "/pages", "paging": "wide", "all_pages": True},
            "seven": {"path": "/pages", "paging": "narrow", "all_pages": True},
            "five": {"path": "/cursors", "paging": "cursor", "all_pages": True, "result": {"items": "list"}},
            "loop": {"path": "/loop", "paging": "cursor", "all_pages": True, "result": {"items": "items"}},
        },
        paging={
            "wide": {**PAGE, "total_header": "x-total-items"},
            "narrow": {**PAGE, "total_header": "x-total-items", "most_items": 7},
            "cursor": CURSOR,
        },
    )
    said: list[Any] = []
    async with asking(rows) as ask:
        eight = await ask.ok("eight")
        assert [item["id"] for item in eight["items"]] == list(range(8))
        assert eight["total"] == 8
        assert "truncated" not in eight
        seven = await ask.ok("seven")
        assert [item["id"] for item in seven["items"]] == list(range(7))
        assert (seven["total"], seven["truncated"]) == (8, True)
        assert [item["id"] for item in (await ask.ok("five"))["items"]] == list(range(5))
        assert len((await ask.ok("loop"))["items"]) == 2
        await ask.client.call_tool("eight", on_progress=lambda progress: said.append(progress.progress))
    assert said == [3, 6]


@pytest.mark.parametrize("kind", ["cursor", "link"])
async def test_parts_that_lead_round_in_a_circle_come_to_an_end(api: Loopback, kind: str) -> None:
    def circling(asked: Asked) -> Raw:
        there = "b" if asked.query.get("after") == "a" else "a"
        link: dict[str, Any] = {"Link": f'</v1/circle?after={there}>; rel="next"'} if kind == "link" else {}
        return reply({"items": [], "meta": {"next": there}}, **link)

    api.on("GET /v1/circle", circling)
    tool = {"path": "/circle", "paging": kind, "all_pages": True, "result": {"items": "items"}}
    async with asking(table(api, {"circle": tool}, paging={"cursor": CURSOR, "link": LINK})) as ask:
        found = await ask.ok("circle")
    assert found["items"] == []
    assert found["truncated"] is True
    assert len(api.asked) == MAX_PAGES


async def test_filters_that_the_api_does_not_have_count_what_is_kept(api: Loopback) -> None:
    names = ["Ärger", "Anfrage", "ärgerlich", "Sonst", "Vorfall"]

    def page(asked: Asked) -> Raw:
        begin = by_page(asked)
        whole = [{"id": n, "name": name, "area": {"id": n % 2}} for n, name in enumerate(names)]
        return reply(whole[begin : begin + int(asked.query["limit"])])

    api.on("GET /v1/items", page)
    row = {
        "path": "/items",
        "paging": "p",
        "parameters": {"search": {}, "area_id": {"type": "integer"}},
        "filters": {"search": ["name", "area.name"], "area_id": ["area.id"]},
        "result": {"rich": ["id"]},
    }
    async with asking(table(api, {"find": row}, paging={"p": PAGE})) as ask:
        assert await ask.ok("find", search="ARGER") == {"items": [{"id": 0}, {"id": 2}], "total": 2}
        assert [asked.query for asked in api.asked] == [
            {"limit": "3", "page": "1"},
            {"limit": "3", "page": "2"},
        ]
        assert await ask.ok("find", area_id=0, limit=2) == {
            "items": [{"id": 0}, {"id": 2}],
            "total": 3,
            "next": 2,
        }
        assert await ask.ok("find", area_id=0, limit=2, page=2) == {"items": [{"id": 4}], "total": 3}
        assert await ask.ok("find", area_id=1, search="o") == {"items": [{"id": 3}], "total": 1}
        assert (await ask.ok("find"))["next"] == 2


TICKET = {
    "id": 1,
    "title": "T",
    "desk": {"id": 2, "name": "D", "secret": 3},
    "entities": [{"name": "E", "fields": [{"name": "F", "value": 1}]}],
    "other": 4,
}


async def test_what_is_kept_of_a_reply_depends_on_the_verbosity(api: Loopback) -> None:
    api.on("GET /v1/ticket", reply({"ticket": TICKET}))
    api.on("GET /v1/tickets", reply({"data": {"list": [TICKET, TICKET]}}))
    kept = {"rich": ["id", "desk.name", "entities.fields.name", "gone.away"], "compact": ["id"]}
    rich = {"id": 1, "desk": {"name": "D"}, "entities": [{"fields": [{"name": "F"}]}]}
    rows = table(
        api,
        {
            "one": {"path": "/ticket", "result": {"unwrap": "ticket", **kept}},
            "many": {"path": "/tickets", "result": {"unwrap": "data", "items": "list", **kept}},
            "all": {"path": "/ticket", "result": {"unwrap": "ticket"}},
            "asked": {
                "path": "/ticket",
                "parameters": {"details": {"type": "boolean", "in": "none"}},
                "result": {"unwrap": "ticket", "details": "details", **kept},
            },
        },
    )
    for verbosity, expected in (("rich", rich), ("compact", {"id": 1})):
        settings = RestSettings(verbosity=verbosity)  # pyright: ignore[reportArgumentType]
        async with asking(rows, settings) as ask:
            assert await ask.ok("one") == {"data": expected}
            assert await ask.ok("many") == {"items": [expected, expected]}
            assert await ask.ok("all") == {"data": TICKET}
            assert await ask.ok("asked") == {"data": expected}
            assert await ask.ok("asked", details=True) == {"data": TICKET}


@pytest.mark.parametrize("answer", [reply(None, 204), reply(b"  ", 200), reply(None, 200)])
async def test_a_reply_without_content_is_said_in_a_sentence(api: Loopback, answer: Raw) -> None:
    api.on("PUT /v1/things/5/close", answer)
    close = {"method": "PUT", "path": "/things/{id}/close", "parameters": {"id": {"type": "integer"}}}
    said = {**close, "result": {"said": "Thing {id} was closed"}}
    async with asking(table(api, {"close": said, "end": close})) as ask:
        assert await ask.ok("close", id=5) == {"message": "Thing 5 was closed"}
        result = await ask.result("end", id=5)
    assert (result["structuredContent"], result["content"][0]["text"]) == ({"message": "Done."}, "Done.")


async def test_one_more_request_stands_beside_the_first_when_it_is_asked_for(api: Loopback) -> None:
    def report(asked: Asked) -> Raw:
        return reply({"from": asked.query["start"], "others": sorted(set(asked.query) - {"start"})})

    api.on("GET /v1/report", report)
    row = {
        "path": "/report",
        "parameters": {"start": {"required": True}, "compare_start": {}},
        "also": {"previous": {"when": ["compare_start"], "replace": {"start": "compare_start"}}},
    }
    async with asking(table(api, {"report": row})) as ask:
        one, two = ({"data": {"from": day, "others": []}} for day in ("b", "a"))
        assert await ask.ok("report", start="b", compare_start="a") == {"current": one, "previous": two}
        assert await ask.ok("report", start="b") == {"current": one}


async def test_a_tool_with_an_output_schema_answers_with_the_object_itself(api: Loopback) -> None:
    api.on("GET /v1/thing", reply({"id": 1}), reply({"id": "x"}))
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    async with asking(table(api, {"get": {"path": "/thing", "output": schema}})) as ask:
        assert await ask.ok("get") == {"id": 1}
        assert "'id'" in await ask.wrong("get")


async def test_a_byte_order_mark_before_json_does_no_harm(api: Loopback) -> None:
    api.on("GET /v1/thing", reply(b'\xef\xbb\xbf{"id": 1}'))
    async with asking(table(api, {"get": {"path": "/thing"}})) as ask:
        assert await ask.ok("get") == {"data": {"id": 1}}


async def test_text_is_handed_on_as_text(api: Loopback) -> None:
    api.on("GET /v1/text", reply("Grüße".encode(), kind="text/plain; charset=utf-8"))
    async with asking(table(api, {"get": {"path": "/text"}})) as ask:
        assert await ask.ok("get") == {"data": "Grüße"}
