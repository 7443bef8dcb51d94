"""What is asked of a program, and what counts as the same answer."""

import sys
from pathlib import Path

import pytest

from scripts.faithful.programs import Program
from scripts.faithful.raw import WHIM, compare_program, difference, example, masked, requests, steady

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 2026-07-28T10:20:30.5Z, 2026-07-28 10:20", "at <time>, <time>"),
        ("Thu 10:20:30 GMT", "Thu <time> GMT"),
        ("id 6f1c1c9e-58a8-4f3e-9f0e-2f0f7c1d9a11", "id <id>"),
        ("key 0123456789abcdef0123", "key <id>"),
        ("in /tmp/x1/a", "in <folder>/a"),
        ("2026 apples, abc", "2026 apples, abc"),
    ],
)
def test_times_ids_and_the_folder_are_masked(text: str, expected: str):
    assert masked({"a": [text]}, {"/tmp/x1": "<folder>"}) == {"a": [expected]}


def test_the_state_of_a_request_is_whatever_its_server_makes_of_it():
    assert masked({"requestState": "abc"}, {}) == {"requestState": "<state>"}


def test_what_a_program_says_differently_each_time_is_not_compared():
    expected = steady({"a": 1, "b": [0.1, "x"]}, {"a": 1, "b": [0.2, "x"]})
    assert expected == {"a": 1, "b": [WHIM, "x"]}
    assert difference(expected, {"a": 1, "b": [0.3, "x"]}) is None
    assert difference(expected, {"a": 1, "b": [0.3, "y"]}) == '/b/1 is "y" instead of "x"'


@pytest.mark.parametrize(
    ("got", "said"),
    [
        ({"a": 1}, "/b is missing"),
        ({"a": 1, "b": True, "c": 0}, "/c is added: 0"),
        ({"a": 1, "b": 1}, "/b is 1 instead of true"),
        ({"a": 1.0, "b": True}, "/a is 1.0 instead of 1"),
        ({"a": [], "b": True}, "/a is [] instead of 1"),
    ],
)
def test_every_member_has_to_be_the_same(got: object, said: str):
    assert difference({"a": 1, "b": True}, got) == said


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 1}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"enum": ["p", "q"]}}}, "p"),
        ({"anyOf": [{"type": "array", "items": {"type": "boolean"}}, {"type": "null"}]}, [True]),
        ({"type": "number", "minimum": 2.5}, 2.5),
        ({"type": "string", "format": "email"}, "ada@example.com"),
        ({"type": "string", "minLength": 6}, "textxx"),
        ({"default": {"k": 1}}, {"k": 1}),
    ],
)
def test_arguments_are_the_simplest_that_fit_the_schema(schema: dict[str, object], value: object):
    assert example(schema) == value


def test_of_a_program_that_goes_out_into_the_internet_no_tool_is_called():
    tool = {"name": "look_up", "inputSchema": {"type": "object"}}
    listed = {"tools": [tool], "prompts": [], "resources": [], "resourceTemplates": []}
    assert "tools/call look_up" in [one.label for one in requests(listed, True)]
    assert "tools/call look_up" not in [one.label for one in requests(listed, False)]


SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("small")

@server.tool()
def greet(name: str) -> str:
    return f"Hello, {name}"

@server.tool()
def surroundings() -> str:
    return os.environ.get("TOLD", "alone")

server.run()
"""


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_program_answers_the_same_through_the_gateway(tmp_path: Path, era: str):
    file = tmp_path / "server.py"
    file.write_text(SERVER, "utf-8")
    program = Program("small", (sys.executable, str(file)), str(ROOT))
    found = await compare_program(program, era, sys.executable)
    assert found is not None
    assert found.requests > 10
    assert not {"tools/call greet", "tools/call surroundings", "tools/call greet without"} & set(
        found.different
    )


async def test_a_program_that_does_not_start_is_not_compared():
    assert await compare_program(Program("none", ("/no/such/program",)), "legacy", sys.executable) is None
