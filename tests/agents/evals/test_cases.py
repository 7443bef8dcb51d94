"""Files of cases: every form, and what is said about one that cannot be used."""

import json
from pathlib import Path

import pytest

from toolyard.agents.evals import EvalFileError, load_suite

CASE = {"name": "add", "task": "What is 1 + 2?", "answer_contains": ["3"]}
TOML = '[[cases]]\nname = "add"\ntask = "What is 1 + 2?"\nanswer_contains = ["3"]\n'


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", TOML),
        ("a.yaml", json.dumps({"cases": [CASE]})),
        ("a.yml", "- name: add\n  task: What is 1 + 2?\n  answer_contains: ['3']\n"),
        ("a.json", json.dumps([CASE])),
        ("a.jsonl", f"{json.dumps(CASE)}\n\n"),
    ],
)
def test_cases_are_read_from_every_form(tmp_path: Path, name: str, text: str) -> None:
    suite = load_suite(written(tmp_path, name, text))
    assert suite.name == "a"
    assert [case.answer_contains for case in suite.cases] == [("3",)]


@pytest.mark.parametrize(
    ("name", "text", "says", "hint"),
    [
        ("a.toml", "cases = [", "a.toml", ""),
        ("a.toml", "", "no cases", "`cases`"),
        ("a.toml", "cases = []", "no cases", ""),
        ("a.txt", TOML, "no known form", ".toml"),
        ("a.yaml", "a: [", "a.yaml", ""),
        ("a.yaml", "just words", "no cases", ""),
        ("a.jsonl", '{"name": "add"', "line 1", ""),
        ("a.json", "[" * 100_000, "a.json", ""),
        ("a.toml", f"modle = 'x'\n{TOML}", "unknown key 'modle'", "'model'"),
        (
            "a.toml",
            TOML.replace("answer_contains", "answer_contain"),
            "unknown key 'answer_contain'",
            "answer_",
        ),
        ("a.toml", TOML.replace('["3"]', '"3"'), "case 'add'", ""),
        ("a.toml", TOML.replace('answer_contains = ["3"]', ""), "checks nothing", "calls"),
        ("a.toml", TOML + TOML, "twice", ""),
        ("a.toml", TOML + 'answer_matches = "("', "not a regular expression", ""),
        ("a.toml", TOML + 'calls = [{ tool = "add", arguments = { a = "re:(" } }]', "not a regular", ""),
        ("a.toml", TOML + 'calls = [{ tol = "add" }]', "case 'add'", ""),
        ("a.toml", TOML + 'given = { "../x" = "y" }', "not a path inside", ""),
        ("a.toml", TOML + 'files = [{ path = "/etc/passwd" }]', "not a path inside", ""),
        ("a.toml", TOML.replace("What is 1 + 2?", " "), "needs a name and a task", ""),
        ("a.jsonl", "[]", "case 1", ""),
    ],
)
def test_a_file_that_cannot_be_used_names_the_case_and_what_to_do(
    tmp_path: Path, name: str, text: str, says: str, hint: str
) -> None:
    with pytest.raises(EvalFileError) as raised:
        load_suite(written(tmp_path, name, text))
    assert says in raised.value.message
    assert hint in raised.value.hint


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match="cannot read"):
        load_suite(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(EvalFileError, match="not UTF-8"):
        load_suite(tmp_path / "a.toml")
