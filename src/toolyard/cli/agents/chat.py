"""`toolyard chat`: a conversation with an agent, one task after the other, over one gateway.

Reads lines with readline's history and editing. The event loop rests while a line is typed.
"""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from ..ui.messages import hint, printable, say, warn
from .display import summary_line
from .gateway import OpenRunGateway, RunGateway

if TYPE_CHECKING:
    from ...agents import AgentRunner

PROMPT = "> "
HELP = """\
/help   this list
/files  the files of this conversation
/cost   what it has used so far
/exit   leaves; Ctrl-D does too
Ctrl-C ends the turn of the agent, not the conversation."""


def talk(
    open_gateway: OpenRunGateway, make_runner: "Callable[[RunGateway], AgentRunner]", interactive: bool
) -> None:
    if interactive:
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")  # editing and history for `input`
    loop = asyncio.new_event_loop()
    try:
        opened = open_gateway()
        gateway = loop.run_until_complete(opened.__aenter__())
        runner = make_runner(gateway)
        try:
            _read_and_answer(loop, runner, interactive)
        finally:
            loop.run_until_complete(runner.close())
            loop.run_until_complete(opened.__aexit__(None, None, None))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _read_and_answer(loop: asyncio.AbstractEventLoop, runner: "AgentRunner", interactive: bool) -> None:
    if interactive:
        hint("/help lists commands; Ctrl-D leaves")
    while (line := _read_line(interactive)) is not None:
        if line.startswith("/"):
            if not _obey(line, runner):
                return
        elif line:
            _answer(loop, runner, line)


def _read_line(interactive: bool) -> str | None:
    """A line without its end; None at the end of the input. Ctrl-C discards what was typed."""
    while True:
        try:
            if interactive:
                return input(PROMPT).strip()
            line = sys.stdin.readline()
            return line.strip() if line else None
        except EOFError:
            click.echo(err=True)
            return None
        except KeyboardInterrupt:
            click.echo(err=True)


def _obey(command: str, runner: "AgentRunner") -> bool:
    """Whether the conversation goes on."""
    record = runner.folder.record
    match command.split()[0]:
        case "/exit" | "/quit":
            return False
        case "/help":
            click.echo(HELP, err=True)
        case "/files":
            for file in runner.folder.list_files():
                click.echo(f"{file.size:>10,}  {printable(str(runner.folder.path / file.path))}", err=True)
        case "/cost":
            cost = "price not known" if record.cost is None else f"${record.cost:.4f}"
            used = f"{record.usage.input:,} tokens in, {record.usage.output:,} out, {cost}"
            click.echo(used, err=True)
        case other:
            warn(f"no command {other!r}", "/help lists them")
    return True


def _answer(loop: asyncio.AbstractEventLoop, runner: "AgentRunner", line: str) -> None:
    outcome = _until_interrupted(loop, runner.ask(line))
    if outcome is None:
        warn("the turn was ended", "say what to do instead, or /exit")
        return
    if not outcome.is_done:
        say("error", outcome.reason, *filter(None, [outcome.hint]))
    click.echo(err=True)
    click.echo(click.style(summary_line(outcome), dim=True), err=True)


def _until_interrupted(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """The result; None if Ctrl-C ended it, after everything that ran has ended."""
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        return None
