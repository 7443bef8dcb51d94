"""Annotations as authors know them from Pydantic, FastMCP and the SDK: limits, names, models.

The schemas are those that FastMCP makes of the same functions, as far as both say them alike.
"""

import asyncio
import dataclasses
import datetime
import enum
import json
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional

import annotated_types as at
import jsonschema_rs
import mcp
import pydantic
import pytest
from fastmcp import FastMCP
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import (
    AfterValidator,
    AliasChoices,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PositiveInt,
    RootModel,
    StringConstraints,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)
from typing_extensions import Doc, TypeAliasType, TypedDict

from tests import reading
from tests.kit.calls import text_of
from tests.serving import serving
from toolyard import Client
from toolyard.client import Elicitation
from toolyard.kit import Context, Elicit, InvalidParams, Server, ToolResult


class Address(BaseModel):
    """Where somebody lives."""

    city: str = Field(min_length=2)
    number: int = Field(ge=1, description="Of the house")


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    born: datetime.date | None = None
    home: Address | None = None
    tags: list[str] = Field(default_factory=list, max_length=2)
    full_name: str = Field("", alias="fullName")

    @field_validator("name")
    @classmethod
    def _capital(cls, value: str) -> str:
        if not value[:1].isupper():
            raise ValueError("a name begins with a capital letter")
        return value


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


class Crate(Struct):
    """A struct of msgspec's that holds a model."""

    owner: Person
    others: list[Address] = []


@pydantic.dataclasses.dataclass
class Size:
    width: int = Field(ge=1)
    height: int = 1


@dataclasses.dataclass
class Plain:
    width: Annotated[int, Field(ge=1, description="In metres")]


class Options(TypedDict):
    depth: Annotated[int, Field(le=3)]


class Numbers(RootModel[list[int]]):
    pass


class Colour(enum.Enum):
    RED = "red"


Even = Annotated[int, AfterValidator(lambda value: _even(value))]


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return value


UserId = NewType("UserId", int)
Nested = TypeAliasType("Nested", "dict[str, Nested] | list[Nested] | int")
Percent = TypeAliasType("Percent", Annotated[int, Field(ge=0, le=100)])


def taking(hint: Any, default: Any = dataclasses.MISSING) -> Callable[..., Any]:
    """A function with one parameter `x` of that type, which it tells back as Python writes it."""

    def take(x):
        return repr(x)

    def take_or_not(x=default):
        return repr(x)

    function = take if default is dataclasses.MISSING else take_or_not
    function.__annotations__ = {"x": hint, "return": str}
    function.__name__ = "take"
    return function


def server_of(function: Callable[..., Any]) -> Server:
    server = Server("bench", version="1.0")
    server.add_tool(function)
    return server


async def call(server: Server, tool: str = "take", /, **arguments: Any) -> dict[str, Any]:
    async with Client(server) as client:
        return (await client.call_tool(tool, arguments)).raw


async def input_schema(server: Server) -> dict[str, Any]:
    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
    jsonschema_rs.validator_for(tool["inputSchema"])
    return tool["inputSchema"]


async def output_schema(server: Server) -> Any:
    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
    return tool.get("outputSchema")


def bare(node: Any, names: bool = False) -> Any:
    """A schema without what both spell their own way: titles, closed objects, the order of unions."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: bare(value) for key, value in node.items()}
    dropped = {"title", "discriminator", "required" if not node.get("required") else ""}
    dropped |= {"additionalProperties"} if node.get("additionalProperties") is False else set()
    dropped |= {"type"} if "enum" in node else set()
    found = {
        key: bare(value, key in ("properties", "$defs")) for key, value in node.items() if key not in dropped
    }
    for key in ("anyOf", "oneOf", "required", "enum"):
        if key in found:
            found[key] = sorted(found[key], key=repr)
    return found


async def fastmcps_schema(function: Callable[..., Any]) -> dict[str, Any]:
    peer = FastMCP("peer")
    peer.tool(function)
    (tool,) = await peer.list_tools()
    return tool.parameters


# What clients see


SAME = {
    "limits of a number": Annotated[int, Field(ge=1, lt=10, multiple_of=3)],
    "open limits": Annotated[float, Field(gt=0, le=0.5)],
    "limits of a string": Annotated[str, Field(min_length=1, max_length=5)],
    "a pattern": Annotated[str, Field(pattern="^[a-z]+$")],
    "limits of a list": Annotated[list[int], Field(min_length=1, max_length=2)],
    "a description": Annotated[str, Field(description="What to say")],
    "examples and more": Annotated[int, Field(examples=[1, 2], json_schema_extra={"x-unit": "m"})],
    "inside of a list": list[Annotated[int, Field(ge=1)]],
    "values of a dict": dict[str, Annotated[int, Field(le=5)]],
    "an optional": Annotated[int | None, Field(ge=1, description="Maybe")],
    "inside of an optional": Optional[Annotated[int, Field(ge=1)]],  # noqa: UP045
    "Pydantic's own types": PositiveInt,
    "constrained strings": Annotated[str, StringConstraints(min_length=2, pattern="^a")],
    "annotated-types": Annotated[int, at.Ge(1), at.Lt(9)],
    "a group of them": Annotated[int, at.Interval(ge=1, le=8)],
    "a length": Annotated[str, at.Len(1, 4)],
    "a plain string": Annotated[int, "How many"],
    "an address on the web": AnyUrl,
    "a decimal": Annotated[Decimal, Field(gt=0)],
    "a model": Address,
    "models in a list": list[Address],
    "models in a dict": dict[str, Address],
    "an optional model": Address | None,
    "a model in a model": Person,
    "a model of itself": Tree,
    "a union of models": Cat | Dog,
    "a model or a string": Address | str,
    "a described model": Annotated[Address, Field(description="Where to")],
    "Pydantic's dataclass": Size,
    "a dataclass with fields of Pydantic's": Plain,
    "a TypedDict with fields of Pydantic's": Options,
    "a list without a name": Numbers,
    "a validator": Even,
    "an enum with a description": Annotated[Colour, Field(description="Which")],
    "another name for a type": Percent,
    "anything": pydantic.JsonValue,
}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Without references, as far as they are no circle: FastMCP inlines them too."""
    defs = schema.get("$defs", {})

    def walk(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [walk(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if name in defs:
            if name in inside:
                return {"circle": name}
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return walk({**defs[name], **rest}, (*inside, name))
        return {key: walk(value, inside) for key, value in node.items() if key != "$defs"}

    return walk(schema, ())


def named(value: Any) -> str:
    """The same in every process: the runner compares what each of them collected."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


@pytest.mark.parametrize("hint", SAME.values(), ids=SAME)
async def test_the_schema_says_what_fastmcps_says(hint: Any) -> None:
    ours = await input_schema(server_of(taking(hint)))
    theirs = await fastmcps_schema(taking(hint))
    assert bare(inlined(ours)) == bare(inlined(theirs))


DEFAULTS = {
    "a default in Field": (int, Field(default=3, ge=1)),
    "a default by position": (int, Field(3, description="How many")),
    "no default in Field": (int, Field(ge=1)),
    "the dots": (int, Field(..., ge=1)),
    "limits beside a default": (Annotated[int, Field(ge=1)], 4),
    "a default in the annotation": (Annotated[int, Field(ge=1, default=4)], dataclasses.MISSING),
    "both": (Annotated[int, Field(ge=1)], Field(default=2, le=9)),
    "none": (int | None, Field(None, ge=1)),
    "another name": (int, Field(alias="from")),
    "another name, and a default": (int, Field(1, alias="from", ge=0)),
    "another name for reading": (int, Field(validation_alias="from")),
}


@pytest.mark.parametrize(("hint", "default"), DEFAULTS.values(), ids=DEFAULTS)
async def test_a_field_as_the_default_says_what_it_says_to_fastmcp(hint: Any, default: Any) -> None:
    ours = await input_schema(server_of(taking(hint, default)))
    theirs = await fastmcps_schema(taking(hint, default))
    assert bare(ours) == bare(theirs)


async def test_docs_titles_and_deprecation_are_in_the_schema(server: Server) -> None:
    @server.tool
    async def take(
        a: Annotated[int, Doc("By Doc")],
        b: Annotated[int, Field(title="Bee", deprecated=True)],
        c: Annotated[Crate, Field(description="A struct")],
        d: Annotated[Address, Doc("A model")],
    ) -> None: ...

    schema = await input_schema(server)
    properties = schema["properties"]
    assert properties["a"] == {"type": "integer", "description": "By Doc"}
    assert properties["b"] == {"type": "integer", "title": "Bee", "deprecated": True}
    assert properties["c"]["description"] == "A struct"
    assert properties["d"]["description"] == "A model"


async def test_a_union_by_its_tag_names_the_tag() -> None:
    server = server_of(taking(list[Annotated[Cat | Dog, Field(discriminator="kind")]]))
    schema = await input_schema(server)
    items = schema["properties"]["x"]["items"]
    assert items["discriminator"]["propertyName"] == "kind"
    assert set(items["discriminator"]["mapping"].values()) == {item["$ref"] for item in items["oneOf"]}


async def test_a_model_that_is_taken_several_times_is_described_once(server: Server) -> None:
    @server.tool
    async def take(one: Address, two: list[Address], three: Address | str, four: Crate) -> None: ...

    schema = await input_schema(server)
    assert str(schema).count("Of the house") == 1
    validator = jsonschema_rs.validator_for(schema)
    home = {"city": "Faro", "number": 1}
    whole = {"one": home, "two": [home], "three": home, "four": {"owner": {"name": "Ada"}}}
    assert validator.is_valid(whole)
    assert not validator.is_valid({**whole, "two": [{**home, "number": 0}]})


async def test_two_classes_of_one_name_keep_their_own_definitions(server: Server) -> None:
    ours = {}
    exec("class Address(Struct):\n    street: int\n", {"Struct": Struct, "__name__": "elsewhere"}, ours)

    def take(one: list[Address], two) -> None: ...

    take.__annotations__["two"] = list[ours["Address"]]
    server.add_tool(take)
    validator = jsonschema_rs.validator_for(await input_schema(server))
    assert validator.is_valid({"one": [{"city": "Faro", "number": 1}], "two": [{"street": 1}]})
    assert not validator.is_valid({"one": [{"street": 1}], "two": []})
    assert not validator.is_valid({"one": [], "two": [{"city": "Faro", "number": 1}]})


# What a call is checked for


GOOD = [
    (Annotated[int, Field(ge=1)], 1, "1"),
    (Annotated[int | None, Field(ge=1)], None, "None"),
    (Annotated[str, Field(pattern="^[a-z]+$")], "abc", "'abc'"),
    (PositiveInt, 10**30, str(10**30)),
    (Annotated[Decimal, Field(gt=0)], "1.50", "Decimal('1.50')"),
    (Address, {"city": "Porto", "number": 7}, "Address(city='Porto', number=7)"),
    (dict[str, Address], {"a": {"city": "Faro", "number": 1}}, "{'a': Address(city='Faro', number=1)}"),
    (Address | None, None, "None"),
    (Cat | Dog, {"kind": "dog", "good": True}, "Dog(kind='dog', good=True)"),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"kind": "cat", "lives": 9},
        "Cat(kind='cat', lives=9)",
    ),
    (Size, {"width": 2}, "Size(width=2, height=1)"),
    (Plain, {"width": 2}, "Plain(width=2)"),
    (Options, {"depth": 3}, "{'depth': 3}"),
    (Numbers, [1, 2], "Numbers(root=[1, 2])"),
    (Even, 4, "4"),
    (Annotated[int, BeforeValidator(lambda value: len(value))], "abc", "3"),
    (Annotated[int, AfterValidator(lambda value: value * 2), Field(ge=10)], 5, "10"),
    (Annotated[int, at.Predicate(lambda value: value > 2)], 3, "3"),
    (Annotated[int, Field(strict=False)], "5", "5"),
    (Percent, 100, "100"),
    (Annotated[int | str, Field(ge=1)], "a", "'a'"),
    (Annotated[int, Field(le=10**30)], 10**30, str(10**30)),
    (pydantic.Json, "[1]", "[1]"),
    (pydantic.JsonValue, {"a": [None]}, "{'a': [None]}"),
    (Nested, {"a": [1]}, "{'a': [1]}"),
    (Annotated[UserId, Field(ge=1)], 1, "1"),
    (
        datetime.datetime,
        "2024-01-01T00:00:00Z",
        "datetime.datetime(2024, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)",
    ),
]


if sys.version_info >= (3, 12):  # what a `type` statement names may hold itself
    exec("type Endless = dict[str, Endless] | list[Endless] | int")
    GOOD += [(Endless, {"a": [1]}, "{'a': [1]}")]  # noqa: F821


@pytest.mark.parametrize(("hint", "value", "told"), GOOD, ids=named)
async def test_a_good_value_arrives_as_its_type(hint: Any, value: Any, told: str) -> None:
    result = await call(server_of(taking(hint)), x=value)
    assert text_of(result) == told
    assert "isError" not in result


BAD = [
    (Annotated[int, Field(ge=1, description="d")], -5, "field 'x': expected `int` >= 1"),
    (Annotated[int, Field(ge=1)], "5", "field 'x': expected `int`, got `str`"),
    (Annotated[int | None, Field(ge=1)], 0, "field 'x': expected `int` >= 1"),
    (Annotated[str, Field(max_length=2)], "abc", "field 'x': expected `str` of length <= 2"),
    (Annotated[str, Field(pattern="^[a-z]+$")], "A", "field 'x': expected `str` matching regex '^[a-z]+$'"),
    (list[Annotated[int, Field(ge=1)]], [1, 0], "field 'x[1]': expected `int` >= 1"),
    (PositiveInt, 0, "field 'x': expected `int` >= 1"),
    (Annotated[int, Field(ge=1), Field(ge=5)], 3, "field 'x': expected `int` >= 5"),
    (Annotated[Decimal, Field(gt=0)], "-1", "field 'x': expected a value > 0"),
    (Annotated[int, at.Ge(3)], 2, "field 'x': expected `int` >= 3"),
    (Address, {"city": "Porto"}, "field 'x.number' is required"),
    (Address, {"city": "P", "number": 1}, "field 'x.city': expected `str` of length >= 2"),
    (Address, {"city": "Porto", "number": "1"}, "field 'x.number': expected `int`, got `str`"),
    (Address, {}, "field 'x.city' is required; field 'x.number' is required"),
    (Address, "Porto", "field 'x': expected `object`, got `str`"),
    (Person, {"name": "Ada", "nick": "A"}, "field 'x.nick' is not known here"),
    (Person, {"name": "ada"}, "field 'x.name': a name begins with a capital letter"),
    (Person, {"name": "Ada", "full_name": "A"}, "field 'x.full_name' is not known here"),
    (
        Person,
        {"name": "Ada", "home": {"city": "Porto", "number": 0}},
        "field 'x.home.number': expected `int` >= 1",
    ),
    (list[Person], [{"name": "Ada"}, {"name": 5}], "field 'x[1].name': expected `str`, got `int`"),
    (dict[str, Address], {"a": {"city": "Faro", "number": 0}}, "field 'x[...].number': expected `int` >= 1"),
    (Address | None, {"city": "Faro"}, "field 'x.number' is required"),
    (Crate, {"owner": {"name": "ada"}}, "field 'x.owner.name': a name begins with a capital letter"),
    (
        Crate,
        {"owner": {"name": "Ada"}, "others": [{"city": "Faro", "number": 0}]},
        "field 'x.others[0].number': expected",
    ),
    (Cat | Dog, {"kind": "cat"}, "field 'x.lives' is required"),
    (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cow"}, "field 'x': "),
    (Size, {"width": 0}, "field 'x.width': expected `int` >= 1"),
    (Plain, {"width": 0}, "field 'x.width': expected `int` >= 1"),
    (Options, {"depth": 4}, "field 'x.depth': expected `int` <= 3"),
    (Numbers, [1, "2"], "field 'x[1]': expected `int`, got `str`"),
    (Even, 3, "field 'x': 3 is odd"),
    (Percent, 101, "field 'x': expected `int` <= 100"),
    (Annotated[int | str, Field(ge=1, min_length=2)], 0, "field 'x': expected `int` >= 1"),
    (Annotated[int | str, Field(ge=1, min_length=2)], "a", "field 'x': expected `str` of length >= 2"),
    (Annotated[int | float, Field(ge=1)], 0.5, "field 'x': expected `float` >= 1"),
    (Annotated[int, Field(gt=1, ge=2)], 1, "field 'x': expected `int` >= 2"),
    (Annotated[int, Field(le=10**30)], 10**31, "field 'x': expected `int` <= 1000"),
    (
        Annotated[datetime.date, Field(gt=datetime.date(2020, 1, 1))],
        "2019-01-01",
        "field 'x': expected a value > 2020",
    ),
    (dict[Annotated[str, Field(min_length=2)], int], {"b": 1}, "field 'x': expected `str` of length >= 2"),
    (Nested, {"a": ["1"]}, "field 'x.a"),
    (AnyUrl, "nowhere", "field 'x': expected a valid URL"),
    (
        Tree,
        {"label": "a", "children": [{"label": 1}]},
        "field 'x.children[0].label': expected `str`, got `int`",
    ),
]


@pytest.mark.parametrize(("hint", "value", "told"), BAD, ids=named)
async def test_a_bad_value_is_refused_in_the_kits_words(hint: Any, value: Any, told: str) -> None:
    seen: list[Any] = []
    function = taking(hint)

    def take(x) -> str:
        seen.append(x)
        return ""

    take.__annotations__ = function.__annotations__
    result = await call(server_of(take), x=value)
    assert result["isError"] is True
    assert text_of(result).startswith(f"Invalid arguments for tool 'take': {told}"), text_of(result)
    assert seen == []


async def test_defaults_and_other_names_reach_the_function(server: Server) -> None:
    @server.tool
    async def take(
        start: int = Field(alias="from"),
        end: int = Field(9, alias="to"),
        tags: list[str] = Field(default_factory=lambda: ["new"]),  # noqa: B008
        home: Address = Address(city="Faro", number=1),  # noqa: B008
    ) -> str:
        tags.append("seen")
        home.number += 1
        return f"{start} {end} {tags} {home.number}"

    for _ in range(2):
        assert text_of(await call(server, **{"from": 1})) == "1 9 ['new', 'seen'] 2"
    assert text_of(await call(server, **{"from": 1, "to": 2, "tags": []})) == "1 2 ['seen'] 2"
    assert "field 'from' is required" in text_of(await call(server))
    assert "field 'start' is not known here" in text_of(await call(server, start=1))
    assert (await input_schema(server))["required"] == ["from"]


async def test_a_validator_with_a_bug_fails_the_call_and_tells_nothing(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(BaseModel):
        a: int

        @model_validator(mode="after")
        def _check(self) -> "Broken":
            raise (KeyError if self.a == 1 else TypeError)("hunter2")

    @server.tool
    async def take(x: Broken) -> str:
        return ""

    for number in (1, 2):
        result = await call(server, x={"a": number})
        assert result["isError"] is True
        assert "failed unexpectedly" in text_of(result)
        assert "hunter2" not in text_of(result)
    assert caplog.text.count("hunter2") >= 2
    assert "isError" in await call(server, x={"a": "1"})


async def test_a_message_about_a_value_has_an_end(server: Server) -> None:
    @server.tool
    async def take(x: Annotated[str, AfterValidator(lambda value: _refuse(value))]) -> str:
        return ""

    assert len(text_of(await call(server, x="y" * 100_000))) < 1000


def _refuse(value: str) -> str:
    raise ValueError(f"no {value}")


async def test_the_mcp_client_calls_a_tool_of_models() -> None:
    server = Server("bench", version="1.0")

    @server.tool
    async def move(who: Person, to: Annotated[Address, Field(description="Where to")]) -> Person:
        return who.model_copy(update={"home": to, "full_name": "Ada Lovelace"})

    async with serving(server.asgi()) as served, mcp.Client(f"http://127.0.0.1:{served.port}/mcp") as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.input_schema["properties"]["to"]["description"] == "Where to"
        good = await client.call_tool("move", {"who": {"name": "Ada"}, "to": {"city": "Porto", "number": 7}})
        bad = await client.call_tool("move", {"who": {"name": "Ada"}, "to": {"city": "Porto", "number": -7}})
    assert good.structured_content == {
        "name": "Ada",
        "born": None,
        "home": {"city": "Porto", "number": 7},
        "tags": [],
        "fullName": "Ada Lovelace",
    }
    assert bad.is_error
    assert "field 'to.number': expected `int` >= 1" in reading.text_of(bad.content[0])


# Hypothesis: what the schema admits is taken, and nothing else


class Strictly(BaseModel):
    model_config = ConfigDict(extra="forbid")

    whole: Annotated[int, Field(ge=0, le=9)]
    colour: Literal["red", "blue"]
    maybe: bool | None = None
    names: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=2)] = []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from(["", "a", "red", "5", "true"])
    | st.just(0.5),
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
AGREEING = Server("agreeing")


@AGREEING.tool
async def take_strictly(
    thing: Strictly,
    count: Annotated[int | None, Field(gt=0, lt=9)] = None,
    sort: str = Field("a", max_length=1),
) -> str:
    return "taken"


@given(
    thing=NEARLY | JSON,
    more=st.fixed_dictionaries({}, optional={"count": JSON, "sort": JSON, "other": JSON}),
)
def test_what_the_schema_admits_the_tool_takes_and_nothing_else(thing: Any, more: dict[str, Any]) -> None:
    arguments = {"thing": thing, **more}
    result = asyncio.run(call(AGREEING, "take_strictly", **arguments))
    schema = AGREEING.tools["take_strictly"].info.input_schema
    assert ("isError" not in result) == jsonschema_rs.validator_for(schema).is_valid(arguments), result


NUMBER_LIMITS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "ge": st.integers(-3, 3),
        "gt": st.integers(-3, 3),
        "le": st.integers(-3, 3) | st.just(10**25),
        "lt": st.sampled_from([-1, 0, 2]),
        "multiple_of": st.sampled_from([1, 2, 3]),
    },
)
LENGTH_LIMITS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "min_length": st.integers(0, 3),
        "max_length": st.integers(0, 3),
    },
)


@st.composite
def limited(draw: st.DrawFn) -> Any:
    """A type with limits, at its root or inside of it."""
    number = Annotated[draw(st.sampled_from([int, float])), Field(**draw(NUMBER_LIMITS))]
    text = Annotated[str, Field(**draw(LENGTH_LIMITS)), Field(**draw(LENGTH_LIMITS))]
    items = Annotated[list[draw(st.sampled_from([number, text]))], Field(**draw(LENGTH_LIMITS))]
    kind: Any = draw(st.sampled_from([number, text, items, dict[text, number]]))
    return draw(st.sampled_from([kind, kind | None, Annotated[kind | None, Field(description="d")]]))


SMALL = st.none() | st.booleans() | st.integers(-4, 4) | st.sampled_from([0.5, 2.0, "", "a", "abc", "äöüß"])
VALUES = (
    SMALL
    | st.lists(SMALL, max_size=4)
    | st.dictionaries(st.sampled_from(["", "a", "abcd"]), SMALL, max_size=2)
)


@given(hint=limited(), value=VALUES)
def test_limits_hold_for_the_values_that_pydantic_holds_them_for(hint: Any, value: Any) -> None:
    try:
        pydantic.TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
        fits = True
    except pydantic.ValidationError:
        fits = False
    result = asyncio.run(call(server_of(taking(hint)), x=value))
    assert ("isError" not in result) == fits, result


# Results


def returning(hint: Any, value: Any) -> Server:
    def give():
        return value

    give.__annotations__["return"] = hint
    return server_of(give)


class Report(BaseModel):
    internal: int = Field(default=1, exclude=True)
    celsius: float = Field(alias="degrees")

    @computed_field
    @property
    def fahrenheit(self) -> float:
        return self.celsius * 1.8 + 32

    @field_serializer("celsius")
    def _rounded(self, value: float):
        return f"{value:.1f}"


HOME = Address(city="Porto", number=7)
RESULTS = [
    (Address, HOME, {"city": "Porto", "number": 7}),
    (Address, {"city": "Porto", "number": 7}, {"city": "Porto", "number": 7}),
    (Report, Report(degrees=20), {"degrees": "20.0", "fahrenheit": 68.0}),
    (list[Address], [HOME], {"result": [{"city": "Porto", "number": 7}]}),
    (Address | None, None, {"result": None}),
    (Numbers, Numbers([1, 2]), {"result": [1, 2]}),
    (Tree, Tree(label="a", children=[]), {"label": "a", "children": []}),
    (Size, Size(width=2), {"width": 2, "height": 1}),
    (dict[str, Address], {"a": HOME}, {"a": {"city": "Porto", "number": 7}}),
    (Crate, Crate(Person(name="Ada", fullName="A"), [HOME]), {
        "owner": {"name": "Ada", "born": None, "home": None, "tags": [], "fullName": "A"},
        "others": [{"city": "Porto", "number": 7}],
    }),
    (Annotated[int, PlainSerializer(lambda value: f"#{value}", return_type=str)], 5, {"result": "#5"}),
    (Annotated[int, Field(description="How many")], 5, {"result": 5}),
    (Cat | Dog, Dog(good=True), {"result": {"kind": "dog", "good": True}}),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value", "expected"), RESULTS, ids=named)
async def test_a_result_goes_out_by_its_aliases_and_fits_its_schema(
    hint: Any, value: Any, expected: Any
) -> None:
    server = returning(hint, value)
    result = await call(server, "give")
    if hint is Report:  # its serializer does not say that it makes a string
        assert "does not fit its output schema: field 'degrees'" in text_of(result)
        return
    assert result["structuredContent"] == expected
    jsonschema_rs.validate(await output_schema(server), result["structuredContent"])


async def test_a_computed_field_is_a_part_of_the_result() -> None:
    class Square(BaseModel):
        side: int = Field(serialization_alias="sideLength")

        @computed_field
        @property
        def area(self) -> int:
            return self.side**2

    server = returning(Square, Square(side=3))
    assert (await call(server, "give"))["structuredContent"] == {"sideLength": 3, "area": 9}
    assert set((await output_schema(server))["properties"]) == {"sideLength", "area"}


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Address, {"city": "P", "number": 7}),
        (Address, Address.model_construct(city="Porto", number=0)),
        (Address, None),
        (list[Address], [5]),
        (Crate, {"owner": {}}),
        (Even, "four"),
    ],
    ids=named,
)
async def test_a_result_that_breaks_its_promise_is_an_error(hint: Any, value: Any) -> None:
    result = await call(returning(hint, value), "give")
    assert result["isError"] is True
    assert "does not fit its output schema" in text_of(result)


async def test_a_model_that_nothing_promised_is_structured_too(server: Server) -> None:
    @server.tool
    async def loose():
        return Person(name="Ada", fullName="A")

    @server.tool
    async def spelt() -> ToolResult:
        return ToolResult(structured=HOME)

    assert (await call(server, "loose"))["structuredContent"]["fullName"] == "A"
    assert (await call(server, "spelt"))["structuredContent"] == {"city": "Porto", "number": 7}


async def test_a_model_is_the_type_of_an_output_schema(server: Server) -> None:
    @server.tool(output_schema=Address)
    async def spelt() -> ToolResult:
        return ToolResult(content=["there"], structured=HOME)

    assert set((await output_schema(server))["properties"]) == {"city", "number"}
    assert (await call(server, "spelt"))["structuredContent"] == {"city": "Porto", "number": 7}


# Prompts, addresses, forms


async def test_prompts_and_addresses_read_the_same_annotations(server: Server) -> None:
    @server.prompt
    def greet(
        who: Annotated[str, Field(description="Whom", min_length=2)],
        times: int = Field(1, ge=1, alias="count"),
        home: Address | None = None,
    ) -> str:
        return f"{who} {times} {home!r}"

    @server.resource("a://{number}/{pet}")
    def read(number: Annotated[int, Field(ge=1)], kind: str = Field(alias="pet", pattern="^[a-z]+$")) -> str:
        return f"{number} {kind}"

    async with Client(server) as client:
        (prompt,) = await client.list_all("prompts/list")
        got = (
            await client.get_prompt(
                "greet", {"who": "Ada", "count": "2", "home": '{"city":"Faro","number":1}'}
            )
        ).raw
        contents = (await client.read_resource("a://3/cat")).raw["contents"]
        with pytest.raises(Exception, match="field 'count': expected `int` >= 1"):
            await client.get_prompt("greet", {"who": "Ada", "count": "0"})
        with pytest.raises(Exception, match=r"field 'home\.number'"):
            await client.get_prompt("greet", {"who": "Ada", "home": '{"city":"Faro","number":0}'})
        with pytest.raises(Exception, match="a://0/cat"):
            await client.read_resource("a://0/cat")
    assert prompt["arguments"][0] == {"name": "who", "description": "Whom", "required": True}
    assert prompt["arguments"][1]["name"] == "count"
    assert got["messages"][0]["content"]["text"] == "Ada 2 Address(city='Faro', number=1)"
    assert contents[0]["text"] == "3 cat"


async def test_a_model_is_a_form(server: Server) -> None:
    @server.tool
    async def ask(ctx: Context) -> str:
        answers = await ctx.ask(home=Elicit("Where?", Address))
        return repr(answers["home"].content)

    def answer(question: Elicitation) -> dict[str, Any]:
        assert question.raw["requestedSchema"]["properties"]["number"] == {
            "type": "integer",
            "minimum": 1,
            "description": "Of the house",
        }
        return {"action": "accept", "content": {"city": "Porto", "number": 7}}

    async with Client(server, on_elicit=answer) as client:
        assert text_of((await client.call_tool("ask")).raw) == "Address(city='Porto', number=7)"


async def test_a_form_heeds_the_fields_of_a_dataclass(server: Server) -> None:
    @server.tool
    async def ask(ctx: Context) -> str:
        return repr((await ctx.elicit("How big?", Plain)).content)

    def answer(question: Elicitation) -> dict[str, Any]:
        assert question.raw["requestedSchema"]["properties"]["width"]["minimum"] == 1
        return {"action": "accept", "content": {"width": widths.pop()}}

    widths = [0, 2]
    async with Client(server, on_elicit=answer) as client:
        assert text_of((await client.call_tool("ask")).raw) == "Plain(width=2)"
        with pytest.raises(InvalidParams, match="field 'width': expected `int` >= 1"):
            await client.call_tool("ask")


# What is refused at once


class Marker:
    """Of some other library."""

    def __repr__(self) -> str:
        return "Marker()"


OLD_FIELD = type("FieldInfo", (), {"__module__": "pydantic.v1.fields"})()
"""What Field of Pydantic 1 makes, which Pydantic 2 brings along for some versions of Python only."""


@dataclasses.dataclass
class Marked:
    a: Annotated[int, Marker()]


class FieldInStruct(Struct):
    a: Annotated[int, Field(ge=1)]


class FieldAsDefault(Struct):
    a: int = Field(ge=1)


@pytest.mark.parametrize(
    ("hint", "default", "words"),
    [
        (Annotated[int, Marker()], dataclasses.MISSING, r"Marker\(\).*msgspec\.Meta.*pydantic\.Field"),
        (list[Annotated[int, Marker()]], dataclasses.MISSING, r"Marker\(\)"),
        (Annotated[Address, Marker()], dataclasses.MISSING, r"Marker\(\)"),
        (Annotated[int, AfterValidator(_even), Marker()], dataclasses.MISSING, r"Marker\(\)"),
        (int, OLD_FIELD, "Pydantic 1"),
        (Annotated[int, OLD_FIELD], dataclasses.MISSING, "FieldInfo"),
        (Annotated[int, 5], dataclasses.MISSING, "Unknown annotation 5"),
        (Annotated[int, at.Unit("m")], dataclasses.MISSING, "Unit"),
        (Marked, dataclasses.MISSING, r"Marker\(\).*field 'a' of 'Marked'"),
        (FieldInStruct, dataclasses.MISSING, r"field 'a' of 'FieldInStruct'.*msgspec\.Meta"),
        (list[FieldInStruct], dataclasses.MISSING, r"field 'a' of 'FieldInStruct'.*msgspec\.Meta"),
        (FieldAsDefault, dataclasses.MISSING, r"field 'a' of 'FieldAsDefault'.*msgspec\.Meta"),
        (list[Annotated[int, Field(alias="b")]], dataclasses.MISSING, "alias"),
        (list[Annotated[int, Field(default=1)]], dataclasses.MISSING, "default"),
        (int, Field(validation_alias=AliasChoices("a", "b")), "AliasChoices"),
        (int, Field(default_factory=lambda data: data["a"]), "default_factory"),
        (Annotated[str, Field(ge=1)], dataclasses.MISSING, "ge=1 cannot limit <class 'str'>"),
        (Annotated[int | None, at.MinLen(1)], dataclasses.MISSING, r"min_length=1 cannot limit int \| None"),
        (Annotated[Crate, Field(ge=1)], dataclasses.MISSING, "Crate"),
        (Annotated[int, Field(pattern="a")], dataclasses.MISSING, "pattern"),
        (Crate | Address, dataclasses.MISSING, "Crate"),
    ],
    ids=named,
)  # fmt: skip
def test_an_annotation_that_cannot_be_heeded_is_an_error_with_its_place(
    server: Server, hint: Any, default: Any, words: str
) -> None:
    with pytest.raises(TypeError, match=rf"(?s)take: parameter 'x': .*{words}"):
        server.add_tool(taking(hint, default))
    assert server.tools == {}


def test_a_tool_of_another_name_than_its_function_is_named_too(server: Server) -> None:
    with pytest.raises(TypeError, match=r"tool 'grab': take: parameter 'x': Unknown annotation Marker\(\)"):
        server.add_tool(taking(Annotated[int, Marker()]), name="grab")


def test_one_of_a_result_is_an_error_too(server: Server) -> None:
    def give() -> Annotated[int, Marker()]:
        return 1

    with pytest.raises(TypeError, match=r"give: its result: Unknown annotation Marker\(\)"):
        server.add_tool(give)


def test_two_parameters_cannot_be_called_the_same(server: Server) -> None:
    def give(a: int, b: int = Field(alias="a")) -> None: ...

    with pytest.raises(TypeError, match="give: two parameters are named 'a'"):
        server.add_tool(give)


# Without Pydantic

LEAN = """
import asyncio, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pydantic", "pydantic_core"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
from typing import Annotated
import annotated_types as at
from msgspec import Meta
from toolyard import Client
from toolyard.kit import Server
server = Server("lean")
@server.tool
def add(a: Annotated[int, at.Ge(1)], b: Annotated[int | None, Meta(title="B"), at.Lt(9)] = None) -> int:
    return a + (b or 0)
try:
    @server.tool
    def odd(a: Annotated[int, at.Predicate(bool)]) -> None: ...
except TypeError as error:
    print(error)
async def main():
    async with Client(server) as client:
        for arguments in ({"a": 1, "b": 2}, {"a": 0}, {"a": 1, "b": 9}):
            print((await client.call_tool("add", arguments)).text)
asyncio.run(main())
print("pydantic" in sys.modules)
"""


def test_a_server_without_pydantic_works_and_never_imports_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAN], capture_output=True, text=True, check=True, timeout=50
    )
    odd, good, low, high, imported = done.stdout.splitlines()
    assert odd.startswith("odd: parameter 'a': Predicate(")
    assert odd.endswith("can only be checked by Pydantic 2, which is not imported")
    assert good == '{"result":3}'
    assert low == "Invalid arguments for tool 'add': field 'a': expected `int` >= 1"
    assert high == "Invalid arguments for tool 'add': field 'b': expected `int` <= 8"
    assert imported == "False"


async def test_paths_and_addresses_of_networks_are_read_by_pydantic():
    server = Server("standard")

    @server.tool
    def look(file: Path, to: list[IPv4Address] | None = None) -> str:
        return f"{file!r} {to!r}"

    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
        assert tool["inputSchema"]["properties"]["file"] == {"type": "string", "format": "path"}
        assert text_of((await client.call_tool("look", {"file": "/a"})).raw) == f"{Path('/a')!r} None"
        wrong = (await client.call_tool("look", {"file": "/a", "to": ["1.2.3"]})).raw
        assert wrong["isError"]
        assert "'to[0]'" in text_of(wrong)


def test_a_type_that_nobody_can_read_is_an_error_that_names_it_in_one_line():
    class Odd:
        pass

    def use(odd: Odd) -> None: ...

    with pytest.raises(TypeError, match=r"parameter 'odd': .*Odd.*cannot be described") as caught:
        Server("odd").tool(use)
    assert "\n" not in str(caught.value)
    assert "schema_hook" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "reason"), [("(", "unclosed group"), ("(?=.*[0-9]).+", "look-around.* is not supported")]
)
def test_a_pattern_that_pydantic_cannot_read_is_told_with_its_parameter(pattern: str, reason: str):
    def use(key: Annotated[str, Field(pattern=pattern)]) -> None: ...

    with pytest.raises(TypeError, match=f"use: parameter 'key': .*{reason}") as caught:
        Server("patterns").tool(use)
    assert "\n" not in str(caught.value)
