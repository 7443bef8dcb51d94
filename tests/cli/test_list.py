"""`toolyard list`."""

import json
import re
import sys

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


def test_a_pipe_gets_a_line_a_tool_with_the_first_sentence(toolyard: Toolyard):
    outcome = toolyard("list")
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Toolyard demo ")
    sections = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert sections == ["Tools", "Resources", "Resource templates", "Prompts"]
    add = next(line for line in lines if line.startswith("  add "))
    echo = next(line for line in lines if line.startswith("  echo "))
    assert add.split() == ["add", "Add", "two", "numbers."]
    assert add.index("Add two") == echo.index("Give a text")
    assert "\x1b" not in outcome.out


def test_long_has_the_arguments_and_the_whole_description(toolyard: Toolyard):
    outcome = toolyard("list", "--long")
    assert outcome.status == 0
    assert "  add(a: number, b: number)\n      Add two numbers.\n" in outcome.out
    assert "steps: integer?" in outcome.out
    assert "  explain(topic, audience?)\n" in outcome.out
    assert "\x1b" not in outcome.out


WORDY = """
from toolyard.kit import Server

server = Server("wordy")
long = "Reads a file, e.g. a text, and more. " + "It goes on and on. " * 40 + "\\n\\nArgs: many " + "x" * 300
server.add_tool(lambda: "x", name="short", description=long)
server.add_tool(lambda: "x", name="endless", description="word " * 200)
server.add_tool(lambda: "x", name="n" * 64, description="漢字" * 100)
"""


def test_no_line_is_wider_than_a_page_however_much_a_server_says(toolyard: Toolyard):
    toolyard.write("wordy.py", WORDY)
    outcome = toolyard("list", "wordy.py")
    assert outcome.out.count("\n") == 6
    assert max(map(len, outcome.out.splitlines())) == 120
    short = next(line for line in outcome.out.splitlines() if line.startswith("  short"))
    assert short.split(maxsplit=1)[1] == "Reads a file, e.g. a text, and more."
    endless = next(line for line in outcome.out.splitlines() if line.startswith("  endless"))
    assert endless.endswith("…")
    assert f"  {'n' * 64}  漢字" in outcome.out
    whole = toolyard("list", "wordy.py", "--long").out
    assert "Args: many" in whole
    assert "x" * 300 in whole.replace("\n", "").replace(" ", "")
    assert max(map(len, whole.splitlines())) <= 120
    with toolyard.terminal("list", "wordy.py", COLUMNS="80") as terminal:
        assert terminal.end() == 0
    assert terminal.seen.count("\n") == 6


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


# Of a configuration

LATE = """
import os, sys, time

open("begun", "w").close()
print("fetching the package", file=sys.stderr, flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)

from toolyard.kit import Server

server = Server("late")

@server.tool
def arrive() -> str:
    "Arrive at last."
    return "here"

server.run_stdio()
"""
DEMO = '[servers.demo]\nmodule = "demo"\nallow = ["echo", "add", "explain"]\n'
FAILS = f'[servers.fails]\ncommand = "{sys.executable}"\nargs = ["-c", "raise SystemExit(\'no key\')"]\n'


def late(toolyard: Toolyard, *others: str, list_wait: float = 0.2) -> None:
    """A configuration with a program that does not begin to answer before the file `go` is there."""
    program = toolyard.write("late.py", LATE)
    entry = f'[servers.late]\ncommand = "{sys.executable}"\nargs = ["{program}"]\ncwd = "{toolyard.folder}"\n'
    gateway = f"[gateway]\nlist_wait = {list_wait}\n"
    toolyard.write("toolyard.toml", "\n".join([gateway, entry, "connect_timeout = 60", *others]))


def test_servers_are_groups_with_their_state(toolyard: Toolyard):
    off = '[servers.off]\nurl = "http://127.0.0.1:9/mcp"\nenabled = false\n'
    unset = '[servers.unset]\nurl = "${NOT_SET_ANYWHERE}"\n'
    toolyard.write("toolyard.toml", "\n".join([DEMO, FAILS, off, unset]))
    outcome = toolyard("list")
    lines = outcome.out.splitlines()
    groups = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert groups[0] == "demo: ready, 2 tools, 2 resources, 1 resource template, 1 prompt"
    assert groups[1].startswith("fails: down: ")
    assert "no key" in groups[1]
    assert groups[2].startswith("unset: not usable: 'url' needs the variable 'NOT_SET_ANYWHERE'")
    assert groups[3] == "off: disabled"
    assert len(groups) == 4
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert names[:2] == ["mcp__demo__echo", "mcp__demo__add"]
    assert "mcp__demo__explain" in names
    assert outcome.status == 3
    assert outcome.err == "", "who reads both is told once"


def test_a_terminal_is_told_the_whole_reason_why_a_server_is_down(toolyard: Toolyard):
    reason = " ".join(f"because-{number}" for number in range(20))
    toolyard.write("toolyard.toml", FAILS.replace("no key", reason))
    with toolyard.terminal("list", COLUMNS="80") as terminal:
        assert terminal.end() == 3
    assert reason in " ".join(terminal.seen.split())
    assert max(len(line) for line in terminal.seen.splitlines() if "because" in line) <= 80


def test_who_sends_the_list_elsewhere_is_warned_at_the_terminal(toolyard: Toolyard):
    toolyard.write("toolyard.toml", FAILS)
    with toolyard.terminal("list", "--long", output="listed.txt") as terminal:
        assert terminal.end() == 3
    assert "\nwarning: fails: " in terminal.seen
    assert "fails: down: " in (toolyard.folder / "listed.txt").read_text()


def test_where_all_servers_are_there_the_status_is_0_and_nothing_is_warned_of(toolyard: Toolyard):
    toolyard.write("toolyard.toml", DEMO)
    outcome = toolyard("list")
    assert (outcome.status, outcome.err) == (0, "")


def test_a_server_that_still_starts_is_named_and_the_status_says_that_the_list_is_not_whole(
    toolyard: Toolyard,
):
    late(toolyard, DEMO)
    outcome = toolyard("list")
    assert outcome.status == 3
    assert "mcp__demo__echo" in outcome.out
    assert re.search(r"^late: starting for \d+ s: fetching the package", outcome.out, re.M)
    assert outcome.err.splitlines() == ["hint: --wait waits until every server has started or failed"]
    listed = toolyard("list", "--json")
    assert listed.status == 3
    found = json.loads(listed.out)
    assert found["servers"]["late"]["state"] == "starting"
    assert found["servers"]["demo"] == {"state": "ready", "tools": 2}
    assert "still starting" in found["missing"]["late"]


def test_wait_waits_until_every_server_is_there_and_shows_whom_it_waits_for(toolyard: Toolyard):
    late(toolyard, DEMO)
    with toolyard.terminal("list", "--wait") as terminal:
        terminal.expect("waiting for late")
        terminal.expect("s: fetching the package")
        toolyard.write("go", "")
        assert terminal.end() == 0
    assert "mcp__late__arrive" in terminal.seen
    assert "mcp__demo__echo" in terminal.seen


def test_wait_ends_when_a_server_has_failed(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f"[gateway]\nlist_wait = 0\n{DEMO}{FAILS}")
    outcome = toolyard("list", "--wait")
    assert outcome.status == 3
    assert "mcp__demo__echo" in outcome.out
    assert "fails: down: " in outcome.out


def test_wait_takes_a_number_of_seconds(toolyard: Toolyard):
    late(toolyard, list_wait=60)
    outcome = toolyard("list", "--wait", "0.3")
    assert outcome.status == 3
    assert "late: starting for " in outcome.out
    assert toolyard("list", "--wait", "-1").status == 2


def test_an_address_that_leads_to_another_server_is_warned_of(toolyard: Toolyard):
    toolyard.write(
        "toolyard.toml", "".join(f"[servers.{name}]\nmodule = 'demo'\n" for name in ("one", "two"))
    )
    outcome = toolyard("list")
    assert "warning: two: 'demo://about' leads to 'one', which comes first; its own is" in outcome.err
    assert "one:" not in outcome.err
