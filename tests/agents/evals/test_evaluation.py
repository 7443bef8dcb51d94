"""Suites run over a real gateway; the models are scripted."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agents.scripted import ScriptedModel, backend_of, call, said
from toolyard.agents import AgentLibrary, LocalGateway
from toolyard.agents.evals import (
    EvalAttempt,
    EvalCase,
    EvalReport,
    EvalSetting,
    EvalSuite,
    compare_reports,
    evaluate,
)
from toolyard.agents.evals.cases import ExpectedCall, ScriptedStep
from toolyard.app import Gateway

ADD = EvalCase(
    name="add",
    task="What is 1 + 2?",
    calls=(ExpectedCall(tool="demo/add", arguments={"a": 1}),),
    answer_contains=("3",),
    script=(ScriptedStep(tool="mcp__demo__add", arguments={"a": 1, "b": 2}, search="add two numbers"),),
)


def setting(gateway: Gateway, folder: Path, model: str = "scripted", **more: Any) -> EvalSetting:
    access = LocalGateway(gateway.view(), gateway.callers)
    return EvalSetting(gateway=access, model=model, folder=folder / "evals", library=AgentLibrary([]), **more)


async def test_a_case_runs_as_often_as_wanted_some_at_a_time(gateway: Gateway, tmp_path: Path) -> None:
    found: list[EvalAttempt] = []
    suite = EvalSuite(cases=(ADD,))
    await evaluate(suite, setting(gateway, tmp_path), times=3, concurrency=2, on_attempt=found.append)
    assert [(one.case, one.is_passed, one.turns, one.tool_calls) for one in found] == [
        ("add", True, 3, 2)
    ] * 3
    assert sorted(one.number for one in found) == [1, 2, 3]
    assert found[0].usage.input > 1000


async def test_a_model_that_does_nothing_fails_and_one_that_crashes_says_why(
    gateway: Gateway, tmp_path: Path
) -> None:
    found: list[EvalAttempt] = []

    def open_backend(spec: str) -> Any:
        steps = [said("No idea.")] if spec == "lazy:1" else [RuntimeError("boom")]
        return backend_of(ScriptedModel(*steps))(spec)

    for model in ("lazy:1", "crash:1"):
        chosen = setting(gateway, tmp_path / model[:4], model, open_backend=open_backend)
        await evaluate(EvalSuite(cases=(ADD,)), chosen, on_attempt=found.append)
    lazy, crashed = found
    assert lazy.problems[0] == 'it did not call demo/add with {"a":1}; it called nothing'
    assert crashed.status == "crashed"
    assert crashed.problems == ("it crashed: RuntimeError: boom",)


async def test_what_has_run_stays_if_the_rest_is_cancelled(gateway: Gateway, tmp_path: Path) -> None:
    found: list[EvalAttempt] = []
    waits = asyncio.Event()

    async def hang(request: Any) -> Any:
        waits.set()
        await asyncio.Event().wait()

    models = iter([ScriptedModel(said(call("mcp__demo__add", a=1, b=2)), said("3")), ScriptedModel(hang)])
    chosen = setting(gateway, tmp_path, "x:1", open_backend=lambda spec: backend_of(next(models))(spec))
    suite = EvalSuite(cases=(ADD, EvalCase(name="other", task="t", answer_contains=("x",))))
    work = asyncio.create_task(evaluate(suite, chosen, on_attempt=found.append))
    await waits.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert [one.is_passed for one in found] == [True]
    report = EvalReport.of("x", found, planned=2)
    assert (report.total.passed, report.missing) == (1, 1)


async def test_a_scripted_model_that_finds_no_tool_says_so(gateway: Gateway, tmp_path: Path) -> None:
    found: list[EvalAttempt] = []
    step = ScriptedStep(tool="mcp__demo__teleport", search="teleport a person")
    case = EvalCase(name="odd", task="Beam me up.", answer_contains=("found no tool",), script=(step,))
    await evaluate(EvalSuite(cases=(case,)), setting(gateway, tmp_path), on_attempt=found.append)
    assert (found[0].is_passed, found[0].tool_calls) == (True, 2)


def test_two_reports_are_compared_over_the_cases_that_both_have() -> None:
    def attempt(case: str, tokens: int, *problems: str) -> EvalAttempt:
        from toolyard.agents.messages import TokenUsage

        usage = TokenUsage(input=tokens, output=10)
        return EvalAttempt(case=case, number=1, problems=problems, status="done", turns=2, usage=usage)

    one = EvalReport.of("a", [attempt("x", 100), attempt("y", 300)], 2)
    other = EvalReport.of("b", [attempt("x", 50, "it failed")], 2)
    found = compare_reports(one, other)
    assert (found.input_tokens_change, found.turns_change, found.cost_change) == (-0.5, 0.0, None)
    (difference,) = found.differences
    assert (difference.case, difference.passed, difference.problems) == ("x", ("1/1", "0/1"), ("it failed",))
