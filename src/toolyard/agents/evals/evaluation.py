"""Runs the cases of a suite, each as often as wanted and some at a time, and judges every run."""

import asyncio
import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ...telemetry.run_spans import NO_SPANS, RunSpans
from ..access import AgentGateway
from ..backends.base import ModelError
from ..definition import AgentDefinition, AgentLibrary
from ..limits import RunLimits
from ..loop import ModelLoop, open_backend
from ..messages import TokenUsage
from ..runner import AgentRunner, run_agent
from ..runs import RunFolder, RunFolderError
from ..session import Backend
from .cases import EvalCase, EvalSuite
from .checks import FinishedRun, calls_of, problems
from .scripted import SCRIPTED, ScriptedCaseModel

PLAIN = AgentDefinition(
    name="eval",
    description="Does one task.",
    prompt="You do one task with your tools, and answer with its result. Your files are in {workspace}.",
    agents=(),
)
"""The agent of suites that name none."""


class EvalAttempt(Struct, frozen=True, kw_only=True):
    """One run of one case, judged."""

    case: str
    number: int
    problems: tuple[str, ...]
    status: str
    turns: int = 0
    tool_calls: int = 0
    usage: TokenUsage = TokenUsage()
    cost: float | None = None
    seconds: float = 0.0

    @property
    def is_passed(self) -> bool:
        return not self.problems


class EvalSetting(Struct, frozen=True, kw_only=True):
    """What the cases run against."""

    gateway: AgentGateway
    model: str
    folder: Path
    """Runs get folders of their own below it."""
    library: AgentLibrary
    agent: str = ""
    limits: RunLimits = RunLimits()
    spans: RunSpans = NO_SPANS
    open_backend: Callable[[str], Backend] = open_backend
    """Opens any model but the scripted one."""


async def evaluate(
    suite: EvalSuite,
    setting: EvalSetting,
    *,
    times: int = 1,
    concurrency: int = 1,
    on_attempt: Callable[[EvalAttempt], None],
) -> None:
    """Calls `on_attempt` after each run. What has run stays judged if this is cancelled."""
    turns = itertools.product(range(1, times + 1), suite.cases)
    lanes = [asyncio.ensure_future(_lane(turns, suite, setting, on_attempt)) for _ in range(concurrency)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


async def _lane(
    turns: "itertools.product[tuple[int, EvalCase]]",
    suite: EvalSuite,
    setting: EvalSetting,
    on_attempt: Callable[[EvalAttempt], None],
) -> None:
    for number, case in turns:  # shared by all lanes: each takes the next one
        on_attempt(await _attempt(case, number, suite, setting))


async def _attempt(case: EvalCase, number: int, suite: EvalSuite, setting: EvalSetting) -> EvalAttempt:
    started = time.monotonic()
    try:
        return await _run(case, number, suite, setting)
    except Exception as error:  # a case that crashes has failed; the others go on
        seconds = round(time.monotonic() - started, 3)
        words = f"it crashed: {type(error).__name__}: {error}"
        return EvalAttempt(
            case=case.name, number=number, problems=(words,), status="crashed", seconds=seconds
        )


async def _run(case: EvalCase, number: int, suite: EvalSuite, setting: EvalSetting) -> EvalAttempt:
    place = setting.folder / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', case.name)[:60]}-{number}"
    try:
        folder = RunFolder.create(place)
    except RunFolderError as error:
        raise EvalRunError(error.message) from None
    try:
        for name, text in case.given.items():
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            (folder.path / name).write_text(text)
        limits = RunLimits(
            turns=case.max_turns or suite.max_turns,
            tool_calls=setting.limits.tool_calls,
            tokens=setting.limits.tokens,
            cost=setting.limits.cost,
            seconds=setting.limits.seconds,
        )
        runner = AgentRunner(
            setting.gateway,
            lambda spec: (
                ModelLoop(ScriptedCaseModel(case)) if spec == SCRIPTED else setting.open_backend(spec)
            ),
            folder,
            library=setting.library if setting.agent else AgentLibrary([PLAIN]),
            model=setting.model,
            agent=setting.agent or PLAIN.name,
            limits=limits,
            spans=setting.spans,
        )
        outcome = await run_agent(case.task, runner)
    finally:
        folder.close()
    record = outcome.record
    run = FinishedRun(outcome.is_done, outcome.reason, outcome.answer, folder.path, calls_of(folder.path))
    return EvalAttempt(
        case=case.name,
        number=number,
        problems=problems(case, run),
        status=outcome.status,
        turns=record.turns,
        tool_calls=record.tool_calls,
        usage=record.usage,
        cost=record.cost,
        seconds=record.seconds,
    )


class EvalRunError(Exception):
    """A run that could not begin."""


def check_model(model: str, open_one: Callable[[str], Backend] = open_backend) -> None:
    """Raises ModelError for a model that cannot be used, before anything runs."""
    if not model:
        raise ModelError("invalid", "there is no model", "--model, TOOLYARD_MODEL, or `model` in the file")
    if model != SCRIPTED:
        open_one(model)


def check_scripts(suite: EvalSuite) -> list[str]:
    """The names of cases that the scripted model has no script for."""
    return [case.name for case in suite.cases if not case.script]
