"""Input schemas from annotations: what clients are told a tool takes."""

import asyncio
import datetime
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from toolyard import Client
from toolyard.kit import Context, Server


async def schema_of(server: Server) -> dict[str, Any]:
    """The input schema of a server's only tool, checked to be a schema at all."""
    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
    jsonschema_rs.validator_for(tool["inputSchema"])
    return tool["inputSchema"]


async def properties_of(server: Server) -> dict[str, Any]:
    return (await schema_of(server))["properties"]


async def test_a_tool_without_parameters_takes_the_empty_object_only(server: Server) -> None:
    @server.tool
    async def ping() -> None: ...

    schema = await schema_of(server)
    assert schema["type"] == "object"
    assert schema["properties"] == {}
    assert schema["additionalProperties"] is False
    assert schema.get("required", []) == []


async def test_builtin_types_are_described_by_their_json_types(server: Server) -> None:
    @server.tool
    async def all_kinds(
        text: str,
        whole: int,
        real: float,
        yes: bool,
        items: list[int],
        table: dict[str, float],
        nothing: None,
    ) -> None: ...

    properties = await properties_of(server)
    assert properties == {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "real": {"type": "number"},
        "yes": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": "integer"}},
        "table": {"type": "object", "additionalProperties": {"type": "number"}},
        "nothing": {"type": "null"},
    }


async def test_a_parameter_without_a_default_is_required_and_one_with_a_default_is_not(
    server: Server,
) -> None:
    @server.tool
    async def search(query: str, limit: int = 10, deep: bool = False) -> None: ...

    schema = await schema_of(server)
    assert schema["required"] == ["query"]
    assert schema["properties"]["limit"] == {"type": "integer", "default": 10}
    assert schema["properties"]["deep"] == {"type": "boolean", "default": False}


async def test_an_optional_parameter_admits_null_and_stays_required_without_a_default(server: Server) -> None:
    @server.tool
    async def find(place: Optional[str], time: int | None = None) -> None: ...  # noqa: UP045

    schema = await schema_of(server)
    assert schema["required"] == ["place"]
    assert {"type": "null"} in schema["properties"]["place"]["anyOf"]
    assert {"type": "null"} in schema["properties"]["time"]["anyOf"]
    assert schema["properties"]["time"]["default"] is None


async def test_annotated_constraints_and_descriptions_are_in_the_schema(server: Server) -> None:
    @server.tool
    async def book(
        seats: Annotated[int, Meta(ge=1, le=8, description="How many")],
        code: Annotated[str, Meta(pattern="^[A-Z]{3}$", min_length=3, max_length=3, title="Code")],
        tags: Annotated[list[str], Meta(max_length=5)] = [],  # noqa: B006
    ) -> None: ...

    properties = await properties_of(server)
    assert properties["seats"] == {"type": "integer", "minimum": 1, "maximum": 8, "description": "How many"}
    assert properties["code"] == {
        "type": "string",
        "pattern": "^[A-Z]{3}$",
        "minLength": 3,
        "maxLength": 3,
        "title": "Code",
    }
    assert properties["tags"]["maxItems"] == 5


async def test_a_plain_string_in_an_annotation_is_the_description(server: Server) -> None:
    @server.tool
    async def say(
        text: Annotated[str, "What to say"], times: Annotated[int, "How often", Meta(ge=1)] = 1
    ) -> None: ...

    properties = await properties_of(server)
    assert properties["text"] == {"type": "string", "description": "What to say"}
    assert properties["times"]["description"] == "How often"
    assert properties["times"]["minimum"] == 1


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


async def test_literals_and_enums_list_their_values(server: Server) -> None:
    @server.tool
    async def paint(colour: Colour, finish: Literal["matt", "gloss"] = "matt") -> None: ...

    schema = await schema_of(server)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"colour": "red", "finish": "gloss"})
    assert not validator.is_valid({"colour": "green"})
    assert not validator.is_valid({"colour": "red", "finish": "rough"})


class Point(Struct):
    x: float
    y: float = 0.0


@dataclass
class Size:
    width: int
    height: int = 1
    notes: list[str] = field(default_factory=list)


class Style(TypedDict):
    stroke: str
    dashed: NotRequired[bool]


class Node(Struct):
    label: str
    children: list["Node"] = []


async def test_structs_dataclasses_and_typed_dicts_are_described_with_their_fields(server: Server) -> None:
    @server.tool
    async def draw(at: Point, size: Size, style: Style) -> None: ...

    validator = jsonschema_rs.validator_for(await schema_of(server))
    whole = {"at": {"x": 1.5}, "size": {"width": 2}, "style": {"stroke": "thin"}}
    assert validator.is_valid(whole)
    assert not validator.is_valid({**whole, "at": {"y": 2}})
    assert not validator.is_valid({**whole, "size": {"height": 2}})
    assert not validator.is_valid({**whole, "style": {"dashed": True}})
    assert not validator.is_valid({**whole, "size": {"width": "wide"}})


async def test_nested_and_recursive_types_refer_to_definitions_that_are_there(server: Server) -> None:
    @server.tool
    async def plant(tree: Node, corners: list[Point], named: dict[str, Size]) -> None: ...

    validator = jsonschema_rs.validator_for(await schema_of(server))
    tree = {"label": "root", "children": [{"label": "leaf"}]}
    assert validator.is_valid({"tree": tree, "corners": [{"x": 1}], "named": {"a": {"width": 1}}})
    assert not validator.is_valid({"tree": {"label": "r", "children": [{}]}, "corners": [], "named": {}})
    assert not validator.is_valid({"tree": tree, "corners": [{}], "named": {}})


async def test_dates_and_uuids_are_strings_with_a_format(server: Server) -> None:
    @server.tool
    async def log(
        at: Annotated[datetime.datetime, Meta(tz=True)], day: datetime.date, id: uuid.UUID
    ) -> None: ...

    properties = await properties_of(server)
    assert {name: prop["format"] for name, prop in properties.items()} == {
        "at": "date-time",
        "day": "date",
        "id": "uuid",
    }


async def test_a_parameter_without_annotation_takes_anything(server: Server) -> None:
    @server.tool
    async def keep(value) -> None: ...

    schema = await schema_of(server)
    assert schema["properties"] == {"value": {}}
    assert schema["required"] == ["value"]


@pytest.mark.parametrize("name", ["ctx", "context", "whatever"])
async def test_the_context_is_not_an_argument_whatever_its_name(server: Server, name: str) -> None:
    space: dict[str, Any] = {"Context": Context}
    exec(f"async def tool(a: int, {name}: Context) -> None: ...", space)
    server.tool(space["tool"])
    assert list(await properties_of(server)) == ["a"]


async def test_an_optional_context_is_not_an_argument_either(server: Server) -> None:
    @server.tool
    async def tool(a: int, ctx: Context | None = None) -> None: ...

    assert list(await properties_of(server)) == ["a"]


async def test_a_bound_method_is_a_tool_without_its_self(server: Server) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        async def add(self, by: int = 1) -> int:
            self.count += by
            return self.count

    server.tool(Counter().add)
    assert list(await properties_of(server)) == ["by"]
    async with Client(server) as client:
        await client.call_tool("add")
        assert (await client.call_tool("add", {"by": 4})).raw["structuredContent"] == {"result": 5}


class Everything(Struct):
    whole: Annotated[int, Meta(ge=0, le=9)]
    colour: Colour
    maybe: bool | None = None
    names: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=2)] = []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from(["", "a", "red", "blue", "whole", "x"])
    | st.sampled_from([0.5, -1.25]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["whole", "colour", "maybe", "names", "other"]), inner, max_size=4)
    ),
    max_leaves=6,
)
NEARLY = st.fixed_dictionaries(
    {"whole": st.integers(-1, 10) | JSON, "colour": st.sampled_from(["red", "blue"]) | JSON},
    optional={"maybe": JSON, "names": st.lists(st.sampled_from(["", "a", "b"])) | JSON},
)


@given(thing=NEARLY | JSON, more=st.dictionaries(st.sampled_from(["count", "other"]), JSON, max_size=2))
def test_what_the_schema_admits_the_tool_takes_and_nothing_else(thing: Any, more: dict[str, Any]) -> None:
    arguments = {"thing": thing, **more}
    result = asyncio.run(call_take(arguments))
    admitted = jsonschema_rs.validator_for(AGREEING.tools["take"].info.input_schema).is_valid(arguments)
    assert ("isError" not in result) == admitted, result


AGREEING = Server("agreeing")


@AGREEING.tool
async def take(thing: Everything, count: int = 0) -> str:
    return "taken"


async def call_take(arguments: dict[str, Any]) -> dict[str, Any]:
    async with Client(AGREEING) as client:
        return (await client.call_tool("take", arguments)).raw
