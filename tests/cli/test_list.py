"""`toolyard list`."""

import json

from tests.cli.running import Served, Toolyard

MANY = """
from toolyard.kit import Server

server = Server("many", page_size=2)
for number in range(5):
    server.add_tool(lambda: "x", name=f"tool_{number}", description="one\\n\\ntwo")
"""
BARE = """
from toolyard.kit import Server

server = Server("bare")
"""


def test_a_pipe_gets_aligned_text(toolyard: Toolyard):
    outcome = toolyard("list")
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Toolyard demo ")
    sections = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert sections == ["Tools", "Resources", "Resource templates", "Prompts"]
    add = next(line for line in lines if line.startswith("  add "))
    echo = next(line for line in lines if line.startswith("  echo "))
    assert add.split("  ")[1] == "add"
    assert "a: number, b: number" in add
    assert add.index("Add two") == echo.index("Give a text")
    assert "steps: integer?" in outcome.out
    assert "explain  topic, audience?" in outcome.out
    assert "\x1b" not in outcome.out


def test_json_has_the_whole_definitions(toolyard: Toolyard):
    outcome = toolyard("list", "--json")
    listed = json.loads(outcome.out)
    assert outcome.out.count("\n") == 1
    assert list(listed) == ["server", "instructions", "tools", "resources", "resourceTemplates", "prompts"]
    assert listed["server"]["name"] == "toolyard"
    add = next(tool for tool in listed["tools"] if tool["name"] == "add")
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert add["outputSchema"]["properties"] == {"sum": {"type": "number"}}


def test_every_tool_of_the_demo_has_title_description_and_all_four_annotations(toolyard: Toolyard):
    hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    for tool in json.loads(toolyard("list", "--json").out)["tools"]:
        assert tool["title"]
        assert tool["description"]
        assert set(tool["annotations"]) == hints


def test_a_server_in_process_and_the_same_over_http_list_the_same(toolyard: Toolyard, demo: Served):
    assert toolyard("list", "--url", demo.url) == toolyard("list")
    assert toolyard("list", "--url", demo.url, "--json") == toolyard("list", "--json")


def test_every_page_of_a_long_list_is_read_and_descriptions_are_cut_to_their_first_paragraph(
    toolyard: Toolyard,
):
    toolyard.write("many.py", MANY)
    lines = toolyard("list", "many.py").out.splitlines()[3:]
    assert [line.split() for line in lines] == [[f"tool_{number}", "one"] for number in range(5)]


def test_a_server_that_offers_nothing_is_listed_by_its_name_alone(toolyard: Toolyard):
    toolyard.write("bare.py", BARE)
    assert toolyard("list", "bare.py").out == "bare 0\n"


def test_a_target_and_an_address_at_once_are_refused(toolyard: Toolyard):
    outcome = toolyard("list", "own.py", "--url", "http://127.0.0.1:1/mcp")
    assert outcome.status == 2
    assert outcome.err == "error: a target and --url at once\nhint: give one of them\n"
