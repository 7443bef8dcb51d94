"""Tools: listed, called, and what comes back."""

import json

import jsonschema_rs
import pytest

from tests.interaction.clients import RpcError
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import SECRET, Shop


@shows("tools.list")
async def test_tools_are_listed_with_schemas_and_hints(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        (page,) = await client.pages("tools/list", "tools")
    tools = {tool["name"]: tool for tool in page}
    assert list(tools) == list(shop.server.tools), "in the order of declaration"
    echo, buy = tools["echo"], tools["buy"]
    assert (echo["title"], echo["description"]) == ("Echo", "Says it back.")
    assert echo["annotations"] == {"readOnlyHint": True}
    assert "outputSchema" not in echo
    assert buy["inputSchema"]["required"] == ["item", "price"]
    assert buy["outputSchema"]["required"] == ["item", "total"]
    for tool in tools.values():
        jsonschema_rs.validator_for(tool["inputSchema"])


@shows("tools.call")
async def test_a_tool_is_called_with_its_arguments(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        for text in ("plain", "", "héllo 🌍 \u2028 \x00", "line\nbreak\r\n", '{"json": "in text"}'):
            assert await client.text("echo", {"text": text}) == text
        result = await client.call("echo")
    assert "isError" not in result
    assert "structuredContent" not in result


@shows("tools.call.structured")
async def test_a_structured_result_fits_its_schema_and_has_a_text_twin(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        (tools,) = await client.pages("tools/list", "tools")
        (schema,) = (tool["outputSchema"] for tool in tools if tool["name"] == "buy")
        result = await client.call("buy", {"item": "lamp", "price": 2.5, "count": 2})
    assert result["structuredContent"] == {"item": "lamp", "total": 5.0, "notes": []}
    jsonschema_rs.validate(schema, result["structuredContent"])
    (twin,) = result["content"]
    assert json.loads(twin["text"]) == result["structuredContent"]


@shows("tools.call.structured")
async def test_a_value_that_is_no_object_is_wrapped(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        assert (await client.call("weigh", {"grams": [1, 2]}))["structuredContent"] == {"result": 3}


@shows("tools.call.content")
async def test_every_kind_of_content_comes_back(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        content = (await client.call("show"))["content"]
    assert content == [
        {"type": "text", "text": "a lamp"},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "shop://shelf", "name": "shelf"},
        {"type": "resource", "resource": {"uri": "shop://note", "text": "a note"}},
        {"type": "resource", "resource": {"uri": "shop://blob", "blob": "AA=="}},
    ]


@shows("tools.call.large")
async def test_a_large_argument_and_a_large_result_travel_whole(connect: Connect, shop: Shop) -> None:
    text = "0123456789abcdef" * (3 << 16)
    async with connect(shop.server) as client:
        assert await client.text("echo", {"text": text}) == text


@shows("tools.errors.input")
async def test_wrong_arguments_come_back_for_the_model_to_mend(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        for arguments, words in (
            ({"item": "lamp"}, "field 'price' is required"),
            ({"item": "lamp", "price": "2"}, "field 'price': expected `float`, got `str`"),
            ({"item": "lamp", "price": -1}, "field 'price': expected `float` >= 0"),
            ({"item": "lamp", "price": 1, "colour": "red"}, "field 'colour' is not known"),
        ):
            result = await client.call("buy", arguments)
            assert result["isError"] is True
            assert words in result["content"][0]["text"]


@shows("tools.errors.execution")
async def test_a_foreseen_failure_is_told_and_an_unforeseen_one_masked(
    connect: Connect, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(shop.server) as client:
        told, masked = await client.call("refuse"), await client.call("break_down")
    assert (told["isError"], told["content"]) == (True, [{"type": "text", "text": "We are closed"}])
    assert masked["isError"] is True
    assert SECRET not in json.dumps(masked)
    assert SECRET in caplog.text


@shows("tools.errors.output")
async def test_a_result_that_breaks_its_own_schema_is_an_error_without_structure(
    connect: Connect, shop: Shop
) -> None:
    async with connect(shop.server) as client:
        result = await client.call("miscount")
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "'total'" in result["content"][0]["text"]


@shows("tools.errors.protocol")
async def test_an_unknown_tool_is_an_error_of_the_protocol(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        with pytest.raises(RpcError, match="Unknown tool: 'steal'") as error:
            await client.call("steal")
    assert error.value.code == -32602


@shows("tools.errors.protocol")
async def test_an_author_may_answer_with_an_error_of_the_protocol(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        with pytest.raises(RpcError, match="Out of stock") as error:
            await client.call("run_out")
    assert (error.value.code, error.value.data) == (-32050, {"until": "Monday"})
