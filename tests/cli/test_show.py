"""`toolyard show`: one tool, with its schemas as tables and a call to copy."""

import json
import shlex
import subprocess

import pytest

from tests.cli.running import COMMAND, Served, Toolyard
from tests.cli.stranger import Message, answer, modern, stranger

ORDERS = """
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolyard.kit import Server

server = Server("orders")

class Line(Struct):
    "One line."
    article: Annotated[str, Meta(description="The article's number", min_length=3, max_length=12)]
    count: Annotated[int, Meta(ge=1, le=99)] = 1

class Address(Struct):
    city: str
    country: Annotated[str, Meta(pattern="^[A-Z]{2}$", examples=["PT"])]

@server.tool(title="Place an order", destructive=True, open_world=False)
def order(
    lines: Annotated[list[Line], Meta(min_length=1)],
    address: Address,
    speed: Literal["slow", "fast"] = "slow",
    note: str | None = None,
) -> dict[str, int]:
    '''Place an order. It cannot be taken back.

    The customer is told by mail.
    '''
    return {"number": len(lines)}

@server.tool
def order_status(number: int) -> str:
    return "on its way"
"""


def rows(text: str, section: str) -> list[list[str]]:
    """The cells of a table, by two blanks or more."""
    lines = text.split(f"\n{section}\n", 1)[1].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_a_tool_is_shown_with_its_whole_description_and_its_arguments_as_a_table(toolyard: Toolyard):
    toolyard.write("orders.py", ORDERS)
    outcome = toolyard("show", "order", "--target", "orders.py")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("order: Place an order\n")
    assert "  Place an order. It cannot be taken back.\n" in outcome.out
    assert "  The customer is told by mail.\n" in outcome.out
    assert "destructive" in outcome.out.split("Arguments")[0]
    table = rows(outcome.out, "Arguments")
    assert table[0] == ["name", "type", "required", "default", "limits", "description"]
    found = {row[0]: row[1:] for row in table[1:]}
    assert found["lines"] == ["array of object", "yes", "1 item or more"]
    assert found["article"] == ["string", "yes", "3 to 12 characters", "The article's number"]
    assert found["count"] == ["integer", "1", "1 to 99"]
    assert found["address"] == ["object", "yes"]
    assert found["country"] == ["string", "yes", "pattern ^[A-Z]{2}$"]
    assert found["speed"] == ["string", '"slow"', "fast, slow"]
    assert found["note"][:1] == ["string|null"]
    lines = outcome.out.splitlines()
    inner = next(line for line in lines if line.strip().startswith("article "))
    outer = next(line for line in lines if line.strip().startswith("lines "))
    assert len(inner) - len(inner.lstrip()) > len(outer) - len(outer.lstrip())
    assert "Result" in outcome.out


@pytest.mark.parametrize("tool", ["echo", "add", "now", "text_statistics", "swatch", "countdown"])
def test_the_example_is_a_call_that_works(toolyard: Toolyard, tool: str):
    shown = toolyard("show", tool).out
    example = shown.split("\nExample\n")[1].strip()
    words = shlex.split(example)
    assert words[0] == "toolyard"
    assert toolyard(*words[1:]).status == 0, example


def test_the_example_of_nested_arguments_works_too(toolyard: Toolyard):
    toolyard.write("orders.py", ORDERS)
    shown = toolyard("show", "order", "--target", "orders.py").out
    example = shown.split("\nExample\n")[1].strip()
    assert "--target orders.py" in example
    done = subprocess.run(
        ["bash", "-c", example.replace("toolyard", " ".join(COMMAND), 1)],
        cwd=toolyard.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert '"number":1' in done.stdout


def test_an_unknown_name_gets_the_nearest_one(toolyard: Toolyard):
    toolyard.write("orders.py", ORDERS)
    outcome = toolyard("show", "ordr_status", "--target", "orders.py")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: no tool 'ordr_status'\nhint: did you mean 'order_status'")


def test_json_is_the_whole_definition(toolyard: Toolyard):
    found = json.loads(toolyard("show", "add", "--json").out)
    assert found["name"] == "add"
    assert found["inputSchema"]["required"] == ["a", "b"]
    assert found["outputSchema"]["properties"] == {"sum": {"type": "number"}}


def test_a_tool_of_a_configuration_and_of_a_running_server_is_shown(toolyard: Toolyard, demo: Served):
    toolyard.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    assert "mcp__demo__add: Add\n" in toolyard("show", "mcp__demo__add").out
    remote = toolyard("show", "add", "--url", demo.url)
    assert f"toolyard call add a=1 b=1 --url {demo.url}" in remote.out


def test_a_tool_that_a_gateway_does_not_list_is_shown_by_its_full_name(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    with toolyard.serving() as served:
        shown = toolyard("show", "mcp__demo__add", "--url", served.url)
    assert shown.status == 0, shown.err
    assert ["a", "number", "yes", "The first number"] in rows(shown.out, "Arguments")


CIRCLE = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}}
DEEP: Message = {"type": "string"}
for _ in range(50):
    DEEP = {"type": "object", "properties": {"in": DEEP}, "required": ["in"]}
WIDE = {"properties": {f"p{number}": {"type": "string"} for number in range(5000)}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": CIRCLE}, "$defs": CIRCLE["$defs"], "required": ["a"]},
        DEEP,
        WIDE,
        {"properties": {"a": {"items": {"items": {"items": True}}, "type": "array", "enum": [[]]}}},
        {"properties": [1], "required": {"x": 1}},
        {"properties": {"\x1b[2J": {"description": "\x1b[2J", "default": "\x1b", "pattern": "\x1b"}}},
        {"properties": {"a": {"anyOf": [{"properties": {"x": {}}}, {"type": "null"}], "minimum": "x"}}},
        {"properties": {"a": {"type": "integer", "minimum": 10**400, "maxLength": -1}}, "required": ["a"]},
        True,
    ],
    ids=["circle", "deep", "wide", "lists", "no-object", "hostile", "either", "numbers", "true"],
)
def test_a_schema_of_any_shape_is_shown_in_bounds(toolyard: Toolyard, schema: object):
    def tools(message: Message) -> list[bytes]:
        tool = {"name": "t", "description": "x" * 5000, "inputSchema": schema, "outputSchema": schema}
        return answer(message, {"tools": [tool]})

    with stranger(modern, tools_list=tools) as url:
        outcome = toolyard("show", "t", "--url", url)
    assert outcome.status == 0, outcome.err
    assert "\x1b" not in outcome.out
    assert len(outcome.out.splitlines()) < 1000


def test_on_a_terminal_the_table_fits_its_width(toolyard: Toolyard):
    toolyard.write("orders.py", ORDERS)
    with toolyard.terminal("show", "order", "--target", "orders.py", COLUMNS="72") as terminal:
        assert terminal.end() == 0
    table = terminal.seen.split("Example")[0]
    assert max(len(line) for line in table.splitlines()) <= 72
    assert "3 to 12 characters; The" in table
