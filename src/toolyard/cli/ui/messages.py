"""Errors, warnings and hints on standard error, and text from servers made safe for a terminal.

Servers are not trusted: an escape sequence in a description could rewrite the screen, a direction mark
could reorder text, an invisible character could hide in a name.
"""

import os
import sys
from typing import TextIO

import click

from ...wire.text import printable


def is_terminal(stream: TextIO | None) -> bool:
    """Whether it is one; a stream that was closed before we started is None."""
    return stream is not None and stream.isatty()


def can_ask() -> bool:
    """Whether somebody sits at a terminal, who sees a question and can answer it."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def one_line(text: str) -> str:
    """The first paragraph on one line, for tables."""
    return " ".join(printable(text).strip().split("\n\n")[0].split())


class CommandError(click.ClickException):
    """Ends a command with an `error:` line and `hint:` lines. `details`, a traceback, come first."""

    exit_code = 2

    def __init__(self, message: str, *hints: str, details: str | None = None) -> None:
        super().__init__(message)
        self.hints = hints
        self.details = details


def unexpected_error(error: BaseException, debug: bool) -> CommandError:
    """For exceptions that no command expects."""
    import traceback  # 10 ms, and rarely needed

    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if debug:
        return CommandError(what, details="".join(traceback.format_exception(error)))
    return CommandError(what, "unexpected error; --debug shows the traceback")


def report_error(error: click.ClickException) -> None:
    if isinstance(error, CommandError):
        if error.details is not None:
            click.echo(printable(error.details.rstrip()), err=True)
        say("error", error.message, *error.hints)
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    say("error", error.format_message(), *([f"{context.command_path} -h"] if context is not None else []))


def warn(message: str, *hints: str) -> None:
    say("warning", message, *hints)


def hint(message: str) -> None:
    _line("hint", "cyan", message)


def say(kind: str, message: str, *hints: str) -> None:
    _line(kind, "red" if kind == "error" else "yellow", message)
    for text in hints:
        hint(text)


def _line(label: str, colour: str, text: str) -> None:
    # click omits colours if standard error is not a terminal, but ignores NO_COLOR.
    colours = False if os.environ.get("NO_COLOR") else None
    styled = click.style(f"{label}:", fg=colour, bold=True)
    click.echo(f"{styled} {printable(text)}", err=True, color=colours)
