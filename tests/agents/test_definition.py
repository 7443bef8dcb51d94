"""Agents as files: what is read, what is ignored, and what an error names."""

from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.agents import AgentFileError, AgentLibrary, UnknownAgentError
from toolyard.agents.definition import parse_agent

FILE = Path("agents/a.md")


def agent(head: str, prompt: str = "Do it.") -> str:
    return f"---\n{head}\n---\n{prompt}\n"


def test_a_file_of_claude_code_is_read_as_it_means_it() -> None:
    found = parse_agent(
        agent(
            "# a comment\nname: code-reviewer\n"
            "description: Use it when: code changes. Examples: <example>user: hi</example>\n"
            "tools: Read, Bash(git *), mcp__github__create_issue, mcp__notes, crm/*:read, "
            "Task(helper, other)\n"
            "disallowedTools:\n  - mcp__github__delete_repo\n  - 'crm/delete_*'\n"
            "model: inherit\nmaxTurns: 7 # not more\ncolor: blue\nhooks:\n  PreToolUse:\n    - matcher: x\n"
        ),
        FILE,
    )
    assert found.description == "Use it when: code changes. Examples: <example>user: hi</example>"
    assert found.tools == ("github/create_issue", "notes/*", "crm/*:read")
    assert found.denied_tools == ("github/delete_repo", "crm/delete_*")
    assert (found.agents, found.model, found.max_turns) == (("helper", "other"), "", 7)
    assert found.ignored == ("color", "hooks", "Read", "Bash(git *)")


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ("description: |\n  one\n   two\n\n  three", "one\n two\n\nthree"),
        ("description: >-\n  one\n  two\n\n  three", "one two\nthree"),
        ('description: "a \\"b\\"\\n c"', 'a "b"\n c'),
        ("description: 'it''s'", "it's"),
        ("description: one\n  and more", "one and more"),
        ("description: one # two", "one"),
        ("description: one#two", "one#two"),
        ("description: 'one # two'  # three", "one # two"),
    ],
)
def test_texts_may_have_any_form_of_yaml(head: str, wanted: str) -> None:
    assert parse_agent(agent(f"name: a\n{head}"), FILE).description == wanted


BLANKS = " " * 1_000_000


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (f"a{BLANKS}b", f"a{BLANKS}b"),
        (f"'a{BLANKS}b'", f"a{BLANKS}b"),
        ("'a'" + " #" * 500_000 + "'", "a'" + " #" * 500_000),
    ],
    ids=["plain", "quoted", "no comments"],
)
def test_a_value_of_a_megabyte_is_read_in_one_pass(written: str, wanted: str) -> None:
    assert parse_agent(agent(f"name: a\ndescription: {written}"), FILE).description == wanted


@pytest.mark.parametrize(
    ("tools", "wanted"),
    [
        ("tools: [demo/add, 'demo/now']", ("demo/add", "demo/now")),
        ("tools:\n- demo/add\n- demo/now", ("demo/add", "demo/now")),
        ("tools: '*'", ("*",)),
        ("tools:", ()),
        ("", None),
    ],
)
def test_tools_may_be_a_list_of_either_form(tools: str, wanted: tuple[str, ...] | None) -> None:
    found = parse_agent(agent(f"name: a\ndescription: b\n{tools}"), FILE)
    assert found.tools == wanted
    assert found.agents == (None if wanted is None else ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no front matter", "line 1: there is no front matter"),
        ("---\nname: a\n", "line 3: the front matter has no end"),
        (agent("name: a\ndescription: b", ""), "line 4: there is no prompt"),
        (agent("name: a"), "line 1: 'description' is missing"),
        (agent("name: a b\ndescription: c"), "line 2: 'a b' cannot be the name of an agent"),
        (agent("name: a\nname: b"), "line 3: 'name' is there twice"),
        (agent("name: a\ndescription: 'b"), "line 3: a ' is not closed"),
        (agent("name: a\ndescription: b\nmaxTurns: many"), "line 4: 'maxTurns' is not a number of turns"),
        (agent("name: a\ndescription: b\ntools: /add"), "line 4: '/add' names no server"),
        (agent("name: a\ndescription: b\ntools: [x/y"), "line 4: a list that begins with ["),
    ],
)
def test_an_error_names_the_file_and_the_line(text: str, message: str) -> None:
    with pytest.raises(AgentFileError) as caught:
        parse_agent(text, FILE)
    assert str(caught.value).startswith(f"agents/a.md, {message}")


@given(st.text(max_size=200))
def test_any_text_is_an_agent_or_an_error_of_ours(head: str) -> None:
    with suppress(AgentFileError):
        parse_agent(agent(f"name: a\ndescription: b\n{head}"), FILE)


def test_the_folder_that_is_named_comes_before_the_project_and_what_is_shipped(tmp_path: Path) -> None:
    for folder, description in (
        ("given", "given"),
        (".toolyard/agents", "toolyard"),
        (".claude/agents", "claude"),
    ):
        place = tmp_path / folder
        place.mkdir(parents=True)
        (place / "main.md").write_text(agent(f"name: main\ndescription: {description}"))
        (place / "own.md").write_text(agent(f"name: {description}\ndescription: x"))
    assert AgentLibrary.load(tmp_path / "given", tmp_path).get("main").description == "given"
    library = AgentLibrary.load(None, tmp_path)
    assert library.get("main").description == "toolyard"
    assert {"claude", "report-creation-expert"} <= {one.name for one in library}
    with pytest.raises(UnknownAgentError, match="no agent 'mian'") as caught:
        library.get("mian")
    assert caught.value.hint == "did you mean 'main'?"


def test_the_shipped_agents_have_the_rules_of_the_report_expert(tmp_path: Path) -> None:
    library = AgentLibrary.load(None, tmp_path)
    main, expert = library.get("main"), library.get("report-creation-expert")
    assert not main.ignored + expert.ignored
    assert [one.name for one in library.below(main)] == ["report-creation-expert"]
    assert library.below(expert) == []
    prompt = expert.system_prompt(".", date(2026, 11, 18))
    for rule in (
        "10 pages",
        "one call of `crawl_parallel`",
        "Wednesday, 18 November 2026",
        "executive",
    ):
        assert rule in prompt
    assert "{" not in prompt
