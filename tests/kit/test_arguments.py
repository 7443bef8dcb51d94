"""Arguments: checked before the function sees them, and named in the error when they do not fit."""

import datetime
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct

from tests.kit.calls import text_of
from toolyard import Client
from toolyard.kit import Context, Server


async def call(server: Server, tool: str, arguments: dict[str, Any], era: Any = "modern") -> dict[str, Any]:
    async with Client(server, era=era) as client:
        return (await client.call_tool(tool, arguments)).raw


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(Struct):
    city: str
    number: Annotated[int, Meta(ge=1)]


@dataclass
class Size:
    width: int
    height: int = 1
    notes: list[str] = field(default_factory=list)


class Style(TypedDict):
    stroke: str


@pytest.fixture
def order(server: Server) -> list[dict[str, Any]]:
    """A tool with one parameter of each kind, and the arguments it has been called with."""
    seen: list[dict[str, Any]] = []

    @server.tool
    async def order(
        item: str,
        count: Annotated[int, Meta(ge=1, le=5)] = 1,
        colour: Colour = Colour.RED,
        speed: Literal["slow", "fast"] = "slow",
        to: Address | None = None,
        size: Size | None = None,
        style: Style | None = None,
        lines: list[Address] = [],  # noqa: B006
    ) -> str:
        seen.append(dict(locals(), seen=None))
        return "ordered"

    return seen


async def test_arguments_arrive_as_the_types_of_their_annotations(
    server: Server, order: list[dict[str, Any]]
) -> None:
    result = await call(
        server,
        "order",
        {
            "item": "lamp",
            "count": 2,
            "colour": "blue",
            "to": {"city": "Porto", "number": 7},
            "size": {"width": 3, "notes": ["x"]},
            "style": {"stroke": "thin"},
            "lines": [{"city": "Faro", "number": 1}],
        },
    )
    assert text_of(result) == "ordered"
    (got,) = order
    assert got["colour"] is Colour.BLUE
    assert got["to"] == Address("Porto", 7)
    assert got["size"] == Size(3, 1, ["x"])
    assert got["style"] == {"stroke": "thin"}
    assert got["lines"] == [Address("Faro", 1)]


async def test_defaults_stand_in_for_what_is_left_out(server: Server, order: list[dict[str, Any]]) -> None:
    await call(server, "order", {"item": "lamp"})
    (got,) = order
    assert (got["count"], got["colour"], got["speed"], got["to"], got["lines"]) == (
        1,
        Colour.RED,
        "slow",
        None,
        [],
    )


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        ({}, "'item'", "required"),
        ({"item": 5}, "'item'", "expected `str`, got `int`"),
        ({"item": None}, "'item'", "expected `str`, got `null`"),
        ({"item": "x", "count": "two"}, "'count'", "expected `int`, got `str`"),
        ({"item": "x", "count": 6}, "'count'", "<= 5"),
        ({"item": "x", "count": 0}, "'count'", ">= 1"),
        ({"item": "x", "count": 1.5}, "'count'", "expected `int`, got `float`"),
        ({"item": "x", "count": True}, "'count'", "expected `int`, got `bool`"),
        ({"item": "x", "colour": "green"}, "'colour'", "'green'"),
        ({"item": "x", "speed": "warp"}, "'speed'", "'warp'"),
        ({"item": "x", "to": {"city": "Porto"}}, "'to.number'", "required"),
        ({"item": "x", "to": {"city": "Porto", "number": 0}}, "'to.number'", ">= 1"),
        ({"item": "x", "to": "Porto"}, "'to'", "expected `object | null`, got `str`"),
        ({"item": "x", "size": {"width": "3"}}, "'size.width'", "expected `int`, got `str`"),
        ({"item": "x", "style": {}}, "'style.stroke'", "required"),
        (
            {"item": "x", "lines": [{"city": "A", "number": 1}, {"city": 2, "number": 1}]},
            "'lines[1]",
            "`str`",
        ),
        ({"item": "x", "lines": [{"city": "A", "number": 1}, 5]}, "'lines[1]'", "`object`, got `int`"),
        ({"item": "x", "colour ": "red"}, "'colour '", "not known"),
    ],
)
async def test_an_error_names_the_field_and_what_was_expected(
    server: Server, order: list[dict[str, Any]], arguments: dict[str, Any], field: str, expected: str
) -> None:
    result = await call(server, "order", arguments)
    assert result["isError"] is True
    assert "structuredContent" not in result
    text = text_of(result)
    assert "'order'" in text
    assert field in text
    assert expected in text
    assert order == [], "the function saw arguments that do not fit"


async def test_an_argument_error_reads_the_same_in_both_eras(server: Server, era: Any) -> None:
    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    result = await call(server, "add", {"a": 1, "b": "2"}, era)
    assert text_of(result) == "Invalid arguments for tool 'add': field 'b': expected `int`, got `str`"


async def test_an_unknown_field_is_refused_by_name(server: Server) -> None:
    @server.tool
    async def add(a: int) -> int:
        return a

    result = await call(server, "add", {"a": 1, "aa": 2})
    assert text_of(result) == "Invalid arguments for tool 'add': field 'aa' is not known here"


async def test_the_context_cannot_be_passed_as_an_argument(server: Server) -> None:
    @server.tool
    async def who(ctx: Context) -> str:
        return ctx.caller.client.name

    result = await call(server, "who", {"ctx": {"caller": "someone else"}})
    assert result["isError"] is True
    assert "'ctx'" in text_of(result)


@pytest.mark.parametrize("arguments", [None, [], "text", 5])
async def test_arguments_that_are_no_object_are_refused_in_a_sentence(server: Server, arguments: Any) -> None:
    @server.tool
    async def free(a: int = 1) -> int:
        return a

    async with Client(server) as client:
        result = await client.request("tools/call", {"name": "free", "arguments": arguments})
    assert result["isError"] is True
    assert "expected `object`" in text_of(result)


async def test_arguments_may_be_left_out_when_none_is_required(server: Server) -> None:
    @server.tool
    async def free(a: int = 1) -> int:
        return a

    async with Client(server) as client:
        result = await client.request("tools/call", {"name": "free"})
    assert result["structuredContent"] == {"result": 1}


async def test_dates_are_parsed_and_bad_ones_named(server: Server) -> None:
    @server.tool
    async def year(of: datetime.date) -> int:
        return of.year

    assert (await call(server, "year", {"of": "1969-07-20"}))["structuredContent"] == {"result": 1969}
    assert "'of'" in text_of(await call(server, "year", {"of": "yesterday"}))


async def test_numbers_beyond_64_bits_arrive_whole(server: Server) -> None:
    @server.tool
    async def digits(n: int) -> str:
        return str(n)

    assert text_of(await call(server, "digits", {"n": 10**30})) == str(10**30)


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


class Box(Struct):
    items: list[str] = []


async def test_mutable_defaults_are_fresh_in_every_call(server: Server) -> None:
    @server.tool
    async def collect(
        empty: list[str] = [],  # noqa: B006
        full: list[list[str]] = [["a"]],  # noqa: B006
        table: dict[str, list[int]] = {"k": []},  # noqa: B006
        group: set[int] = {1},  # noqa: B006
    ) -> list[int]:
        empty.append("x")
        full[0].append("x")
        table["k"].append(1)
        group.add(len(group) + 1)
        return [len(empty), len(full[0]), len(table["k"]), len(group)]

    for _ in range(3):
        assert (await call(server, "collect", {}))["structuredContent"] == {"result": [1, 2, 1, 2]}


async def test_a_mutable_object_as_a_default_is_fresh_in_every_call(server: Server) -> None:
    @server.tool
    async def pack(basket: Basket = Basket(), box: Box = Box(["a"])) -> list[int]:  # noqa: B008
        basket.items.append("x")
        box.items.append("x")
        return [len(basket.items), len(box.items)]

    for _ in range(3):
        assert (await call(server, "pack", {}))["structuredContent"] == {"result": [1, 2]}
