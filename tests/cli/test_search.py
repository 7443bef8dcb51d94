"""`toolyard search`."""

import json
import sys

import pytest

from tests.cli.running import Toolyard

OFFICE = """
from toolyard.kit import Server

server = Server("office")
mail = "Send an email to somebody."
server.add_tool(lambda to: "sent", name="send_email", title="Send an email", description=mail)
server.add_tool(lambda: "x", name="paint_wall", description="Paint a wall.\\n\\nAny colour.")
"""
CONFIG = """
[gateway]
view = "all"
[servers.office]
module = "office.py:server"
[servers.gone]
command = "/nowhere/to/be/found"
[servers.broken]
url = "http://localhost/mcp"
headers = { Authorization = "Bearer ${NOT_SET}" }
"""


def test_the_tools_that_fit_are_a_table_best_first_and_what_is_missing_a_warning(toolyard: Toolyard):
    toolyard.write("office.py", OFFICE)
    toolyard.write("toolyard.toml", CONFIG)
    outcome = toolyard("search", "send", "an", "email")
    assert outcome.status == 0
    head, first, *_ = outcome.out.splitlines()
    assert head.split() == ["tool", "server", "score", "what", "it", "does"]
    assert first.split()[:2] == ["mcp__office__send_email", "office"]
    assert first.endswith("Send an email: Send an email to somebody.")
    assert 0.5 < float(first.split()[2]) <= 1
    warned = {line.split()[1] for line in outcome.err.splitlines() if line.startswith("warning:")}
    assert warned == {"gone:", "broken:"}
    explained = toolyard("search", "--explain", "--limit", "1", "paint a wall")
    head, only = explained.out.splitlines()
    assert {"lexical", "semantic"} <= set(head.split())
    assert "mcp__office__paint_wall" in only
    assert "+0." in only
    assert only.endswith("Paint a wall. Any colour.")


def test_json_has_names_scores_and_schemas_and_where_scores_came_from_when_asked(toolyard: Toolyard):
    outcome = toolyard("search", "--json", "--server", "demo", "--explain", "add two numbers")
    assert (outcome.status, outcome.err, outcome.out.count("\n")) == (0, "", 1)
    answer = json.loads(outcome.out)
    assert list(answer) == ["results", "session", "source", "missing"]
    best = answer["results"][0]["results"][0]
    assert best["tool"] == "mcp__demo__add"
    assert abs(sum(best["parts"].values()) - best["score"]) < 0.01
    assert best["input_schema"]["required"] == ["a", "b"]
    plain = json.loads(toolyard("search", "--json", "add two numbers").out)
    assert "parts" not in plain["results"][0]["results"][0]


def test_nothing_that_fits_and_nothing_to_search_for_are_said_in_words(toolyard: Toolyard):
    nothing = toolyard("search", "--server", "nobody", "add two numbers")
    assert (nothing.status, nothing.out) == (0, "")
    assert "warning: no tool fits 'add two numbers'" in nothing.err
    assert "unknown server; available: demo" in nothing.err
    empty = toolyard("search", " ")
    assert empty.status == 2
    assert "error: the use case is empty" in empty.err
    wrong = toolyard("search", "--limit", "0", "x")
    assert wrong.status == 2


def test_a_terminal_gets_a_drawn_table(toolyard: Toolyard):
    with toolyard.terminal("search", "ask for a name") as terminal:
        assert terminal.end() == 0
    assert "mcp__demo__ask_name" in terminal.seen
    assert "what it does" in terminal.seen


LONG = """
from toolyard.kit import Server

server = Server("filesystem")
about = "Find files and folders below a folder by a pattern. " + "Patterns are globs. " * 30
server.add_tool(lambda: "x", name="search_files_recursively", description=about)
"""


@pytest.mark.parametrize("arguments", [[], ["--explain"]])
def test_a_tool_is_one_line_with_its_whole_name_however_long_its_description(
    toolyard: Toolyard, arguments: list[str]
):
    toolyard.write("files.py", LONG)
    toolyard.write("toolyard.toml", '[servers.filesystem]\nmodule = "files.py"\n')
    name = "mcp__filesystem__search_files_recursively"
    piped = toolyard("search", *arguments, "find files")
    assert [line.split()[0] for line in piped.out.splitlines()] == ["tool", name]
    assert piped.out.endswith("…\n")
    with toolyard.terminal("search", *arguments, "find files", COLUMNS="80") as terminal:
        assert terminal.end() == 0
    assert [line.split()[0] for line in terminal.seen.splitlines()] == ["tool", name]
    if not arguments:
        assert max(map(len, piped.out.splitlines())) == 120
        assert max(map(len, terminal.seen.splitlines())) == 80


SLOW = """
import os, sys, time

print("fetching the package", file=sys.stderr, flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)

from toolyard.kit import Server

server = Server("slow")
server.add_tool(lambda: "x", name="find_orders", description="Find orders of a customer.")
server.run_stdio()
"""


def test_a_terminal_is_shown_whom_a_search_waits_for(toolyard: Toolyard):
    program = toolyard.write("slow.py", SLOW)
    entry = f'[servers.slow]\ncommand = "{sys.executable}"\nargs = ["{program}"]\ncwd = "{toolyard.folder}"\n'
    toolyard.write("toolyard.toml", f"[gateway]\nlist_wait = 60\n{entry}")
    with toolyard.terminal("search", "orders of a customer") as terminal:
        terminal.expect("waiting for slow")
        terminal.expect("s: fetching the package")
        toolyard.write("go", "")
        assert terminal.end() == 0
    assert "mcp__slow__find_orders" in terminal.seen
