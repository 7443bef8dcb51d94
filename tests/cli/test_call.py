"""`toolyard call`, in process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Toolyard

TYPES = """
import sys
from typing import Any
from msgspec import Struct
from toolyard.kit import Audio, BlobContents, EmbeddedResource, ResourceLink, Server, TextContents, ToolResult

server = Server("types")

class Point(Struct):
    x: int
    y: int = 0

@server.tool
def show(
    text: str = "", count: int = 0, ratio: float = 0.0, flag: bool = False, numbers: list[int] = [],
    point: Point | None = None, either: int | str = 0, maybe: str | None = None, anything: Any = None,
) -> dict[str, Any]:
    return {k: v for k, v in locals().items() if v not in ("", 0, None, [])}

@server.tool
def blocks() -> list:
    return [
        "plain",
        Audio(b"sound", "audio/wav"),
        ResourceLink("x://y", "a link"),
        EmbeddedResource(TextContents("x://z", "embedded")),
        EmbeddedResource(BlobContents("x://b", b"blob", "application/pdf")),
    ]

@server.tool
def both() -> ToolResult:
    return ToolResult(content=["beside it"], structured={"a": 1})

@server.tool
def read_file() -> ToolResult:
    return ToolResult(content=["one\\ntwo\\n"], structured={"content": "one\\ntwo\\n"})

@server.tool
def noisy() -> str:
    print("printed")
    return "returned"

@server.tool
def broken() -> str:
    raise RuntimeError("inside")

@server.tool(input_schema={"type": "object"})
def loose(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments
"""


@pytest.fixture
def types(toolyard: Toolyard) -> Toolyard:
    toolyard.write("types_server.py", TYPES)
    return toolyard


def show(toolyard: Toolyard, *arguments: str, tool: str = "show") -> object:
    outcome = toolyard("call", tool, *arguments, "--target", "types_server.py")
    assert outcome.status == 0, outcome.err
    return json.loads(outcome.out)


def test_text_comes_out_as_it_is(toolyard: Toolyard):
    outcome = toolyard("call", "echo", "text=a = b\tc\x1b[1m")
    assert (outcome.status, outcome.out, outcome.err) == (0, "a = b\tc\x1b[1m\n", "")


def test_structured_results_come_out_as_one_line_of_json(toolyard: Toolyard):
    assert toolyard("call", "add", "a=1", "b=2.5").out == '{"sum":3.5}\n'


@pytest.mark.parametrize(
    "values",
    [
        {"text=5": "5", "count=-7": -7, "ratio=1e3": 1000.0, "flag=true": True, "numbers=[1, 2]": [1, 2]},
        {"text=true": "true", "count=3.0": 3, "ratio=2": 2.0, 'point={"x": 1}': {"x": 1, "y": 0}},
        {"text=a=b": "a=b", "either=5": 5, "maybe=null": "null", "anything=[1]": [1]},
        {"either=five": "five", "anything=word": "word"},
    ],
)
def test_values_are_read_as_the_schema_says(types: Toolyard, values: dict[str, object]):
    assert show(types, *values) == {pair.partition("=")[0]: value for pair, value in values.items()}


def test_a_tool_without_a_schema_for_its_arguments_takes_what_looks_like_json_as_json(types: Toolyard):
    assert show(types, "a=1", "b=x", "c=[true]", tool="loose") == {"a": 1, "b": "x", "c": [True]}


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        ("count=x", "argument 'count' must be an integer, not 'x'"),
        ("count=1.5", "argument 'count' must be an integer, not '1.5'"),
        ("ratio=NaN", "argument 'ratio' must be a number, not 'NaN'"),
        ("flag=yes", "argument 'flag' must be true or false, not 'yes'"),
        ("numbers=1,2", "argument 'numbers' must be a JSON array, not '1,2'"),
        ("point=5", "argument 'point' must be a JSON object or null, not '5'"),
        ("count", "'count' is not KEY=VALUE"),
        ("=5", "'=5' is not KEY=VALUE"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_the_tool_takes(
    types: Toolyard, pair: str, error: str
):
    outcome = types("call", "show", pair, "--target", "types_server.py")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines()[0] == f"error: {error}"
    assert outcome.err.splitlines()[1].startswith("hint: show takes text: string?, count: integer?, ")


def test_an_argument_that_the_tool_does_not_take_is_told_with_the_nearest(toolyard: Toolyard):
    outcome = toolyard("call", "echo", "txt=hello")
    assert outcome.status == 2
    assert outcome.err == "error: tool 'echo' takes no argument 'txt'\nhint: did you mean 'text'?\n"


def test_an_argument_given_twice_is_refused(toolyard: Toolyard):
    assert "argument 'text' was given twice" in toolyard("call", "echo", "text=a", "text=b").err


def test_args_take_one_json_object_and_pairs_win_over_it(toolyard: Toolyard):
    assert toolyard("call", "add", "--args", '{"a": 1, "b": 1}', "b=2").out == '{"sum":3.0}\n'


def test_args_can_come_from_standard_input(toolyard: Toolyard):
    assert toolyard("call", "echo", "--args", "-", stdin='{"text": "piped"}').out == "piped\n"


@pytest.mark.parametrize("args", ["[1]", "{", "nothing"])
def test_args_that_are_no_object_are_refused(toolyard: Toolyard, args: str):
    outcome = toolyard("call", "echo", "--args", args)
    assert outcome.status == 2
    assert outcome.err.startswith("error: --args is not a JSON object: ")
    assert """hint: as in --args '{"a": 1}'""" in outcome.err


def test_json_prints_the_whole_result(toolyard: Toolyard):
    result = json.loads(toolyard("call", "add", "a=1", "b=1", "--json").out)
    assert result["structuredContent"] == {"sum": 2.0}
    assert result["content"] == [{"type": "text", "text": '{"sum":2.0}'}]


def test_a_tools_own_error_goes_to_standard_error_with_status_1(toolyard: Toolyard):
    outcome = toolyard("call", "now", "zone=Nowhere")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == "No time zone 'Nowhere' on this machine; try 'UTC' or 'Europe/Lisbon'\n"


def test_with_json_a_tools_error_is_data_and_still_status_1(toolyard: Toolyard):
    outcome = toolyard("call", "add", "a=1", "--json")
    assert outcome.status == 1
    assert json.loads(outcome.out)["isError"] is True


def test_a_tool_that_breaks_shows_the_traceback_of_its_own_process(types: Toolyard):
    outcome = types("call", "broken", "--target", "types_server.py")
    assert outcome.status == 1
    assert "RuntimeError: inside" in outcome.err
    assert "Tool 'broken' failed unexpectedly" in outcome.err


def test_an_unknown_tool_is_told_with_the_nearest_names(toolyard: Toolyard):
    outcome = toolyard("call", "ecoh")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines() == [
        "error: no tool 'ecoh'",
        "hint: did you mean 'echo'?",
        "hint: `toolyard list` shows them all",
    ]


def test_progress_goes_to_standard_error_line_by_line(toolyard: Toolyard):
    outcome = toolyard("call", "countdown", "steps=2", "pause=0")
    assert outcome.out == "Counted down from 2.\n"
    assert outcome.err == "0/2 2 to go\n1/2 1 to go\n2/2 zero\n"


def test_a_question_without_a_terminal_is_declined_with_a_hint(toolyard: Toolyard):
    outcome = toolyard("call", "ask_name")
    assert (outcome.status, outcome.out) == (0, "Hello, whoever you are.\n")
    assert outcome.err.startswith("hint: declined the tool's question 'What should I call you?': ")


def test_every_kind_of_content_has_a_line(types: Toolyard):
    outcome = types("call", "blocks", "--target", "types_server.py")
    assert outcome.out.splitlines() == [
        "plain",
        "[audio/wav, 5 bytes]",
        "[a link: x://y]",
        "embedded",
        "[application/pdf, 4 bytes]",
    ]


def test_content_beside_structured_data_is_shown_and_its_twin_is_not(types: Toolyard):
    assert types("call", "both", "--target", "types_server.py").out == 'beside it\n{"a":1}\n'
    with types.terminal("call", "both", "--target", "types_server.py") as terminal:
        assert terminal.end() == 0
    assert terminal.seen == "beside it\n", "a person reads one form of it"


def test_a_text_that_is_the_only_field_of_the_structured_data_is_printed_once_as_text(types: Toolyard):
    assert types("call", "read_file", "--target", "types_server.py").out.rstrip() == "one\ntwo"
    whole = json.loads(types("call", "read_file", "--target", "types_server.py", "--json").out)
    assert whole["structuredContent"] == {"content": "one\ntwo\n"}


def test_save_writes_binary_content_under_names_of_our_own_and_overwrites_nothing(toolyard: Toolyard):
    for number in (1, 2):
        outcome = toolyard("call", "swatch", "colour=#000000", "--save", "pictures")
        path = Path("pictures") / f"swatch-{number}.png"
        assert outcome.out.endswith(f" bytes] {path}\n")
        assert (toolyard.folder / path).read_bytes().startswith(b"\x89PNG")


def test_what_a_tool_prints_is_not_the_commands_output(types: Toolyard):
    outcome = types("call", "noisy", "--target", "types_server.py")
    assert (outcome.out, outcome.err) == ("returned\n", "printed\n")


LOUD = """
import os, subprocess, sys
held = sys.stdout
os.write(1, b"raw at import\\n")
from toolyard.kit import Server
server = Server("loud")

@server.tool
def loud() -> str:
    os.write(1, b"raw\\n")
    subprocess.run(["sh", "-c", "echo child"])
    print("held", file=held)
    print("real", file=sys.__stdout__)
    return "returned"
"""


def test_neither_children_nor_raw_writes_get_into_the_commands_output(toolyard: Toolyard):
    toolyard.write("loud.py", LOUD)
    outcome = toolyard("call", "loud", "--target", "loud.py")
    assert (outcome.status, outcome.out) == (0, "returned\n")
    assert sorted(outcome.err.splitlines()) == ["child", "held", "raw", "raw at import", "real"]
    listed = toolyard("list", "loud.py", "--json")
    assert json.loads(listed.out)["server"]["name"] == "loud"
    assert listed.err == "raw at import\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_before_are_no_obstacle(toolyard: Toolyard, closed: str):
    toolyard.write("loud.py", LOUD)
    command = f'"$0" -m toolyard call loud --target loud.py {closed}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, cwd=toolyard.folder)
    assert done.returncode == 0
    assert done.stdout == (b"" if ">&-" in closed.split() else b"returned\n")
