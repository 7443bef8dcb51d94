"""Answers of many values: what they may cost, and that they hold nobody else up."""

import asyncio
from typing import Any

import pytest

from tests.rest.asking import asking, table
from tests.rest.loopback import Asked, Loopback, Raw, reply
from toolyard.rest.response.result import BIG, MAX_VALUES
from toolyard.rest.server import RestSettings

PAGE = {"kind": "page", "position": "page", "first": 1, "size": "limit", "default": 2, "most": 3}
TOLD = f"The API's response has more than {MAX_VALUES} values. Ask for less: "


def listed(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


async def test_an_answer_of_too_many_values_is_refused_before_it_is_decoded(api: Loopback) -> None:
    numbers, texts = listed(b"1", MAX_VALUES + 1), b'"\\\\","\\",[",'
    bodies = [
        listed(b"[]", MAX_VALUES // 2 + 1),
        b'{"items":' + listed(b'{"a":{}}', MAX_VALUES // 3 + 1) + b"}",
        b"[" + texts * 100_000 + numbers + b"]",
    ]
    api.on("GET /v1/things", *(reply(body) for body in (*bodies, bodies[0])))
    api.on("GET /v1/failure", reply(bodies[0], 400))
    rows = table(
        api,
        {
            "list": {"path": "/things", "result": {"items": "items"}},
            "whole": {"path": "/things", "paging": "p", "all_pages": True},
            "failure": {"path": "/failure"},
        },
        paging={"p": PAGE},
    )
    async with asking(rows) as ask:
        for _ in bodies:
            assert (await ask.wrong("list")).startswith(TOLD)
        assert (await ask.wrong("whole")).startswith(TOLD)
        assert await ask.wrong("failure") == "The API refused the request (400)."


async def test_a_long_text_is_one_value_whatever_is_in_it(api: Loopback) -> None:
    cells = "\"a,[b',{\\\n" * (MAX_VALUES // 4)
    api.on("GET /v1/csv", reply(cells.encode(), kind="text/csv"))
    api.on("GET /v1/json", reply({"text": cells}), reply(b'["' + b'\\",' * (MAX_VALUES + 1)))
    async with asking(table(api, {"csv": {"path": "/csv"}, "json": {"path": "/json"}})) as ask:
        assert (await ask.ok("csv"))["data"] == cells
        assert (await ask.ok("json"))["data"]["text"] == cells
        assert "its JSON is damaged" in await ask.wrong("json")


ITEM = {"a": 1, "b": {"c": "text%20", "d": [1, 2]}}
COUNT = 8_000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("list", {}), ("nested", {}), ("filtered", {"c": "text"}), ("looked_up", {"name": "text"})],
)
async def test_others_go_on_while_the_values_of_an_answer_are_looked_at(
    api: Loopback, tool: str, arguments: dict[str, str]
) -> None:
    turns = 0
    done = asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    def answering(asked: Asked) -> Raw:
        running.append(asyncio.create_task(others()))
        return reply([ITEM] * COUNT)

    running: list[asyncio.Task[None]] = []
    api.on("GET /v1/things", answering)
    api.on("GET /v1/chosen", reply([]))
    fields = {"rich": ["a", "b.c"]}
    rows = table(
        api,
        {
            "list": {"path": "/things", "result": fields},
            "nested": {"path": "/things", "result": {"items": "none", **fields}},
            "filtered": {"path": "/things", "parameters": {"c": {}}, "filters": {"c": ["b.c"]}},
            "looked_up": {
                "path": "/chosen",
                "parameters": {"id": {}, "name": {"lookup": "thing", "gives": "id"}},
            },
        },
        lookups={"thing": {"path": "/things", "match": ["b.c"], "id": "a"}},
        auth={"kind": "bearer"},
    )
    # A key that may be escaped in the answer, so that every text of it is looked at.
    async with asking(rows, RestSettings(api_key="own%key")) as ask:
        await ask.ok(tool, **arguments)
        done.set()
        await asyncio.wait(running)
    # Reading the answer takes some; looking at its values took one.
    assert turns > 100


async def test_whole_lists_end_where_they_have_too_many_values(api: Loopback) -> None:
    page = reply([list(range(MAX_VALUES * 2 // 5))] * 1)
    api.on("GET /v1/things", page)
    tool = {"path": "/things", "paging": "p", "all_pages": True}
    async with asking(table(api, {"all": tool}, paging={"p": {**PAGE, "most": 1, "default": 1}})) as ask:
        found = await ask.ok("all")
    assert (len(found["items"]), found["truncated"]) == (2, True)
    assert len(api.asked) == 3


async def test_whole_lists_end_where_they_have_too_much_text(api: Loopback) -> None:
    api.on("GET /v1/things", reply(["x" * 1000]))
    tool = {"path": "/things", "paging": "p", "all_pages": True}
    paging = {"p": {**PAGE, "most": 1, "default": 1}}
    async with asking(table(api, {"all": tool}, paging=paging, max_reply=1100)) as ask:
        found = await ask.ok("all")
    assert (len(found["items"]), found["truncated"]) == (4, True)


async def test_names_take_no_more_than_their_length(api: Loopback) -> None:
    marks = "a" + "\u0315\u0300" * 200_000
    api.on("GET /v1/things", reply([{"id": 1, "name": marks}, {"id": 2, "name": "b"}]))
    api.on("GET /v1/many", reply([{"id": str(number), "name": "b"} for number in range(100_000)]))
    api.on("GET /v1/chosen", lambda asked: reply(asked.query))
    named: dict[str, Any] = {
        "id": {"ids": 3},
        "name": {"lookup": "thing", "gives": "id"},
        "many": {"lookup": "many", "gives": "id"},
    }
    lookups = {"thing": {"path": "/things"}, "many": {"path": "/many", "several": True}}
    rows = table(api, {"get": {"path": "/chosen", "parameters": named}}, lookups=lookups)
    async with asking(rows) as ask:
        assert (await ask.ok("get", name=marks))["data"] == {"id": "1"}
        assert "100000" in await ask.wrong("get", many="B")


async def test_a_long_failure_is_cut_before_it_is_made_a_line(api: Loopback) -> None:
    api.on("GET /v1/thing", reply({"message": "\u200b" * BIG + "x " * 1_000_000 + "own-key-0123456789"}, 400))
    async with asking(table(api, {"get": {"path": "/thing"}}, auth={"kind": "bearer"})) as ask:
        told = await ask.wrong("get")
    assert told == "The API refused the request (400). …"
