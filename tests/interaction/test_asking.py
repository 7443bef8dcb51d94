"""Questions to the client: one conversation for the user, whichever way the era carries it."""

from typing import Any

import pytest

from tests.interaction.clients import Json, RpcError
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import NAME, Shop

ROOTS = {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}


def accept(**content: Any) -> Json:
    return {"action": "accept", "content": content}


def named(params: Json) -> Json:
    """Answers a form with what it was asked."""
    return accept(name=params["message"].rstrip("?"))


def said(text: str) -> Json:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1"}


# Forms


@shows("elicitation.form.accept")
async def test_a_form_is_filled_and_its_content_reaches_the_tool(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, elicit=lambda _: accept(name="Ada")) as client:
        assert await client.text("greet") == "Hello Ada"
    assert client.asked == [
        ("elicitation/create", {"mode": "form", "message": "Your name?", "requestedSchema": NAME})
    ]


@shows("elicitation.form.decline")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_form_may_be_declined_or_cancelled(connect: Connect, shop: Shop, action: str) -> None:
    async with connect(shop.server, elicit=lambda _: {"action": action}) as client:
        assert await client.text("greet") == f"No name: {action}"


@shows("elicitation.form.schema")
async def test_a_form_made_of_a_type_is_flat_and_its_defaults_count(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, elicit=lambda _: accept(street="High St")) as client:
        assert await client.text("deliver") == "High St, some day"
    ((_, params),) = client.asked
    assert params["requestedSchema"] == {
        "type": "object",
        "properties": {
            "street": {"type": "string", "minLength": 1, "title": "Street"},
            "express": {"type": "boolean", "default": False},
        },
        "required": ["street"],
    }


@shows("elicitation.form.invalid")
async def test_an_answer_that_does_not_fit_the_form_never_reaches_the_tool(
    connect: Connect, shop: Shop
) -> None:
    async with connect(shop.server, elicit=lambda _: accept(name=5)) as client:
        if client.manner == "legacy":
            result = await client.call("greet")
            assert result["isError"] is True
            assert "'name'" in result["content"][0]["text"]
        else:
            with pytest.raises(RpcError, match="'name'") as error:
                await client.call("greet")
            assert error.value.code == -32602
        assert await client.text("echo", {"text": "still here"}) == "still here"


@shows("elicitation.url")
async def test_a_page_is_offered_to_a_client_that_opens_pages(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, elicit=lambda _: {"action": "accept"}, links=True) as client:
        assert await client.text("pay") == "accept"
    ((_, params),) = client.asked
    assert (params["mode"], params["url"]) == ("url", "https://pay.example/7")
    assert ("elicitationId" in params) == (client.era == "legacy")


# The client's model and folders


@shows("sampling.text")
async def test_the_clients_model_writes(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, sample=lambda _: said("Oh lamp")) as client:
        assert await client.text("advertise") == "Oh lamp"
    assert client.asked == [
        (
            "sampling/createMessage",
            {
                "messages": [{"role": "user", "content": {"type": "text", "text": "Praise the lamp"}}],
                "maxTokens": 20,
                "systemPrompt": "Be brief",
            },
        )
    ]


@shows("sampling.rejected")
async def test_a_client_that_refuses_to_sample_ends_the_call_with_its_error(
    connect_legacy: Connect, shop: Shop
) -> None:
    def refuse(_: Json) -> Json:
        raise RpcError(-1, "User rejected sampling request")

    async with connect_legacy(shop.server, sample=refuse) as client:
        with pytest.raises(RpcError, match="User rejected") as error:
            await client.call("advertise")
        assert error.value.code == -1
        assert await client.text("echo", {"text": "still here"}) == "still here"


@shows("roots.list")
async def test_the_clients_folders_are_listed(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, roots=lambda _: ROOTS) as client:
        result = await client.call("folders")
    assert result["structuredContent"] == {"result": ["file:///a", "file:///b"]}


# Several


@shows("asking.several_at_once")
async def test_several_questions_are_asked_at_once(connect: Connect, shop: Shop) -> None:
    async with connect(
        shop.server, elicit=named, sample=lambda _: said("Light!"), roots=lambda _: ROOTS
    ) as client:
        assert await client.text("survey") == "Who: Light! (2)"
    assert sorted(method for method, _ in client.asked) == [
        "elicitation/create",
        "roots/list",
        "sampling/createMessage",
    ]


@shows("asking.one_after_another")
async def test_questions_one_after_another_keep_what_was_said_before(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, elicit=named) as client:
        assert await client.text("haggle") == "41 after Bid 1, Bid 2, Bid 3"
        assert await client.text("haggle") == "42 after Bid 1, Bid 2, Bid 3"
    assert [params["message"] for _, params in client.asked] == ["Bid 1?", "Bid 2?", "Bid 3?"] * 2
    assert shop.made == 2, "what is remembered is made once a call"


@shows("asking.prompts_and_resources")
async def test_prompts_and_resources_ask_too(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, elicit=named) as client:
        prompt = await client.request("prompts/get", {"name": "toast"})
        resource = await client.request("resources/read", {"uri": "shop://diary/monday"})
    assert prompt["messages"][0]["content"]["text"] == "A toast to To whom"
    assert resource["contents"][0]["text"] == "monday, read by Who reads"


# Clients that cannot


@shows("asking.undeclared")
@pytest.mark.parametrize(
    ("tool", "capability"), [("greet", "elicitation"), ("advertise", "sampling"), ("folders", "roots")]
)
async def test_a_client_is_not_asked_for_what_it_did_not_declare(
    connect: Connect, shop: Shop, tool: str, capability: str
) -> None:
    async with connect(shop.server) as client:
        if client.manner == "legacy":
            result = await client.call(tool)
            assert result["isError"] is True
            assert capability in result["content"][0]["text"]
        else:
            with pytest.raises(RpcError) as error:
                await client.call(tool)
            assert error.value.code == -32021
            assert error.value.data == {"requiredCapabilities": {capability: {}}}
    assert client.asked == []


@shows("asking.undeclared")
async def test_a_client_that_only_fills_forms_is_not_sent_to_a_page(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server, elicit=lambda _: {"action": "accept"}) as client:
        if client.manner == "legacy":
            assert (await client.call("pay"))["isError"] is True
        else:
            with pytest.raises(RpcError) as error:
                await client.call("pay")
            assert error.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert client.asked == []
