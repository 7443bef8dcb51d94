"""Tools that bring their own JSON Schemas, and the headers a schema may ask for."""

from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from tests.kit.calls import text_of
from toolyard import Client
from toolyard.kit import Context, Server, ToolResult
from toolyard.kit.schema.validation import TrustedOutputSchema, TrustedSchema

ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "minLength": 1},
        "to": {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{4}$"}}},
    },
    "required": ["item"],
    "additionalProperties": False,
}


async def call(server: Server, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    async with Client(server) as client:
        return (await client.call_tool(tool, arguments)).raw


async def test_an_explicit_schema_is_listed_as_it_was_written(server: Server) -> None:
    schema = {**ORDER, "$schema": "https://json-schema.org/draft/2020-12/schema", "x-vendor": {"a": 1}}

    @server.tool(input_schema=schema)
    async def order(arguments: dict[str, Any]) -> str:
        return "ok"

    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
    assert tool["inputSchema"] == schema


async def test_the_function_gets_the_whole_dict_and_a_context_when_it_asks(server: Server) -> None:
    @server.tool(input_schema=ORDER)
    async def order(arguments: dict[str, Any], ctx: Context) -> str:
        return f"{arguments} for {ctx.caller.client.name}"

    assert text_of(await call(server, "order", {"item": "lamp"})) == "{'item': 'lamp'} for toolyard"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["item", "required"]),
        ({"item": 5}, ["'item'", "string"]),
        ({"item": ""}, ["'item'", "shorter than 1"]),
        ({"item": "x", "to": {"zip": "abc"}}, ["'to.zip'", "^[0-9]{4}$"]),
        ({"item": "x", "colour": "red"}, ["colour"]),
    ],
)
async def test_arguments_are_held_against_an_explicit_schema(
    server: Server, arguments: dict[str, Any], words: list[str]
) -> None:
    seen: list[Any] = []

    @server.tool(input_schema=ORDER)
    async def order(arguments: dict[str, Any]) -> None:
        seen.append(arguments)

    result = await call(server, "order", arguments)
    assert result["isError"] is True
    text = text_of(result)
    assert all(word in text for word in ["'order'", *words]), text
    assert seen == []


async def test_a_big_value_that_does_not_fit_is_not_told_back_whole(server: Server) -> None:
    schema = {"type": "object", "properties": {"files": {"type": "array", "maxItems": 1}}}

    @server.tool(input_schema=schema)
    async def send(arguments: dict[str, Any]) -> None: ...

    text = text_of(await call(server, "send", {"files": ["A" * 100_000, "B"]}))
    assert "'files'" in text
    assert "more than 1 item" in text
    assert len(text) < 1000


async def test_a_schema_of_an_older_draft_means_what_that_draft_says(server: Server) -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    }

    @server.tool(input_schema=schema)
    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    assert text_of(await call(server, "take", {"pair": ["a", 1]})) == "taken"
    assert (await call(server, "take", {"pair": ["a", "b"]}))["isError"] is True


async def test_references_inside_the_schema_are_followed(server: Server) -> None:
    schema = {
        "type": "object",
        "$defs": {"zip": {"type": "string", "maxLength": 4}},
        "properties": {"zip": {"$ref": "#/$defs/zip"}},
    }

    @server.tool(input_schema=schema)
    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    assert "'zip'" in text_of(await call(server, "take", {"zip": "12345"}))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array"}, "type 'object'"),
        ({}, "type 'object'"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "not a usable JSON Schema"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "not a usable JSON Schema"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}, "example.com"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "passwd"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "none"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_when_it_is_declared(
    server: Server, schema: dict[str, Any], words: str
) -> None:
    async def tool(arguments: dict[str, Any]) -> None: ...

    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        server.add_tool(tool, input_schema=schema)
    assert server.tools == {}


def test_with_a_schema_the_function_must_take_one_dict(server: Server) -> None:
    async def two(item: str, count: int) -> None: ...

    async def none(ctx: Context) -> None: ...

    for function in (two, none):
        with pytest.raises(TypeError, match="must take one dict of arguments"):
            server.add_tool(function, input_schema=ORDER)


async def test_an_explicit_output_schema_is_listed_and_results_are_held_against_it(server: Server) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}

    @server.tool(output_schema=schema)
    async def count(how: Any) -> Any:
        return {"count": how}

    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
        assert tool["outputSchema"] == schema
        good = (await client.call_tool("count", {"how": 3})).raw
        bad = (await client.call_tool("count", {"how": "many"})).raw
    assert good["structuredContent"] == {"count": 3}
    assert text_of(good) == '{"count":3}'
    assert bad["isError"] is True
    assert "structuredContent" not in bad
    assert "'count'" in text_of(bad)


async def test_the_explicit_output_schema_wins_over_the_return_annotation(server: Server) -> None:
    class Sum(Struct):
        sum: int

    schema = {"type": "object", "properties": {"sum": {"type": "integer", "description": "The sum"}}}

    @server.tool(output_schema=schema)
    async def add(a: int, b: int) -> Sum:
        return Sum(a + b)

    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
        assert tool["outputSchema"] == schema
        assert (await client.call_tool("add", {"a": 1, "b": 2})).raw["structuredContent"] == {"sum": 3}


async def test_a_result_spelt_out_is_held_against_the_output_schema_too(server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @server.tool(output_schema=schema)
    async def spelt(how: str) -> ToolResult:
        return {
            "right": ToolResult(content=["one"], structured={"n": 1}),
            "wrong": ToolResult(content=["one"], structured={"n": "1"}),
            "without": ToolResult(content=["one"]),
            "failed": ToolResult(content=["no"], is_error=True),
        }[how]

    right = await call(server, "spelt", {"how": "right"})
    assert (right["structuredContent"], text_of(right)) == ({"n": 1}, "one")
    assert "'n'" in text_of(await call(server, "spelt", {"how": "wrong"}))
    assert "structured" in text_of(await call(server, "spelt", {"how": "without"}))
    failed = await call(server, "spelt", {"how": "failed"})
    assert (failed["isError"], text_of(failed)) == (True, "no")


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}])
def test_an_output_schema_of_no_object_is_refused_as_legacy_clients_know_objects_only(
    server: Server, schema: dict[str, Any]
) -> None:
    async def tool() -> Any: ...

    with pytest.raises(ValueError, match="type 'object'"):
        server.add_tool(tool, output_schema=schema)


async def test_a_schema_that_was_checked_elsewhere_is_compiled_at_the_first_call(server: Server) -> None:
    async def order(arguments: dict[str, Any]) -> Any:
        return arguments

    server.add_tool(order, input_schema=TrustedSchema(ORDER), output_schema=TrustedSchema(ORDER))
    server.add_tool(order, name="wrong", input_schema=TrustedSchema({"type": "object", "required": 5}))
    assert (await call(server, "order", {"item": "x"}))["structuredContent"] == {"item": "x"}
    assert "'item'" in text_of(await call(server, "order", {"item": ""}))
    with pytest.raises(ValueError, match="not a usable JSON Schema"):
        await call(server, "wrong", {})


async def test_results_that_are_made_to_fit_a_schema_are_not_held_against_it(server: Server) -> None:
    @server.tool(output_schema=TrustedOutputSchema(ORDER))
    async def order(item: Any) -> Any:
        return {"item": item}

    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
        assert tool["outputSchema"] == ORDER
        assert (await client.call_tool("order", {"item": 5})).raw["structuredContent"] == {"item": 5}


# x-mcp-header


def header(name: Any, **more: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": name, **more}


async def test_a_header_annotation_is_listed_from_annotations_and_from_schemas(server: Server) -> None:
    @server.tool
    async def typed(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> None: ...

    @server.tool(input_schema={"type": "object", "properties": {"region": header("Region")}})
    async def explicit(arguments: dict[str, Any]) -> None: ...

    async with Client(server) as client:
        for tool in await client.list_all("tools/list"):
            assert tool["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"


async def test_in_process_there_are_no_headers_to_compare(server: Server) -> None:
    @server.tool
    async def typed(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
        return region

    assert text_of(await call(server, "typed", {"region": "eu"})) == "eu"


NESTED = {"type": "object", "properties": {"b": header("B")}}


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"a": header("")}, "not a header name"),
        ({"a": header("Not a token")}, "not a header name"),
        ({"a": header("Line\r\nBreak")}, "not a header name"),
        ({"a": header(5)}, "not a header name"),
        ({"a": header("A"), "b": header("a")}, "more than once"),
        ({"a": header("A"), "o": {"type": "object", "properties": {"b": header("A")}}}, "more than once"),
        ({"a": header("A", type="number")}, "string, integer or boolean"),
        ({"a": header("A", type="object")}, "string, integer or boolean"),
        ({"a": {"type": "array", "items": header("A")}}, "through 'properties' alone"),
        ({"a": {"anyOf": [header("A"), {"type": "null"}]}}, "through 'properties' alone"),
        (
            {"a": {"type": "object", "additionalProperties": header("A")}},
            "through 'properties' alone",
        ),
    ],
)
def test_a_wrong_header_annotation_is_refused_when_the_tool_is_declared(
    server: Server, properties: dict[str, Any], words: str
) -> None:
    async def route(arguments: dict[str, Any]) -> None: ...

    with pytest.raises(ValueError, match=words) as refusal:
        server.add_tool(route, input_schema={"type": "object", "properties": properties})
    assert "'route'" in str(refusal.value)


def test_a_wrong_header_annotation_is_refused_in_a_signature_too(server: Server) -> None:
    async def route(weight: Annotated[float, Meta(extra_json_schema={"x-mcp-header": "Weight"})]) -> None: ...

    with pytest.raises(ValueError, match="string, integer or boolean"):
        server.add_tool(route)


def test_an_annotation_on_a_nested_property_is_fine(server: Server) -> None:
    async def route(arguments: dict[str, Any]) -> None: ...

    tool = server.add_tool(route, input_schema={"type": "object", "properties": {"a": NESTED}})
    assert tool.info.input_schema["properties"]["a"] == NESTED


class Found(Struct):
    rows: list[int]


async def test_an_output_schema_may_be_given_as_the_type_it_is_made_from(server: Server) -> None:
    @server.tool(output_schema=Found)
    async def find(value: Any) -> ToolResult:
        return ToolResult(content=["in words"], structured={"rows": value})

    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
    assert tool["outputSchema"]["required"] == ["rows"]
    found = await call(server, "find", {"value": [1, 2]})
    assert (text_of(found), found["structuredContent"]) == ("in words", {"rows": [1, 2]})
    wrong = await call(server, "find", {"value": ["one"]})
    assert wrong["isError"]
    assert "rows" in text_of(wrong)
    with pytest.raises(ValueError, match="'object'"):
        server.add_tool(find, name="other", output_schema=int)
