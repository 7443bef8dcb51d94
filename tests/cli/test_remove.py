"""`toolyard remove`."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Toolyard

BEFORE = """\
# Mine.
[servers.a]
command = "x"

# About git.
[servers.git]
command = "y"  # with a comment
# and another of its own

# Where docs are.
[servers.docs]
url = "https://example.com/mcp"
# right above the next
[servers.git.env]
A = "b"

# The end.
"""
AFTER = """\
# Mine.
[servers.a]
command = "x"

# About git.

# Where docs are.
[servers.docs]
url = "https://example.com/mcp"
# right above the next

# The end.
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_the_entry_goes_and_the_comments_around_it_stay(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", BEFORE)
    outcome = toolyard("remove", "git")
    assert (outcome.status, outcome.out, outcome.err) == (0, "removed 'git' from toolyard.toml\n", "")
    assert file.read_text() == AFTER


def test_the_last_one_leaves_an_empty_file(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", '[servers.a]\ncommand = "x"\n')
    assert toolyard("remove", "a").status == 0
    assert file.read_text() == ""


def test_an_unknown_name_gives_the_nearest(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", BEFORE)
    outcome = toolyard("remove", "gti")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "error: no server 'gti' in toolyard.toml\nhint: did you mean 'git'?\n"
    assert file.read_text() == BEFORE
    assert toolyard("remove", "zzz").err.endswith("hint: known: a, git, docs\n")


def test_one_that_is_included_is_told_with_its_file(toolyard: Toolyard):
    toolyard.write("mcp.json", '{"mcpServers": {"git": {"command": "x"}, "b": {"command": "y"}}}')
    toolyard.write("toolyard.toml", 'include = ["mcp.json"]\n')
    outcome = toolyard("remove", "git")
    assert outcome.status == 2
    assert outcome.err == (
        "error: 'git' is not in toolyard.toml itself: it is included from mcp.json\n"
        "hint: `toolyard remove git --config mcp.json` removes it there\n"
    )
    assert toolyard("remove", "git", "--config", "mcp.json").status == 0
    left = json.loads((toolyard.folder / "mcp.json").read_text())
    assert left == {"mcpServers": {"b": {"command": "y"}}}


def test_one_that_is_still_needed_stays(toolyard: Toolyard):
    text = '[gateway]\nview = "bare"\nserver = "git"\n[servers.git]\ncommand = "x"\n'
    file = toolyard.write("toolyard.toml", text)
    outcome = toolyard("remove", "git")
    assert outcome.status == 2
    assert outcome.err.startswith("error: toolyard.toml: [gateway] names an unknown server 'git'\n")
    assert file.read_text() == text


def test_a_file_that_does_not_load_can_be_repaired_entry_by_entry(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", "[servers.a]\ncomand = 1\n[servers.b]\ntimeout = 0\n")
    outcome = toolyard("remove", "a")
    assert outcome.status == 0
    assert outcome.err.startswith("warning: toolyard.toml could not be loaded before the change\n")
    assert file.read_text() == "[servers.b]\ntimeout = 0\n"


def test_without_a_file_there_is_nothing_to_remove(toolyard: Toolyard):
    outcome = toolyard("remove", "a")
    assert outcome.status == 2
    assert outcome.err == "error: no file 'toolyard.toml'\nhint: --config FILE names another\n"
