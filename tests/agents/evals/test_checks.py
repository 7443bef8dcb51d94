"""What passes and what does not, and why."""

from pathlib import Path
from typing import Any

import pytest

from toolyard.agents.evals.cases import EvalCase, ExpectedCall, FileCheck
from toolyard.agents.evals.checks import FinishedRun, SeenCall, fits, names, problems

ADD = SeenCall("mcp__demo__add", {"a": 1, "b": 2}, False)
ECHO = SeenCall("mcp__demo__echo", {"text": "hi"}, False)
FAILED = SeenCall("mcp__demo__add", {"a": "x"}, True)


def judged(folder: Path, *calls: SeenCall, answer: str = "", **case: Any) -> tuple[str, ...]:
    found = EvalCase(name="c", task="t", **case)
    return problems(found, FinishedRun(True, "", answer, folder, calls))


@pytest.mark.parametrize(
    ("pattern", "tool", "is_named"),
    [
        ("demo/add", "mcp__demo__add", True),
        ("mcp__demo__add", "mcp__demo__add", True),
        ("add", "mcp__demo__add", True),
        ("demo/*", "mcp__demo__add", True),
        ("*", "anything", True),
        ("add", "mcp__other__add_more", False),
        ("shop/add", "mcp__demo__add", False),
        ("search_tools", "search_tools", True),
    ],
)
def test_a_tool_is_named_in_several_ways(pattern: str, tool: str, is_named: bool) -> None:
    assert names(pattern, tool) is is_named


@pytest.mark.parametrize(
    ("expected", "value", "is_fit"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": "*"}, {"a": [1]}, True),
        ({"a": "*"}, {}, False),
        ({"a": "re:^x"}, {"a": "xyz"}, True),
        ({"a": "re:^x"}, {"a": 5}, False),
        ({"a": {"b": "*"}}, {"a": {"b": None, "c": 1}}, True),
        ({"a": [1, "re:."]}, {"a": [1, "z"]}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
    ],
)
def test_arguments_fit_their_patterns(expected: Any, value: Any, is_fit: bool) -> None:
    assert fits(expected, value) is is_fit


def test_calls_are_expected_in_any_order_or_in_one(tmp_path: Path) -> None:
    calls = (ExpectedCall(tool="demo/echo"), ExpectedCall(tool="demo/add", arguments={"a": 1}))
    assert judged(tmp_path, ADD, ECHO, calls=calls) == ()
    assert judged(tmp_path, ECHO, ADD, calls=calls, in_order=True) == ()
    (problem,) = judged(tmp_path, ADD, ECHO, calls=calls, in_order=True)
    assert "in this order" in problem


def test_one_call_does_not_count_for_two_and_a_failed_one_for_none(tmp_path: Path) -> None:
    twice = (ExpectedCall(tool="add"), ExpectedCall(tool="add"))
    (problem,) = judged(tmp_path, ADD, FAILED, calls=twice)
    assert problem == (
        'it did not call add; it called mcp__demo__add {"a":1,"b":2}, mcp__demo__add {"a":"x"} (failed)'
    )


def test_forbidden_tools_answers_and_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Monday")
    (tmp_path / "out").symlink_to("/etc/passwd")
    files = (
        FileCheck(path="a.md", contains="Monday", matches="^M"),
        FileCheck(path="a.md", contains="Friday"),
        FileCheck(path="b.md"),
        FileCheck(path="a.md", absent=True),
        FileCheck(path="out"),
    )
    found = judged(
        tmp_path,
        ECHO,
        answer="Forty-two",
        forbidden=("demo/*",),
        answer_contains=("forty", "six"),
        files=files,
    )
    assert found == (
        "it called mcp__demo__echo, which is forbidden",
        "the answer does not contain 'six': Forty-two",
        "the file 'a.md' does not contain 'Friday'",
        "there is no file 'b.md'",
        "the file 'a.md' is there",
        "there is no file 'out'",
    )


def test_a_run_that_did_not_finish_has_not_passed(tmp_path: Path) -> None:
    case = EvalCase(name="c", task="t", answer_contains=("x",))
    run = FinishedRun(False, "limit of turns: 3 turns", "x", tmp_path, ())
    assert problems(case, run) == ("it did not finish: limit of turns: 3 turns",)
