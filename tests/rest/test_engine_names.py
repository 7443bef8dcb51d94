"""Names in the place of ids: found in the API's own lists, or refused with what there is."""

from typing import Any

import pytest

from tests.rest.asking import asking, table
from tests.rest.loopback import Asked, Loopback, Raw, reply
from toolyard.rest.definition.model import ApiDefinition
from toolyard.rest.server import RestSettings

DESKS = [
    {"id": 1, "name": "Suporte", "display_name": "Help"},
    {"id": 2, "name": "Técnico", "display_name": "Tech"},
    {"id": 3, "name": "Suporte 2"},
    {"id": 4, "name": "Twin"},
    {"id": 5, "name": "twin"},
]
LOOKUPS = {
    "desk": {
        "path": "/desks",
        "query": {"name": "{name}", "active": True, "limit": 200},
        "match": ["name", "display_name"],
        "what": "desk",
    },
    "stage": {"path": "/desks/{desk_id}/stages", "items": "stages", "what": "stage"},
    "stage_of": {"path": "/desks/{desk_ids}/stages", "items": "stages", "what": "stage"},
    "like": {"path": "/desks", "several": True, "what": "desk"},
}


class Settings(RestSettings, frozen=True, kw_only=True):
    default_desk_id: int = 0


def rows(api: Loopback) -> ApiDefinition:
    api.on("GET /v1/desks", reply(DESKS))
    for desk in range(1, 6):
        api.on(f"GET /v1/desks/{desk}/stages", reply({"stages": [{"id": desk * 10, "name": "Aberto"}]}))
    api.on("GET /v1/tickets", lambda asked: reply(asked.query))
    names: dict[str, Any] = {
        "desk_id": {"type": "integer", "setting": "default_desk_id"},
        "stage_id": {"type": "integer"},
        "stage_name": {"lookup": "stage", "gives": "stage_id"},
        "desk_name": {"lookup": "desk", "gives": "desk_id"},
    }
    several: dict[str, Any] = {
        "desk_ids": {"ids": 3},
        "stage_ids": {"ids": 3},
        "desk_names": {"lookup": "desk", "gives": "desk_ids"},
        "desk_query": {"lookup": "like", "gives": "desk_ids"},
        "stage_name": {"lookup": "stage_of", "gives": "stage_ids"},
    }
    tools = {
        "one": {"path": "/tickets", "parameters": names},
        "many": {"path": "/tickets", "parameters": several},
    }
    return table(api, tools, lookups=LOOKUPS)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"desk_name": "Suporte"}, {"desk_id": "1"}),
        ({"desk_name": "  suporte  2 "}, {"desk_id": "3"}),
        ({"desk_name": "TECNICO"}, {"desk_id": "2"}),
        ({"desk_name": "help"}, {"desk_id": "1"}),
        ({"desk_name": "ecnic"}, {"desk_id": "2"}),
        ({"desk_name": "Suporte", "desk_id": 9}, {"desk_id": "9"}),
        ({"desk_name": "   "}, {}),
        ({"desk_name": "Técnico", "stage_name": "aberto"}, {"desk_id": "2", "stage_id": "20"}),
        ({"desk_id": 4, "stage_name": "aberto"}, {"desk_id": "4", "stage_id": "40"}),
    ],
)
async def test_a_name_becomes_the_id_of_the_one_that_has_it(
    api: Loopback, given: dict[str, Any], sent: dict[str, str]
) -> None:
    async with asking(rows(api)) as ask:
        assert await ask.ok("one", **given) == {"data": sent}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"desk_name": "Vendas"}, ["no desk", "'Vendas'", "Suporte (1)", "Técnico (2)"]),
        ({"desk_name": "\u0301"}, ["no desk"]),
        ({"desk_name": "Twin"}, ["Several", "Twin (4)", "twin (5)"]),
        ({"desk_name": "up"}, ["Several", "Suporte (1)", "Suporte 2 (3)"]),
        ({"stage_name": "Aberto"}, ["stage", "'Aberto'", "'desk_id'"]),
        ({"desk_name": "Técnico", "stage_name": "Fechado"}, ["no stage", "Aberto (20)"]),
    ],
)
async def test_a_name_that_is_not_the_name_of_one_is_refused_with_what_there_is(
    api: Loopback, given: dict[str, Any], words: list[str]
) -> None:
    async with asking(rows(api)) as ask:
        text = await ask.wrong("one", **given)
    assert all(word in text for word in words), text
    assert all(asked.path != "/v1/tickets" for asked in api.asked)


async def test_the_list_is_asked_for_the_name_and_in_portuguese_the_answer_is(api: Loopback) -> None:
    async with asking(rows(api), RestSettings(locale="pt")) as ask:
        assert "Não há desk com o nome 'a&b'" in await ask.wrong("one", desk_name="a&b")
    assert api.last.query == {"name": "a&b", "active": "true", "limit": "200"}


async def test_a_setting_says_where_to_look_when_the_caller_does_not(api: Loopback) -> None:
    async with asking(rows(api), Settings(default_desk_id=5)) as ask:
        assert await ask.ok("one", stage_name="Aberto") == {"data": {"desk_id": "5", "stage_id": "50"}}
        sent = {"desk_id": "2", "stage_id": "20"}
        assert await ask.ok("one", stage_name="Aberto", desk_name="Técnico") == {"data": sent}


async def test_lists_of_ids_are_found_by_several_names(api: Loopback) -> None:
    async with asking(rows(api)) as ask:
        assert await ask.ok("many", desk_names="suporte, Técnico,suporte") == {"data": {"desk_ids": "1,2"}}
        assert await ask.ok("many", desk_query="suporte") == {"data": {"desk_ids": "1,3"}}
        assert "no desk" in await ask.wrong("many", desk_query="zzz")
        found = {"desk_ids": "2", "stage_ids": "20"}
        assert await ask.ok("many", desk_names="Técnico", stage_name="Aberto") == {"data": found}
        assert "exactly one" in await ask.wrong("many", desk_ids="1,2", stage_name="Aberto")
        assert "3 ids at most" in await ask.wrong("many", desk_query="t")


NO_LIST = "'Suporte' cannot be looked up: the API did not answer with a list of objects that have 'name', "


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (reply({"not": "a list"}), NO_LIST),
        (reply([1, None, "Suporte"]), NO_LIST),
        (reply([{"id": 7}]), NO_LIST),
        (reply(None, 204), "There is no desk called 'Suporte'."),
        (reply([]), "There is no desk called 'Suporte'."),
        (reply([1, {"id": 7}, {"id": 8, "display_name": "Help"}]), "There are: Help (8)."),
        (reply([{"name": "Suporte"}]), "'Suporte' exists, but the API does not give its 'id'"),
    ],
)
async def test_a_list_that_cannot_be_used_is_told_as_that(api: Loopback, answer: Raw, told: str) -> None:
    whole = rows(api)
    api.on("GET /v1/desks", answer)
    async with asking(whole) as ask:
        text = await ask.wrong("one", desk_name="Suporte")
        assert told in text
        assert "Several" not in text
        assert "()" not in text
        assert "()" not in await ask.wrong("many", desk_query="Suporte")


async def test_of_two_with_the_name_the_one_with_an_id_is_not_preferred(api: Loopback) -> None:
    whole = rows(api)
    api.on("GET /v1/desks", reply([{"name": "Suporte"}, {"id": 3, "name": "SUPORTE"}]))
    async with asking(whole) as ask:
        text = await ask.wrong("one", desk_name="Suporte")
        assert "Several" in text
        assert "Suporte (?), SUPORTE (3)" in text
        assert await ask.ok("many", desk_query="Suporte") == {"data": {"desk_ids": "3"}}


async def test_a_list_that_is_not_there_is_empty(api: Loopback) -> None:
    whole = rows(api)
    api.on("GET /v1/desks/1/stages", reply({"stages": None}), reply({}), reply({"stages": 3}))
    async with asking(whole) as ask:
        for _ in range(2):
            assert "no stage" in await ask.wrong("one", desk_id=1, stage_name="Aberto")
        assert "list of objects" in await ask.wrong("one", desk_id=1, stage_name="Aberto")


async def test_an_item_that_is_on_two_pages_is_one(api: Loopback) -> None:
    whole = rows(api)
    api.on("GET /v1/desks", reply([*DESKS[:2], DESKS[1]]))
    async with asking(whole) as ask:
        assert await ask.ok("one", desk_name="Técnico") == {"data": {"desk_id": "2"}}


def paged(api: Loopback, people: list[str], most_items: int = 6) -> ApiDefinition:
    """People in pages of two."""

    def page(asked: Asked) -> Raw:
        begin = (int(asked.query["page"]) - 1) * int(asked.query["size"])
        found = [{"id": begin + n, "name": name} for n, name in enumerate(people[begin : begin + 2], 1)]
        return reply({"people": found}, X_Total=str(len(people)))

    api.on("GET /v1/teams/7/people", page)
    api.on("GET /v1/tickets", lambda asked: reply(asked.query))
    pages = {"kind": "page", "position": "page", "first": 1, "size": "size", "most": 2, "default": 2}
    person = {"path": "/teams/{team}/people", "query": {"q": "{name}"}, "items": "people", "paging": "pages"}
    parameters: dict[str, Any] = {
        "team": {"type": "integer", "in": "none"},
        "id": {"type": "integer"},
        "ids": {"ids": 9},
        "name": {"lookup": "person", "gives": "id"},
        "like": {"lookup": "people", "gives": "ids"},
    }
    return table(
        api,
        {"find": {"path": "/tickets", "parameters": parameters}},
        paging={"pages": {**pages, "total_header": "X-Total", "most_items": most_items}},
        lookups={"person": {**person, "what": "person"}, "people": {**person, "several": True}},
    )


async def test_a_name_is_looked_for_on_every_page_of_a_list(api: Loopback) -> None:
    async with asking(paged(api, ["Ana", "Bia", "Bia Lima", "Rui", "Zoé"])) as ask:
        assert await ask.ok("find", team=7, name="zoe") == {"data": {"id": "5"}}
        pages = [asked.query for asked in api.asked[:-1]]
        assert pages == [{"q": "zoe", "size": "2", "page": str(page)} for page in (1, 2, 3)]
        assert await ask.ok("find", team=7, name="bia") == {"data": {"id": "2"}}
        assert await ask.ok("find", team=7, name="zo") == {"data": {"id": "5"}}
        assert await ask.ok("find", team=7, like="bia") == {"data": {"ids": "2,3"}}
        assert "Several" in await ask.wrong("find", team=7, name="i")


async def test_the_same_name_on_two_pages_is_not_the_name_of_one(api: Loopback) -> None:
    async with asking(paged(api, ["Ana", "Bia", "ana"])) as ask:
        text = await ask.wrong("find", team=7, name="Ana")
    assert "Ana (1), ana (3)" in text


async def test_a_list_that_ends_on_its_first_page_is_one_request(api: Loopback) -> None:
    async with asking(paged(api, ["Ana", "Bia"])) as ask:
        await ask.ok("find", team=7, name="Ana")
    assert [asked.path for asked in api.asked] == ["/v1/teams/7/people", "/v1/tickets"]


async def test_of_a_list_that_is_too_long_only_the_name_itself_is_taken(api: Loopback) -> None:
    people = ["Ana", "Bia Lima", "Rui", "Zoé", "Bia Luz"]
    async with asking(paged(api, people, most_items=4)) as ask:
        assert await ask.ok("find", team=7, name="rui") == {"data": {"id": "3"}}
        text = await ask.wrong("find", team=7, name="bia")
        assert all(word in text for word in ("person is 'bia'", "first 4", "the id", "Bia Lima (2)")), text
        assert "first 4" in await ask.wrong("find", team=7, name="Bia Luz")
        assert "first 4" in await ask.wrong("find", team=7, like="rui")


async def test_a_look_up_that_fails_is_told_like_any_request(api: Loopback) -> None:
    whole = rows(api)
    api.on("GET /v1/desks", reply({"message": "no"}, 403))
    async with asking(whole) as ask:
        assert "403" in await ask.wrong("one", desk_name="Suporte")


async def test_hostile_names_in_a_list_are_shown_short_and_in_one_line(api: Loopback) -> None:
    whole = rows(api)
    api.on("GET /v1/desks", reply([{"id": n, "name": f"x\n{'y' * 500}\u202e{n}"} for n in range(50)]))
    async with asking(whole) as ask:
        text = await ask.wrong("one", desk_name="z" * 500)
    assert len(text) < 1500
    assert "\n" not in text
    assert "\u202e" not in text
