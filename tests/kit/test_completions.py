"""Completions of prompt arguments and template variables."""

from typing import Any

import pytest

from toolyard import Client
from toolyard.kit import Caller, Identity, Principal, Server
from toolyard.wire.errors import McpError

PROMPT = {"type": "ref/prompt", "name": "greet"}
TEMPLATE = {"type": "ref/resource", "uri": "shop://{shelf}/{id}"}


@pytest.fixture
def greeter(server: Server) -> Server:
    @server.prompt
    async def greet(name: str, style: str = "") -> str:
        return name

    @server.resource("shop://{shelf}/{id}")
    async def item(shelf: str, id: str) -> str:
        return id

    @server.completion(prompt="greet", argument="name")
    async def names(value: str, context: dict[str, str]) -> list[str]:
        return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]

    @server.completion(resource="shop://{shelf}/{id}", argument="id")
    async def ids(value: str, context: dict[str, str]) -> list[str]:
        return [f"{context.get('shelf', 'any')}-{value}{n}" for n in range(250)]

    return server


async def complete(
    server: Server, ref: dict[str, Any], argument: str, value: str = "", era: Any = "modern", **context: str
) -> dict[str, Any]:
    params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    async with Client(server, era=era) as client:
        return (await client.request("completion/complete", params))["completion"]


async def test_what_fits_the_value_so_far_is_offered(greeter: Server, era: Any) -> None:
    assert await complete(greeter, PROMPT, "name", "A", era) == {
        "values": ["Ada", "Alan"],
        "total": 2,
        "hasMore": False,
    }


async def test_what_was_filled_before_is_the_context(greeter: Server) -> None:
    offered = await complete(greeter, TEMPLATE, "id", "7", shelf="top")
    assert offered["values"][0] == "top-70"


async def test_at_most_a_hundred_are_shown_and_the_rest_is_counted(greeter: Server) -> None:
    offered = await complete(greeter, TEMPLATE, "id")
    assert len(offered["values"]) == 100
    assert (offered["total"], offered["hasMore"]) == (250, True)
    assert offered["values"][-1] == "any-99", "the first hundred, in the author's order"


async def test_a_completion_can_depend_on_who_asks(server: Server, era: Any) -> None:
    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.completion(prompt="greet", argument="name")
    async def names(value: str, who: Caller, context: dict[str, str]) -> list[str]:
        return [f"{who.tenant}-{who.agent}"]

    params = {"ref": PROMPT, "argument": {"name": "name", "value": ""}}
    async with Client(server, era=era, identity=Identity(Principal("acme", "ana"))) as client:
        offered = await client.request("completion/complete", params)
    assert offered["completion"]["values"] == ["acme-ana"]


async def test_an_argument_nobody_completes_has_no_offers(greeter: Server) -> None:
    assert await complete(greeter, PROMPT, "style") == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.parametrize(
    "ref",
    [
        {"type": "ref/prompt", "name": "great"},
        {"type": "ref/resource", "uri": "shop://nowhere/{id}"},
        {"type": "ref/tool", "name": "x"},
        {"type": "ref/prompt"},
        {},
    ],
)
async def test_an_unknown_reference_is_refused(greeter: Server, ref: dict[str, Any]) -> None:
    with pytest.raises(McpError) as error:
        await complete(greeter, ref, "name")
    assert error.value.code == -32602


async def test_a_server_without_completions_does_not_know_the_method(server: Server) -> None:
    @server.prompt
    async def greet(name: str) -> str:
        return name

    with pytest.raises(McpError) as error:
        await complete(server, PROMPT, "name")
    assert error.value.code == -32601
    async with Client(server) as client:
        assert "completions" not in (await client.request("server/discover"))["capabilities"]


async def test_a_failing_completion_is_masked(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.completion(prompt="greet", argument="name")
    async def names(value: str, context: dict[str, str]) -> list[str]:
        raise RuntimeError("hunter2")

    with pytest.raises(McpError) as error:
        await complete(server, PROMPT, "name")
    assert error.value.code == -32603
    assert "hunter2" not in error.value.message
    assert "hunter2" in caplog.text


def test_a_completion_is_for_a_prompt_or_for_a_template(server: Server) -> None:
    with pytest.raises(ValueError, match="either the prompt or the resource"):
        server.completion(argument="name")
    with pytest.raises(ValueError, match="either the prompt or the resource"):
        server.completion(argument="name", prompt="a", resource="b")


def test_a_completion_that_cannot_be_called_is_refused_when_it_is_declared(server: Server) -> None:
    async def names(prefix: str) -> list[str]:
        return []

    with pytest.raises(TypeError, match="value"):
        server.completion(prompt="greet", argument="name")(names)
