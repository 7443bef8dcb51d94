"""`toolyard agent` and `toolyard chat`: run an agent on a task, or talk with one.

Exit status of `agent`: 0 if the agent is done, 1 if it ended for another reason (a limit, a refusal, an error
of the model), 2 if it could not start, 130 if it was interrupted. What happens goes to standard error; the
answer, or with --json the record, to standard output.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click
import msgspec

from .. import traffic
from ..agents.gateway import GatewayChoice, OpenRunGateway, RunGateway, known_secrets, prepare_gateway
from ..process import stdout_for_data
from ..ui.messages import CommandError, hint, is_terminal, one_line, printable, say, warn
from ..ui.output import print_json, print_text
from ..ui.tables import print_table
from .keys import DURATION, moment_of
from .options import config_option, debug_option

if TYPE_CHECKING:
    from ...agents import AgentLibrary, AgentOutcome, AgentRunner, Backend, RunFolder, RunLimits
    from ..agents.display import RunDisplay

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
MODEL_VARIABLE = "TOOLYARD_MODEL"
BACKENDS = ("openai", "anthropic", "claude")


class AgentOptions(TypedDict):
    """The values of `agent_options`."""

    agent: str | None
    agents: Path | None
    model: str | None
    backend: str | None
    max_turns: int | None
    max_tool_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    max_time: float | None
    max_reply: int | None
    context_tokens: int | None
    text_calls: bool
    workspace: Path | None
    resume: str | None
    view: Any
    url: str | None
    key: str | None
    headers: tuple[str, ...]
    without_grants: bool
    config: Path | None
    debug: bool


def agent_options(command: F) -> F:
    positive = click.IntRange(min=1)
    for option in (
        debug_option,
        config_option,
        click.option("--without-grants", is_flag=True, help="With --url: all agents have the key's rights."),
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="With --url: a header to send; may be repeated.",
        ),
        click.option(
            "--key",
            metavar="KEY",
            envvar="TOOLYARD_API_KEY",
            show_envvar=True,
            help="With --url: an API key or a grant of the gateway.",
        ),
        click.option("--url", metavar="URL", help="A running gateway. Default: one in this process."),
        click.option(
            "--view",
            type=click.Choice(["auto", "search", "index", "all"]),
            help="How tools are offered: found by search, in an index, or all listed. Default: as the "
            "configuration says.",
        ),
        click.option("--resume", metavar="RUN", help="Go on with a run: its id, its folder, or `last`."),
        click.option(
            "--workspace",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="The folder of the run. Default: a new one in the state folder.",
        ),
        click.option(
            "--context-tokens",
            type=positive,
            metavar="N",
            help="How much is sent: prompt, tools, conversation.",
        ),
        click.option(
            "--text-calls",
            is_flag=True,
            help="The model writes calls of tools into its text; some are known to.",
        ),
        click.option("--max-reply", type=positive, metavar="N", help="The longest reply, in tokens."),
        click.option("--max-time", type=DURATION, metavar="TIME", help="Such as 90, 30m or 2h. Default: 1h."),
        click.option(
            "--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="In US dollars."
        ),
        click.option("--max-tokens", type=positive, metavar="N", help="Tokens in and out, of all requests."),
        click.option("--max-tool-calls", type=positive, metavar="N", help="Default: 500."),
        click.option("--max-turns", type=positive, metavar="N", help="Of all agents together. Default: 100."),
        click.option("--backend", type=click.Choice(BACKENDS), help="Whose API the model has."),
        click.option(
            "--model",
            metavar="MODEL",
            envvar=MODEL_VARIABLE,
            show_envvar=True,
            help="Such as openai:gpt-4o-mini, anthropic:claude-sonnet-4-5 or claude:sonnet.",
        ),
        click.option(
            "--agents",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="A folder of agent files that come before all others.",
        ),
        click.option("--agent", metavar="NAME", help="The agent that gets the task. Default: main."),
    ):
        command = option(command)
    return command


@click.command("agent", short_help="Give an agent a task.")
@click.argument("task", required=False)
@agent_options
@click.option("--list", "lists_agents", is_flag=True, help="List the agents that can be used, and leave.")
@click.option("--runs", "lists_runs", is_flag=True, help="List the runs, and leave.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the record of the run, as JSON.")
def agent(
    task: str | None,
    lists_agents: bool,
    lists_runs: bool,
    as_json: bool,
    **options: Unpack[AgentOptions],
) -> None:
    """Run an agent on TASK with the tools of the configuration, and print its answer. - reads TASK from
    standard input.

    Each agent gets rights of its own at the gateway. The run has a folder with its transcript and its files;
    --resume goes on with it after any end.
    """
    if lists_agents:
        _list_agents(options["agents"], as_json)
        return
    if lists_runs:
        _list_runs(as_json)
        return
    given = sys.stdin.read().strip() if task == "-" else task or ""
    if not given and options["resume"] is None:
        raise CommandError("there is no task", "toolyard agent 'What to do'", "or --resume RUN")
    from ..agents.display import RunDisplay, summary_line

    with stdout_for_data():
        display = RunDisplay(quiet=as_json)
        prepared = _prepare(options, display, needs_task=not given)
        with display:
            outcome = _run(_do_task(prepared, given, display))
    if outcome.status == "gateway_error" and not outcome.record.turns:
        raise CommandError(outcome.reason, *filter(None, [outcome.hint]))
    if as_json:
        print_json({**msgspec.to_builtins(outcome.record), "folder": str(prepared.folder.path)})
    else:
        click.echo(summary_line(outcome), err=True)
        for file in outcome.record.files:
            click.echo(f"  {printable(str(prepared.folder.path / file.path))}", err=True)
        if not outcome.is_done:
            say("error" if outcome.status != "interrupted" else "warning", outcome.reason)
            if outcome.hint:
                hint(outcome.hint)
        if not outcome.is_done:
            hint(f"toolyard agent --resume {outcome.record.run}")
        if outcome.answer:
            print_text(outcome.answer)
    status = 0 if outcome.is_done else INTERRUPTED if outcome.status == "interrupted" else 1
    click.get_current_context().exit(status)


class _Prepared(msgspec.Struct, frozen=True):
    """All that a run needs, checked before anything starts."""

    open_gateway: OpenRunGateway
    library: "AgentLibrary"
    folder: "RunFolder"
    agent: str
    model: str
    backend: "Backend"
    text_calls: bool
    limits: "RunLimits"

    def runner(self, gateway: RunGateway, display: "RunDisplay") -> "AgentRunner":
        from ...agents import AgentRunner

        tapped = traffic.current()
        return AgentRunner(
            gateway.access,
            lambda spec: self.backend if spec == self.model else traffic.open_backend(spec, self.text_calls),
            self.folder,
            library=self.library,
            model=self.model,
            agent=self.agent,
            limits=self.limits,
            spans=gateway.spans,
            on_event=display.on_event,
            today=None if tapped is None else tapped.today,
        )


@contextmanager
def _without_collection() -> Generator[None]:
    """Imports make objects that stay: collecting among them took a tenth of the CPU of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@_without_collection()
def _prepare(options: AgentOptions, display: "RunDisplay", *, needs_task: bool = False) -> _Prepared:
    """`needs_task`: a run that is done has nothing to go on with."""
    from ...agents import RunFolder, RunFolderError, UnknownAgentError
    from ...agents.runs import find_run, runs_folder

    _set_up_logging(options["debug"])
    library = _library(options["agents"])
    resume, workspace = options["resume"], options["workspace"]
    if resume is not None and workspace is not None:
        raise CommandError("--resume and --workspace at once", "a run goes on in its own folder")
    secrets = [*known_secrets(), *([options["key"]] if options["key"] else [])]
    opened = prepare_gateway(
        GatewayChoice(
            config=options["config"],
            url=options["url"],
            key=options["key"],
            headers=options["headers"],
            view=options["view"],
            without_grants=options["without_grants"],
        ),
        display.asking,
    )
    try:
        if resume is None:
            name = options["agent"] or "main"
            library.get(name)
            model = _model(options["model"], options["backend"], "")
            _backend(model, options["text_calls"])
            folder = RunFolder.create(workspace, secrets=secrets)
        else:
            folder = RunFolder.open(find_run(resume, runs_folder()), secrets=secrets)
            if needs_task and folder.record.status == "done":
                folder.close()
                raise CommandError(f"the run {folder.record.run!r} is done", "give it another task")
            name = options["agent"] or folder.record.agent or "main"
            library.get(name)
            model = _model(options["model"], options["backend"], folder.record.model)
    except (RunFolderError, UnknownAgentError) as error:
        raise CommandError(error.message, *filter(None, [error.hint])) from None
    written = options["text_calls"]
    backend = _backend(model, written)
    return _Prepared(opened, library, folder, name, model, backend, written, _limits(options))


def _backend(model: str, text_calls: bool) -> "Backend":
    """Opened before the run, so that a missing key is an error of the command and not of the run."""
    from ...agents.backends.base import ModelError

    try:
        return traffic.open_backend(model, text_calls)
    except ModelError as error:
        raise CommandError(error.message, *filter(None, [error.hint])) from None


def _library(folder: Path | None) -> "AgentLibrary":
    from ...agents import AgentFileError, AgentLibrary

    try:
        return AgentLibrary.load(folder)
    except AgentFileError as error:
        raise CommandError(error.message, *filter(None, [error.hint])) from None


def _model(given: str | None, backend: str | None, before: str) -> str:
    """The specification of the model. A name alone goes to the backend that is named or suggests itself."""
    if given is None and backend == "claude":
        return "claude:"
    spec = given or before
    if not spec:
        raise CommandError(
            "there is no model",
            f"--model openai:NAME or anthropic:NAME; {MODEL_VARIABLE} is the default",
            "--backend claude uses Claude Code",
        )
    known, colon, name = spec.partition(":")
    if colon and known in BACKENDS:
        return f"{backend}:{name}" if backend else spec
    return f"{backend or ('anthropic' if spec.startswith('claude') else 'openai')}:{spec}"


def _limits(options: AgentOptions) -> "RunLimits":
    from ...agents import RunLimits

    given: dict[str, Any] = {
        "turns": options["max_turns"],
        "tool_calls": options["max_tool_calls"],
        "tokens": options["max_tokens"],
        "cost": options["max_cost"],
        "seconds": options["max_time"],
        "reply_tokens": options["max_reply"],
        "context_tokens": options["context_tokens"],
    }
    return RunLimits(**{name: value for name, value in given.items() if value is not None})


def _set_up_logging(debug: bool) -> None:
    import logging

    level = logging.DEBUG if debug else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s")


async def _do_task(prepared: _Prepared, task: str, display: "RunDisplay") -> "AgentOutcome":
    from ...agents import AgentOutcome
    from ...agents.limits import RunStoppedError

    try:
        async with prepared.open_gateway() as gateway, prepared.runner(gateway, display) as runner:
            if not gateway.is_local:
                warn("files that tools make stay in the workspace of the gateway")
            return await runner.ask(task)
    except asyncio.CancelledError:
        record = prepared.folder.record
        if record.status == "running":  # the gateway was still starting
            record.status, record.reason = "interrupted", "it was stopped"
            with suppress(RunStoppedError):
                prepared.folder.save()
        return AgentOutcome("interrupted", "", "interrupted", "", record)
    finally:
        prepared.folder.close()


def _run(work: Any) -> Any:
    """Ctrl-C cancels the work, which then ends cleanly; a second one ends the process. So does SIGTERM."""

    async def guarded() -> Any:
        task = asyncio.current_task()
        assert task is not None
        if os.name == "posix":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    return asyncio.run(guarded())


# Lists


def _list_agents(folder: Path | None, as_json: bool) -> None:
    found = list(_library(folder))
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "description": one.description,
                    "tools": one.tools,
                    "model": one.model or "inherit",
                    "file": str(one.path),
                    "ignored": one.ignored,
                }
                for one in found
            ]
        )
        return
    rows = [(one.name, _tools(one.tools), str(one.path), one_line(one.description)) for one in found]
    print_table(("name", "tools", "file", "description"), rows)
    for one in found:
        if one.ignored:
            warn(f"{one.path}: ignored: {', '.join(one.ignored)}")


def _tools(patterns: "tuple[str, ...] | None") -> str:
    if patterns is None:
        return "*"
    more = f" and {len(patterns) - 2} more" if len(patterns) > 2 else ""
    return f"{', '.join(patterns[:2])}{more}" or "-"


def _list_runs(as_json: bool) -> None:
    from ...agents import RunFolderError
    from ...agents.runs import list_runs, runs_folder

    try:
        found = list_runs(runs_folder())
    except RunFolderError as error:
        raise CommandError(error.message, error.hint) from None
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("No runs.")
        return
    rows = [
        (
            record.run,
            moment_of(record.started),
            record.status,
            str(record.turns),
            "-" if record.cost is None else f"${record.cost:.4f}",
            one_line(record.task)[:80],
        )
        for record in found
    ]
    print_table(("run", "started", "status", "turns", "cost", "task"), rows)


# Talking


@click.command("chat", short_help="Talk with an agent.")
@agent_options
def chat(**options: Unpack[AgentOptions]) -> None:
    """Talk with an agent in the terminal, turn by turn, with the tools of the configuration.

    Ctrl-C ends a turn, /exit or Ctrl-D the conversation. --resume goes on with an earlier one.
    """
    from ..agents.chat import talk
    from ..agents.display import RunDisplay

    display = RunDisplay(streams=True)
    prepared = _prepare(options, display)
    interactive = is_terminal(sys.stdin)
    with display:
        talk(prepared.open_gateway, lambda gateway: prepared.runner(gateway, display), interactive)
    prepared.folder.close()
    hint(f"toolyard chat --resume {prepared.folder.record.run}")
