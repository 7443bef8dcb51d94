"""`toolyard access`: the matrix, why it is so, what a changed file would change, and what is a mistake."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Toolyard

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "access.toml")

SERVERS = """
from toolyard.kit import Server

git = Server("git")
mail = Server("mail")


@git.tool(read_only=True)
def log() -> str:
    return ""


@git.tool(read_only=False)
def push(force: bool = False) -> str:
    return ""


@git.prompt
def review() -> str:
    return ""


@git.resource("file:///readme")
def readme() -> str:
    return ""


@mail.tool
def send(to: str) -> str:
    return ""
"""

CONFIG = """
[servers.git]
module = "servers.py:git"

[servers.mail]
module = "servers.py:mail"

[access]
agents = ["reader", "writer"]
groups = { authors = ["writer", "user:ada"] }

[[access.rules]]
name = "reading"
allow = ["git/*:read", "prompt:git/*"]

[[access.rules]]
name = "writing"
who = ["group:authors"]
allow = ["git"]
confirm = ["git/push"]

[[access.rules]]
name = "no force"
deny = ["git/push"]
when = "args.force == true"
"""


@pytest.fixture
def yard(toolyard: Toolyard) -> Toolyard:
    toolyard.write("servers.py", SERVERS)
    toolyard.write("toolyard.toml", CONFIG)
    return toolyard


def test_the_matrix_counts_what_each_caller_may_use(yard: Toolyard):
    told = yard("access")
    assert told.status == 0, told.err
    assert told.out == (
        "server         reader  writer  group:authors  user:ada  anybody else\n"
        "git            ◐ 1/2   ● 2 ≈1  ● 2 ≈1         ● 2 ≈1    ◐ 1/2\n"
        "git prompts    ● 1     ● 1     ● 1            ● 1       ● 1\n"
        "git resources  ·       ● 1     ● 1            ● 1       ·\n"
        "mail           ·       ·       ·              ·         ·\n"
        "\n"
        "● allowed   ◐ some of them   ≈ depends on the arguments   · does not exist for them\n"
        "What no rule names is denied.\n"
    )
    assert told.err == ""


def test_each_tool_has_a_row(yard: Toolyard):
    lines = yard("access", "--tools").out.splitlines()
    assert lines[0].split()[:3] == ["tool", "reader", "writer"]
    cells = {line.split()[0]: line.split()[1:3] for line in lines[1:6]}
    assert cells == {
        "git/log": ["●", "●"],
        "git/push": ["·", "≈"],
        "prompt:git/review": ["●", "●"],
        "resource:git/file:///readme": ["·", "●"],
        "mail/send": ["·", "·"],
    }


def test_lists_that_are_known_are_enough(yard: Toolyard):
    offline = yard("access", "--offline")
    assert "No server lists anything." in offline.out
    assert "the lists of git, mail are not known" in offline.err
    drawn = yard("access").out
    yard.write("servers.py", "raise RuntimeError('not started')")
    assert yard("access").out == drawn
    assert yard("access", "--offline").out == drawn


def test_it_says_which_rule_decides(yard: Toolyard):
    told = yard("access", "--explain", "writer", "git/push")
    assert told.out.splitlines() == [
        "writer, git/push: depends on the arguments",
        "  it writes, as its annotations say",
        "  → rule 3 'no force': deny git/push, if args.force == true",
        "  → rule 2 'writing': confirm git/push",
        "    rule 2 'writing': allow git",
    ]
    assert "→ no rule names it: the default, deny" in yard("access", "--explain", "*", "mail/send").out
    assert "user:ada, git/log: allowed" in yard("access", "--explain", "user:ada", "mcp__git__log").out
    found = json.loads(yard("access", "--explain", "writer", "git/push", "--json").out)
    assert (found["verb"], found["rule"], found["conditions"][0]["rule"]) == (
        "confirm",
        "writing",
        "no force",
    )


def test_what_is_asked_about_must_exist(yard: Toolyard):
    unknown = yard("access", "--explain", "writer", "gti/push")
    assert unknown.status == 2
    assert "no tool 'gti/push'" in unknown.err
    assert "did you mean 'git/push'?" in unknown.err
    unlisted = yard("access", "--explain", "writer", "git/pull")
    assert unlisted.status == 0
    assert "git does not list 'pull'" in unlisted.err
    assert "writer, git/pull: allowed" in unlisted.out


def test_a_principal_can_be_tried(yard: Toolyard):
    told = yard("access", "--user", "ada", "--tenant", "acme")
    assert told.out.splitlines()[0].split() == ["server", "reader", "writer", "no", "agent"]
    assert told.out.splitlines()[1].split("  ")[-1] == "● 2 ≈1"
    tried = yard("access", "--explain", "reader", "git/push", "--group", "authors", "--json")
    assert json.loads(tried.out)["verb"] == "confirm"


def test_it_shows_what_a_changed_file_would_change(yard: Toolyard):
    changed = CONFIG.replace('confirm = ["git/push"]', 'deny = ["git/log"]').replace(
        '"prompt:git/*"', '"mail"'
    )
    yard.write("changed.toml", changed)
    told = yard("access", "--try", "changed.toml")
    assert told.status == 0, told.err
    assert told.out.splitlines()[:8] == [
        "reader: 1 added, 1 removed",
        "  + mail/send",
        "  - prompt:git/review",
        "writer: 1 added, 1 removed, 1 changed",
        "  + mail/send",
        "  - git/log",
        "  ~ git/push: deny if args.force == true, confirm → deny if args.force == true, allow",
        "group:authors: 1 added, 1 removed, 1 changed",
    ]
    assert json.loads(yard("access", "--try", "changed.toml", "--json").out)["callers"]["reader"] == {
        "added": ["mail/send"],
        "removed": ["prompt:git/review"],
        "changed": [],
    }
    assert yard("access", "--try", "toolyard.toml").out == "Nothing changes.\n"


def test_patterns_that_match_nothing_and_groups_that_are_not_defined_are_named(yard: Toolyard):
    more = """
[[access.rules]]
name = "wrong"
who = ["group:autors"]
allow = ["gti", "git/psuh"]
"""
    yard.write("toolyard.toml", CONFIG + more)
    told = yard("access")
    assert told.status == 0
    assert "warning: wrong: allow 'gti' matches nothing\nhint: did you mean 'git'?" in told.err
    assert "warning: wrong: allow 'git/psuh' matches nothing\nhint: did you mean 'push'?" in told.err
    assert "group 'autors' is not in [access.groups]" in told.err
    found = json.loads(yard("access", "--json").out)
    assert [one["pattern"] for one in found["unmatched"]] == ["gti", "git/psuh"]
    assert found["callers"]["writer"]["git/push"]["verb"] == "confirm"


def test_a_mistake_in_a_rule_ends_the_command(yard: Toolyard):
    yard.write("toolyard.toml", CONFIG.replace('who = ["group:authors"]', 'who = ["wirter"]'))
    told = yard("access")
    assert told.status == 2
    assert "[access.rules 2] 'writing' names an unknown agent 'wirter'" in told.err
    assert "did you mean 'writer'?" in told.err


def test_without_rules_everybody_may_use_everything(yard: Toolyard):
    yard.write("toolyard.toml", CONFIG.partition("[access]")[0])
    assert yard("access").out == "There are no rules in [access]: every caller may use everything.\n"


def test_the_example_is_drawn(toolyard: Toolyard):
    told = toolyard("access", "--config", EXAMPLE)
    assert told.out.splitlines()[:3] == [
        "server         main   report-creation-expert  anybody else",
        "local_toolkit  ◐ 5/6  ● 6                     ·",
        "composio       ● 4    ◐ 2/4                   ·",
    ]
    assert told.err == ""


def test_an_agent_has_no_more_than_its_own_file_leaves_it(yard: Toolyard):
    folder = yard.folder / ".claude" / "agents"
    folder.mkdir(parents=True)
    head = "name: writer\ndescription: Writes.\ntools: git/*, mail/send\ndisallowedTools: git/log"
    (folder / "writer.md").write_text(f"---\n{head}\n---\nWrite.")
    told = yard("access")
    assert "git            ◐ 1/2   ◐ 1/2 ≈1  ● 2 ≈1" in told.out
    assert told.out.splitlines()[-1] == "writer: no more than .claude/agents/writer.md says."
    assert "mail           ·       ·" in told.out, "its file gives nothing that no rule allows"
    why = yard("access", "--explain", "writer", "git/log")
    assert why.out.splitlines()[0] == "writer, git/log: denied"
    assert (
        "→ its file, .claude/agents/writer.md: tools: git/*, mail/send; disallowedTools: git/log" in why.out
    )
    found = json.loads(yard("access", "--json").out)["callers"]["writer"]["git/log"]
    assert found == {"verb": "deny", "rule": "file .claude/agents/writer.md", "visible": False}
    (folder / "writer.md").write_text("no front matter")
    assert "writer.md, line 1: there is no front matter" in yard("access").err


def test_agents_can_be_files_of_another_folder(yard: Toolyard):
    (yard.folder / "mine").mkdir()
    yard.write("mine/reader.md", "---\nname: reader\ndescription: Reads.\ntools: mail/*\n---\nRead.")
    told = yard("access", "--agents", "mine")
    assert "git            ·       ●" in told.out
    assert "reader: no more than mine/reader.md says." in told.out
