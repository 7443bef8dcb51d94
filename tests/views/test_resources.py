"""Prompts, resources and completions of several servers at one address."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from tests.app.speaker import Exchange, Json, Speaker, speaking, tool
from tests.app.yard import at, yard
from tests.serving import PREFIX

UPDATED = "notifications/resources/updated"


class Library(Speaker):
    """A server with prompts, resources and templates, that says whose answer it is."""

    def __init__(self, name: str, era: str = "modern", **lists: list[Json]) -> None:
        super().__init__(era)
        self.name = name
        self.capabilities |= {
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {},
            "completions": {},
        }
        self.lists: dict[str, list[Json]] = {"resources": [], "templates": [], "prompts": [], **lists}
        self.subscribed: list[str] = []
        self.on |= {
            "resources/list": self._resources,
            "resources/templates/list": self._templates,
            "prompts/list": self._prompts,
            "resources/read": self._read,
            "prompts/get": self._get,
            "completion/complete": self._complete,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    async def _resources(self, exchange: Exchange) -> None:
        await exchange.result({"resources": self.lists["resources"]})

    async def _templates(self, exchange: Exchange) -> None:
        await exchange.result({"resourceTemplates": self.lists["templates"]})

    async def _prompts(self, exchange: Exchange) -> None:
        await exchange.result({"prompts": self.lists["prompts"]})

    async def _read(self, exchange: Exchange) -> None:
        uri = exchange.params["uri"]
        if "missing" in uri:
            await exchange.error(-32602, "no such thing", 400, {"uri": uri})
        else:
            await exchange.result({"contents": [{"uri": uri, "text": f"{self.name} has {uri}"}]})

    async def _get(self, exchange: Exchange) -> None:
        words = {"type": "text", "text": f"{self.name} says {exchange.name}"}
        await exchange.result({"messages": [{"role": "user", "content": words}]})

    async def _complete(self, exchange: Exchange) -> None:
        ref = exchange.params["ref"]
        await exchange.result({"completion": {"values": [self.name, ref.get("name") or ref["uri"]]}})

    async def _subscribe(self, exchange: Exchange) -> None:
        self.subscribed.append(exchange.params["uri"])
        await exchange.result({})

    async def _unsubscribe(self, exchange: Exchange) -> None:
        self.subscribed.remove(exchange.params["uri"])
        await exchange.result({})

    async def update(self, uri: str) -> None:
        """Tell those who want to know: in the legacy era the session, in the modern one each listener."""
        for listener in list(self.listeners):
            mark = {"_meta": {PREFIX + "subscriptionId": listener.id}} if listener.is_modern else {}
            wanted = listener.params["notifications"] if listener.is_modern else {}
            if not listener.is_modern or uri in wanted.get("resourceSubscriptions", []):
                await listener.notify(UPDATED, {"uri": uri, **mark})


def resource(uri: str) -> Json:
    return {"uri": uri, "name": uri}


def template(uri: str) -> Json:
    return {"uriTemplate": uri, "name": uri}


NOTES = [resource("notes://today")]


def two(**lists: Any) -> tuple[Library, Library]:
    return Library("first", **lists), Library("second", **lists)


async def read(front: Any, uri: str, path: str = "/mcp") -> Any:
    return (await front.modern("resources/read", {"uri": uri}, path)).result["contents"][0]


async def test_of_two_resources_with_one_address_the_first_has_it_and_the_other_is_listed_as_its_servers():
    first, second = two(resources=NOTES)
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        listed = (await front.modern("resources/list")).result["resources"]
        assert [item["uri"] for item in listed] == ["notes://today", "toolyard://b/notes%3A%2F%2Ftoday"]
        assert (await read(front, "notes://today"))["text"] == "first has notes://today"
    assert not second.heard("resources/read")


async def test_the_other_one_can_be_read_by_the_name_of_its_server():
    first, second = two(resources=NOTES)
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b c")) as front:
        await front.tools()
        uri = f"toolyard://b%20c/{quote('notes://today', safe='')}"
        assert (await read(front, uri))["text"] == "second has notes://today"
        assert (await read(front, "notes://today", "/mcp/b%20c"))["text"] == "second has notes://today"


async def test_an_address_of_no_list_is_asked_of_those_with_its_scheme_and_shown_to_nobody_else():
    first, second = Library("first"), Library("second", resources=[resource("found://one")])
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        await front.tools()
        assert (await read(front, "found://in/a/result"))["text"] == "second has found://in/a/result"
        unknown = await front.modern("resources/read", {"uri": "crm://customers/17?token=secret"})
        assert unknown.error["code"] == -32602
        asked = await read(front, f"toolyard://a/{quote('crm://customers/17', safe='')}")
        assert asked["text"] == "first has crm://customers/17"
    assert [item.params["uri"] for item in first.heard("resources/read")] == ["crm://customers/17"]


async def test_an_address_of_no_list_is_asked_of_the_only_server_with_resources():
    library = Library("only")
    async with (
        speaking(Speaker("modern")) as a,
        speaking(library) as b,
        yard(at(a, "a"), at(b, "b")) as front,
    ):
        await front.tools()
        assert (await read(front, "found://in/a/result"))["text"] == "only has found://in/a/result"


async def test_an_address_that_fits_a_template_goes_to_its_server():
    first = Library("first", templates=[template("files:///{path}")])
    second = Library("second", templates=[template("rows://{table}/{id}")])
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        await front.tools()
        assert (await read(front, "rows://users/7"))["text"] == "second has rows://users/7"
        assert (await read(front, "files:///readme"))["text"] == "first has files:///readme"
    assert len(first.heard("resources/read")) == len(second.heard("resources/read")) == 1


async def test_a_missing_resource_is_told_in_the_words_of_each_era():
    async with speaking(Library("only")) as a, yard(at(a)) as front:
        await front.tools()
        modern = (await front.modern("resources/read", {"uri": "x://missing"})).error
        assert modern["code"] == -32602
        session = await front.legacy()
        legacy = (await session.request("resources/read", {"uri": "x://missing"})).error
        assert legacy["code"] == -32002
        assert legacy["data"] == {"uri": "x://missing"}


async def test_a_resource_is_read_before_anybody_lists():
    async with speaking(Library("only", resources=NOTES)) as a, yard(at(a)) as front:
        assert (await read(front, "notes://today"))["text"] == "only has notes://today"


async def test_prompts_of_the_same_name_are_told_apart_and_renamed_ones_are_found():
    first, second = two(prompts=[{"name": "greet"}])
    async with (
        speaking(first) as a,
        speaking(second) as b,
        yard(at(a, "a"), at(b, "b", rename={"greet": "hail"})) as front,
    ):
        listed = (await front.modern("prompts/list")).result["prompts"]
        assert [item["name"] for item in listed] == ["mcp__a__greet", "mcp__b__hail"]
        got = (await front.modern("prompts/get", {"name": "mcp__b__hail"})).result
        assert got["messages"][0]["content"]["text"] == "second says greet"
        gone = await front.modern("prompts/get", {"name": "mcp__b__greet"})
        assert gone.error["code"] == -32602
        bare = (await front.modern("prompts/get", {"name": "hail"}, "/mcp/b")).result
        assert bare["messages"][0]["content"]["text"] == "second says greet"


async def complete(front: Any, ref: Json, path: str = "/mcp") -> Any:
    params = {"ref": ref, "argument": {"name": "x", "value": ""}}
    return (await front.modern("completion/complete", params, path)).result["completion"]["values"]


async def test_completions_find_their_server_through_names_and_templates():
    first = Library("first", templates=[template("files:///{path}")], prompts=[{"name": "greet"}])
    second = Library("second", templates=[template("rows://{table}")], prompts=[{"name": "greet"}])
    async with (
        speaking(first) as a,
        speaking(second) as b,
        yard(at(a, "a"), at(b, "b", rename={"greet": "hail"})) as front,
    ):
        await front.tools()
        assert await complete(front, {"type": "ref/prompt", "name": "mcp__b__hail"}) == ["second", "greet"]
        assert await complete(front, {"type": "ref/prompt", "name": "mcp__a__greet"}) == ["first", "greet"]
        assert await complete(front, {"type": "ref/prompt", "name": "hail"}, "/mcp/b") == ["second", "greet"]
        rows = {"type": "ref/resource", "uri": "rows://{table}"}
        assert await complete(front, rows) == ["second", "rows://{table}"]
        alias = {"type": "ref/resource", "uri": f"toolyard://a/{quote('files:///{path}', safe='')}"}
        assert await complete(front, alias) == ["first", "files:///{path}"]


async def test_a_reference_of_an_unknown_kind_is_refused():
    async with speaking(Library("only")) as a, yard(at(a)) as front:
        await front.tools()
        params = {"ref": {"type": "ref/else"}, "argument": {"name": "x", "value": ""}}
        assert (await front.modern("completion/complete", params)).error["code"] == -32602


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_updates_reach_who_subscribed_in_either_era_and_nobody_else(era: str):
    library = Library("only", era, resources=[resource("notes://today"), resource("notes://other")])
    async with speaking(library) as a, yard(at(a)) as front:
        await front.tools()
        await library.until_listened()
        session = await front.legacy()
        legacy = await session.listen()
        assert (await session.request("resources/subscribe", {"uri": "notes://today"})).result == {}
        modern = await front.listen(resourceSubscriptions=["notes://today"])
        if era == "modern":
            await library.until_listened(3)
        await library.update("notes://other")
        await library.update("notes://today")
        for line in (modern, legacy):
            told = await line.next_message()
            assert told["method"] == UPDATED
            assert told["params"]["uri"] == "notes://today"


async def test_a_legacy_server_is_subscribed_once_for_all_and_let_go_by_the_last():
    library = Library("only", "legacy", resources=NOTES)
    async with speaking(library) as a, yard(at(a)) as front:
        await front.tools()
        lines = [await front.listen(resourceSubscriptions=["notes://today"]) for _ in range(3)]
        assert library.subscribed == ["notes://today"]
        for line in lines[:2]:
            line.hang_up()
        assert library.subscribed == ["notes://today"]
        lines[2].hang_up()
        await library.until(lambda: not library.subscribed)
    assert len(library.heard("resources/subscribe")) == 1


async def test_what_no_server_offers_is_not_offered():
    async with speaking(Speaker("modern")) as a, yard(at(a)) as front:
        discovered = (await front.modern("server/discover")).result
        assert set(discovered["capabilities"]) == {"tools"}
    async with speaking(Library("only")) as a, yard(at(a)) as front:
        discovered = (await front.modern("server/discover")).result
        assert {"tools", "resources", "prompts", "completions"} <= set(discovered["capabilities"])


# One address, two servers


async def test_an_address_belongs_to_the_first_in_the_configuration_and_not_to_the_first_to_answer():
    first, second = two(resources=NOTES)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(exchange: Exchange) -> bool:
        if exchange.method == "resources/list":
            asked.set()
            await answer.wait()
        return False

    first.before = late
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        await asked.wait()
        await front.until_health(lambda health: health["servers"]["b"]["state"] == "up")
        reading = asyncio.create_task(read(front, "notes://today"))
        answer.set()
        assert (await reading)["text"] == "first has notes://today"


async def test_a_server_that_is_connected_anew_keeps_its_place():
    first, second = two(resources=NOTES)
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        assert await addresses(front) == ["notes://today", "toolyard://b/notes%3A%2F%2Ftoday"]
        config = front.gateway.config
        servers = (at(a, "a", max_result=10**6), at(b, "b"))
        await front.gateway.reload(replace(config, servers=servers))
        await front.until_health(lambda health: health["servers"]["a"]["state"] == "up")
        assert await addresses(front) == ["notes://today", "toolyard://b/notes%3A%2F%2Ftoday"]
        assert (await read(front, "notes://today"))["text"] == "first has notes://today"
        await front.gateway.reload(replace(config, servers=servers[::-1]))
        assert await addresses(front) == ["notes://today", "toolyard://a/notes%3A%2F%2Ftoday"]
        assert (await read(front, "notes://today"))["text"] == "second has notes://today"


async def addresses(front: Any) -> list[str]:
    return [item["uri"] for item in (await front.modern("resources/list")).result["resources"]]


async def test_of_an_address_that_several_servers_list_it_is_said_whose_it_is():
    first, second = two(resources=NOTES, templates=[template("rows://{id}")])
    third = Library("third", resources=[resource("own://one")])
    async with (
        speaking(first) as a,
        speaking(second) as b,
        speaking(third) as c,
        yard(at(a, "a"), at(b, "b"), at(c, "c")) as front,
    ):
        listed = (await front.modern("resources/list")).result["resources"]
        marks = {item["uri"]: item.get("_meta") for item in listed}
        assert marks == {
            "notes://today": {"toolyard/server": "a"},
            "toolyard://b/notes%3A%2F%2Ftoday": None,
            "own://one": None,
        }
        servers = (await front.health())["servers"]
        assert servers["b"]["notes"] == [
            "'notes://today' leads to 'a', which comes first; its own is 'toolyard://b/notes%3A%2F%2Ftoday'",
            "'rows://{id}' leads to 'a' first, which has the same template",
        ]
        assert "notes" not in servers["a"]
        assert "notes" not in servers["c"]


PAGE = "ui://bank/pay"


@pytest.mark.parametrize("listed", [True, False])
async def test_a_tools_page_is_its_own_servers_whoever_else_has_its_address(listed: bool):
    stranger, bank = two(resources=[resource(PAGE)])
    bank.lists["resources"] = [resource(PAGE)] if listed else [resource("rates://today")]
    bank.tools = [tool("pay", _meta={"ui": {"resourceUri": PAGE, "visibility": ["app"]}, "other": 1})]
    async with speaking(stranger) as a, speaking(bank) as b, yard(at(a, "a"), at(b, "bank")) as front:
        (_, pay) = (await front.modern("tools/list")).result["tools"]
        page = pay["_meta"]["ui"]["resourceUri"]
        assert pay["_meta"] == {"ui": {"resourceUri": page, "visibility": ["app"]}, "other": 1}
        assert page.startswith("ui://")
        assert (page in await addresses(front)) is listed
        assert (await read(front, page))["text"] == f"second has {PAGE}"
        alone = (await front.modern("tools/list", path="/mcp/bank")).result["tools"]
        assert alone[0]["_meta"]["ui"]["resourceUri"] == PAGE


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
async def test_a_link_in_a_result_leads_to_the_server_that_gave_it(method: str):
    first, second = two(resources=NOTES, prompts=[{"name": "echo"}])
    link = {"type": "resource_link", "uri": "notes://today", "name": "today"}
    unlisted = {"type": "resource_link", "uri": "rows://7", "name": "a row of whoever has the template"}
    inside = {"type": "resource", "resource": {"uri": "notes://today", "text": "x"}}
    web = {"type": "resource_link", "uri": "https://example.com/", "name": "a page"}
    first.lists["templates"] = [template("rows://{id}")]

    async def answer(exchange: Exchange) -> None:
        blocks = [link, unlisted, inside, web]
        if method == "tools/call":
            await exchange.result({"content": blocks})
        else:
            await exchange.result({"messages": [{"role": "user", "content": one} for one in blocks]})

    for library in (first, second):
        library.on[method] = answer
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        await addresses(front)
        theirs = (await front.modern(method, {"name": "mcp__b__echo"})).result
        blocks = theirs.get("content") or [one["content"] for one in theirs["messages"]]
        own = {**link, "uri": "toolyard://b/notes%3A%2F%2Ftoday"}
        assert blocks == [own, {**unlisted, "uri": "toolyard://b/rows%3A%2F%2F7"}, inside, web]
        ours = (await front.modern(method, {"name": "mcp__a__echo"})).result
        assert (ours.get("content") or [one["content"] for one in ours["messages"]]) == [
            link,
            unlisted,
            inside,
            web,
        ]


async def test_a_server_cannot_list_an_address_in_the_gateways_own_form():
    first = Library("first", resources=[resource("toolyard://b/notes%3A%2F%2Ftoday")])
    second = Library("second", resources=NOTES)
    async with speaking(first) as a, speaking(second) as b, yard(at(a, "a"), at(b, "b")) as front:
        listed = await addresses(front)
        assert listed == [
            f"toolyard://a/{quote('toolyard://b/notes%3A%2F%2Ftoday', safe='')}",
            "notes://today",
        ]
        assert (await read(front, listed[0]))["text"] == "first has toolyard://b/notes%3A%2F%2Ftoday"
        assert (await read(front, "toolyard://b/notes%3A%2F%2Ftoday"))["text"] == "second has notes://today"
