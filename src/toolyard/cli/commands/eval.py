"""`toolyard eval`: runs the cases of a file with an agent, and shows how well and at what cost it does them.

Exit status: 0 if every run passed, 1 if one failed, 2 if nothing could run, 130 if it was interrupted. What
has run until then is shown.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from .. import traffic
from ..agents.gateway import GatewayChoice, GatewayView, OpenRunGateway, prepare_gateway
from ..process import stdout_for_data
from ..ui.messages import CommandError, hint, warn
from ..ui.output import print_json
from ..ui.tables import counted, print_table
from .keys import DURATION
from .options import config_option, debug_option

if TYPE_CHECKING:
    from ...agents import AgentLibrary
    from ...agents.evals import EvalAttempt, EvalReport, EvalSuite
    from ...agents.evals.report import EvalComparison, EvalFigures

INTERRUPTED = 130
VARIED = ("view", "config", "model", "agents")
VIEWS: tuple[GatewayView, ...] = ("auto", "search", "index", "all")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison: the options, and what this side changes in them."""

    name: str = ""
    view: GatewayView | None = None
    config: Path | None = None
    model: str = ""
    agents: Path | None = None


@click.command("eval", short_help="Run tasks with checks, and compare configurations.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--case", "names", multiple=True, metavar="NAME", help="Only this case; may be repeated.")
@click.option(
    "--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="How often each case runs."
)
@click.option(
    "--concurrency", type=click.IntRange(1, 64), default=1, show_default=True, help="Runs at a time."
)
@click.option(
    "--compare",
    metavar="A,B",
    help="Two configurations, as in view=all,view=search. Keys: view, config, model, agents; + joins two.",
)
@click.option("--view", type=click.Choice(VIEWS), help="How tools are offered.")
@click.option(
    "--model",
    metavar="MODEL",
    envvar="TOOLYARD_MODEL",
    show_envvar=True,
    help="As for `toolyard agent`; `scripted` follows the scripts of the cases. Default: the file's.",
)
@click.option("--agents", type=click.Path(path_type=Path), metavar="DIR", help="A folder of agent files.")
@click.option("--max-time", type=DURATION, metavar="TIME", help="Of one run, such as 90 or 10m.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Of one run.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the folders of all runs there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every run, as JSON.")
@config_option
@debug_option
def command(
    file: Path,
    names: tuple[str, ...],
    times: int,
    concurrency: int,
    compare: str | None,
    view: GatewayView | None,
    model: str | None,
    agents: Path | None,
    max_time: float | None,
    max_cost: float | None,
    keep: Path | None,
    as_json: bool,
    config: Path | None,
    debug: bool,
) -> None:
    """Run the cases of FILE (TOML, YAML or JSON lines) with an agent, and check what it did.

    A case has a task and checks: calls of tools, the answer, files of the workspace. With --compare the cases
    run twice and are shown side by side.
    """
    _set_up_logging(debug)
    suite = _suite(file, names)
    context = click.get_current_context()
    if context.get_parameter_source("model") != ParameterSource.COMMANDLINE:
        model = suite.model or model  # the variable is for whoever names none
    given = Configuration(
        view=view, config=config or _config_of(file, suite), model=model or "", agents=agents
    )
    sides = _sides(given, compare)
    plan = _Plan(suite, times, concurrency, max_time, max_cost)
    finished: list[tuple[Configuration, list[EvalAttempt]]] = []
    is_interrupted = False
    with stdout_for_data(), _folder(keep) as folder:
        for number, side in enumerate(sides):
            place = folder / f"{number + 1}"
            with _fresh_state(suite.fresh_state, place / "state"):
                _checked_model(suite, side)
                opened = prepare_gateway(GatewayChoice(config=side.config, view=side.view))
                library = _library(side)
                attempts: list[EvalAttempt] = []
                finished.append((side, attempts))
                work = _evaluate(plan, side, opened, library, place, attempts)
                is_interrupted = not asyncio.run(work)
            if is_interrupted:
                break
    _show(suite, finished, times, as_json)
    failed = any(attempt.problems for _, attempts in finished for attempt in attempts)
    if is_interrupted:
        warn("interrupted: this is what has run")
    context.exit(INTERRUPTED if is_interrupted else 1 if failed else 0)


class _Plan(msgspec.Struct, frozen=True):
    suite: "EvalSuite"
    times: int
    concurrency: int
    max_time: float | None
    max_cost: float | None


# Before anything runs


def _suite(file: Path, names: Sequence[str]) -> "EvalSuite":
    from ...agents.evals import EvalFileError, load_suite
    from ...config.errors import nearest_or_all

    try:
        suite = load_suite(file)
    except EvalFileError as error:
        raise CommandError(error.message, *filter(None, [error.hint])) from None
    known = [case.name for case in suite.cases]
    for name in names:
        if name not in known:
            raise CommandError(f"no case {name!r} in {file}", nearest_or_all(name, known))
    chosen = tuple(case for case in suite.cases if not names or case.name in names)
    return msgspec.structs.replace(suite, cases=chosen)


def _config_of(file: Path, suite: "EvalSuite") -> Path | None:
    return file.parent / suite.config if suite.config else None


def _sides(given: Configuration, compare: str | None) -> list[Configuration]:
    if compare is None:
        return [given]
    parts = [part.strip() for part in compare.split(",")]
    if len(parts) != 2 or not all(parts):
        raise CommandError(
            f"--compare {compare!r} does not name two configurations", "as in view=all,view=search"
        )
    return [_side(given, part) for part in parts]


def _side(given: Configuration, text: str) -> Configuration:
    from ...config.errors import nearest_or_all

    changes: dict[str, Any] = {"name": text}
    for setting in text.split("+"):
        key, equals, value = setting.partition("=")
        if not equals or not value or key not in VARIED:
            raise CommandError(f"--compare: {setting!r} is not a setting", nearest_or_all(key, VARIED))
        if key == "view" and value not in VIEWS:
            raise CommandError(f"--compare: there is no view {value!r}", f"known: {', '.join(VIEWS)}")
        changes[key] = Path(value) if key in ("config", "agents") else value
    return msgspec.structs.replace(given, **changes)


def _library(side: Configuration) -> "AgentLibrary":
    from ...agents import AgentFileError, AgentLibrary

    try:
        return AgentLibrary.load(side.agents)
    except AgentFileError as error:
        raise CommandError(error.message, *filter(None, [error.hint])) from None


def _checked_model(suite: "EvalSuite", side: Configuration) -> None:
    from ...agents.backends.base import ModelError
    from ...agents.evals.evaluation import check_model, check_scripts
    from ...agents.evals.scripted import SCRIPTED

    try:
        check_model(side.model, traffic.open_backend)
    except ModelError as error:
        raise CommandError(error.message, *filter(None, [error.hint])) from None
    if side.model == SCRIPTED and (missing := check_scripts(suite)):
        raise CommandError(f"the case {missing[0]!r} has no script", "`script` lists what the model does")


@contextlib.contextmanager
def _folder(keep: Path | None) -> Generator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="toolyard-eval-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="eval-", dir=keep))
    except OSError as error:
        raise CommandError(f"cannot write to {keep}: {error.strerror}") from None


@contextlib.contextmanager
def _fresh_state(is_wanted: bool, folder: Path) -> Generator[None]:
    """Servers find their state below this variable, whatever the configuration says about theirs."""
    if not is_wanted:
        yield
        return
    before = os.environ.get("XDG_STATE_HOME")
    folder.mkdir(parents=True)
    os.environ["XDG_STATE_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


# While it runs


async def _evaluate(
    plan: _Plan,
    side: Configuration,
    opened: OpenRunGateway,
    library: "AgentLibrary",
    folder: Path,
    attempts: "list[EvalAttempt]",
) -> bool:
    """Fills `attempts`; False if it was interrupted."""
    from ...agents import RunLimits
    from ...agents.evals import EvalSetting, evaluate

    task = asyncio.current_task()
    assert task is not None
    if os.name == "posix":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    total = plan.times * len(plan.suite.cases)

    def note(attempt: "EvalAttempt") -> None:
        attempts.append(attempt)
        outcome = "passed" if attempt.is_passed else "failed"
        label = f"{side.name}: " if side.name else ""
        click.echo(f"{label}{len(attempts)}/{total} {attempt.case}: {outcome}", err=True)

    try:
        async with opened() as gateway:
            setting = EvalSetting(
                gateway=gateway.access,
                model=side.model,
                folder=folder / "runs",
                library=library,
                agent=plan.suite.agent,
                limits=RunLimits(cost=plan.max_cost, seconds=plan.max_time or RunLimits().seconds),
                spans=gateway.spans,
                open_backend=traffic.open_backend,
            )
            await evaluate(
                plan.suite, setting, times=plan.times, concurrency=plan.concurrency, on_attempt=note
            )
    except asyncio.CancelledError:
        return False
    return True


def _set_up_logging(debug: bool) -> None:
    import logging
    import sys

    level = logging.DEBUG if debug else logging.ERROR
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s")


# After it ran


def _show(
    suite: "EvalSuite",
    finished: "Sequence[tuple[Configuration, list[EvalAttempt]]]",
    times: int,
    as_json: bool,
) -> None:
    from ...agents.evals import EvalReport, compare_reports

    planned = times * len(suite.cases)
    reports = [EvalReport.of(side.name or _name(side), attempts, planned) for side, attempts in finished]
    comparison = compare_reports(*reports) if len(reports) == 2 else None
    if as_json:
        found = [
            {**msgspec.to_builtins(report), "attempts": attempts}
            for report, (_, attempts) in zip(reports, finished, strict=True)
        ]
        print_json({"suite": suite.name, "configurations": found, "comparison": comparison})
        return
    if comparison is None:
        _print_one(reports[0])
    else:
        _print_two(reports[0], reports[1], comparison)
    for report in reports:
        _print_problems(report, with_name=comparison is not None)
        if report.missing:
            warn(f"{report.configuration}: {counted(report.missing, 'runs')} did not run")


def _name(side: Configuration) -> str:
    return side.view or side.model


def _print_one(report: "EvalReport") -> None:
    headings = ("case", "passed", "turns", "calls", "tokens in", "out", "cost", "time")
    rows = [_row(figures) for figures in (*report.cases, report.total)]
    print_table(headings, rows, numbers=True)


def _row(figures: "EvalFigures") -> tuple[str, ...]:
    return (
        figures.name,
        _passed(figures),
        f"{figures.turns:.1f}",
        f"{figures.tool_calls:.1f}",
        f"{figures.input_tokens:,.0f}",
        f"{figures.output_tokens:,.0f}",
        _cost(figures.cost),
        f"{figures.seconds:.1f} s",
    )


def _passed(figures: "EvalFigures") -> str:
    return f"{figures.passed}/{figures.attempts}"


def _cost(cost: float | None) -> str:
    return "-" if cost is None else f"${cost:.4f}"


def _print_two(one: "EvalReport", other: "EvalReport", comparison: "EvalComparison") -> None:
    """Every figure of the first configuration, and that of the second after an arrow."""
    with_cost = one.total.cost is not None and other.total.cost is not None
    columns = ("passed", "turns", "calls", "tokens in", "out", "cost")[: 6 if with_cost else 5]
    second = {figures.name: figures for figures in other.cases}
    pairs = [(figures, second[figures.name]) for figures in one.cases if figures.name in second]
    rows: list[tuple[str, ...]] = []
    for first, last in (*pairs, (one.total, other.total)):
        before, after = (_row(figures)[1 : len(columns) + 1] for figures in (first, last))
        rows.append((first.name, *map(" → ".join, zip(before, after, strict=True))))
    click.echo(f"{one.configuration} → {other.configuration}\n")
    print_table(("case", *columns), rows, numbers=True)
    changes = [
        f"{what} {change:+.0%}"
        for what, change in (
            ("tokens in", comparison.input_tokens_change),
            ("tokens out", comparison.output_tokens_change),
            ("turns", comparison.turns_change),
            ("cost", comparison.cost_change),
        )
        if change is not None
    ]
    if changes:
        click.echo(f"\n{other.configuration} against {one.configuration}: {', '.join(changes)}")
    for found in comparison.differences:
        before, after = found.passed
        words = f"{before} with {one.configuration}, {after} with {other.configuration}"
        click.echo(f"{found.case}: passed {words}")


def _print_problems(report: "EvalReport", with_name: bool) -> None:
    label = f"{report.configuration}: " if with_name else ""
    for figures in report.cases:
        for problem in figures.problems:
            warn(f"{label}{figures.name}: {problem}")
    if report.total.passed < report.total.attempts:
        hint("--keep DIR keeps the folders of the runs, with their transcripts")
