"""Resources, prompts, completions, and lists in pages."""

from typing import Any

import pytest

from tests.interaction.clients import Json, RpcError
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import Shop

# Resources


@shows("resources.list")
async def test_resources_and_templates_are_listed(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        (resources,) = await client.pages("resources/list", "resources")
        (templates,) = await client.pages("resources/templates/list", "resourceTemplates")
    assert resources == [
        {"uri": "shop://shelf", "name": "shelf", "title": "The shelf", "mimeType": "text/plain"},
        {"uri": "shop://photo", "name": "photo", "mimeType": "image/png"},
    ]
    assert [template["uriTemplate"] for template in templates] == ["shop://item/{id}", "shop://diary/{day}"]


@shows("resources.read")
async def test_text_and_bytes_are_read(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        text = await client.request("resources/read", {"uri": "shop://shelf"})
        blob = await client.request("resources/read", {"uri": "shop://photo"})
    assert text["contents"] == [{"uri": "shop://shelf", "text": "a lamp", "mimeType": "text/plain"}]
    assert blob["contents"] == [{"uri": "shop://photo", "blob": "iVBORw==", "mimeType": "image/png"}]


@shows("resources.templates")
async def test_an_address_of_a_template_is_read(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        answer = await client.request("resources/read", {"uri": "shop://item/7"})
        with pytest.raises(RpcError) as error:
            await client.request("resources/read", {"uri": "shop://item/seven"})
    assert answer["contents"] == [{"uri": "shop://item/7", "text": "item 7", "mimeType": "text/plain"}]
    assert error.value.code == -32602


@shows("resources.not_found")
async def test_an_unknown_address_is_refused_with_the_code_of_the_era(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        for uri in ("shop://nowhere", "shop://näher", ""):
            with pytest.raises(RpcError) as error:
                await client.request("resources/read", {"uri": uri})
            assert error.value.code == {"legacy": -32002, "modern": -32602}[client.era]
            assert error.value.data == {"uri": uri}


# Prompts


@shows("prompts.list")
async def test_prompts_are_listed_with_their_arguments(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        ((describe, toast),) = await client.pages("prompts/list", "prompts")
    assert describe == {
        "name": "describe",
        "title": "Describe",
        "description": "Describes an item.",
        "arguments": [
            {"name": "item", "description": "What", "required": True},
            {"name": "tone", "required": False},
        ],
    }
    assert toast == {"name": "toast"}


@shows("prompts.get")
async def test_a_prompt_is_filled(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        arguments = {"item": "lamp", "tone": "gay"}
        got = await client.request("prompts/get", {"name": "describe", "arguments": arguments})
    assert got["description"] == "Describes an item."
    assert got["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Describe lamp, gay"}},
        {"role": "assistant", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
    ]


@shows("prompts.errors")
async def test_an_unknown_prompt_or_a_missing_argument_is_refused(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        for params, words in (({"name": "curse"}, "'curse'"), ({"name": "describe"}, "'item'")):
            with pytest.raises(RpcError, match=words) as error:
                await client.request("prompts/get", params)
            assert error.value.code == -32602


# Completions


def completing(ref: Json, argument: str, value: str, **context: str) -> Json:
    params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
    return params | ({"context": {"arguments": context}} if context else {})


PROMPT = {"type": "ref/prompt", "name": "describe"}
TEMPLATE = {"type": "ref/resource", "uri": "shop://item/{id}"}


@shows("completion.offered")
async def test_arguments_of_prompts_and_templates_are_completed(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        tone = await client.request("completion/complete", completing(PROMPT, "tone", "pl"))
        lamp = await client.request("completion/complete", completing(PROMPT, "tone", "", item="lamp"))
        ids = await client.request("completion/complete", completing(TEMPLATE, "id", "7"))
    assert tone["completion"] == {"values": ["plain", "playful"], "total": 2, "hasMore": False}
    assert lamp["completion"]["values"] == ["bright"]
    assert (len(ids["completion"]["values"]), ids["completion"]["total"]) == (100, 111)
    assert ids["completion"]["hasMore"] is True


@shows("completion.errors")
async def test_an_unknown_reference_is_refused(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        with pytest.raises(RpcError) as error:
            await client.request("completion/complete", completing({**PROMPT, "name": "curse"}, "x", ""))
    assert error.value.code == -32602


# Pages


LISTS = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
]


@shows("pages.followed")
async def test_a_list_is_followed_page_by_page(connect: Connect, nothing_left_behind: None) -> None:
    whole, paged = Shop(), Shop(page_size=1)
    for method, member in LISTS:
        async with connect(whole.server) as client:
            (items,) = await client.pages(method, member)
        async with connect(paged.server) as client:
            assert await client.pages(method, member) == [[item] for item in items]


@shows("pages.stable")
async def test_a_cursor_stays_good_while_the_list_changes(
    connect: Connect, nothing_left_behind: None
) -> None:
    shop = Shop(page_size=3)
    names = list(shop.server.tools)

    async def late() -> None: ...

    async with connect(shop.server) as client:
        first = await client.request("tools/list")
        assert [tool["name"] for tool in first["tools"]] == names[:3]
        shop.server.remove_tool(names[0])
        shop.server.remove_tool(names[2])
        shop.server.add_tool(late)
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})
    assert [tool["name"] for tool in second["tools"]] == names[3:6]


@shows("pages.bad_cursor")
@pytest.mark.parametrize("cursor", ["", "nonsense", "WzEsMl0="])
async def test_a_cursor_that_is_not_ours_is_refused(connect: Connect, shop: Shop, cursor: str) -> None:
    async with connect(shop.server) as client:
        for method, _ in LISTS:
            with pytest.raises(RpcError) as error:
                await client.request(method, {"cursor": cursor})
            assert error.value.code == -32602


@shows("caching.hints")
async def test_what_may_be_cached_says_for_how_long_and_for_whom(
    connect_directly: Connect, nothing_left_behind: None
) -> None:
    shop = Shop(cache_ttl=2.5, cache_scope="public")
    cases: list[tuple[str, dict[str, Any]]] = [(method, {}) for method, _ in LISTS]
    cases += [("resources/read", {"uri": "shop://shelf"}), ("server/discover", {})]
    async with connect_directly(shop.server) as client:
        for method, params in cases:
            answer = await client.request(method, params)
            assert (answer["ttlMs"], answer["cacheScope"]) == (2500, "public")
        assert "ttlMs" not in await client.call("echo")
