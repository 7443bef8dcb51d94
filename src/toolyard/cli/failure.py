"""How a command says what went wrong: an `error:` line, then `hint:` lines with what to do."""

import os

import click

from .printable import printable


class Failure(click.ClickException):
    """The command could not do its work. `details` (a traceback) come before the error itself."""

    exit_code = 2

    def __init__(self, message: str, *hints: str, details: str | None = None) -> None:
        super().__init__(message)
        self.hints = hints
        self.details = details


def unforeseen(error: BaseException, debug: bool) -> Failure:
    """For what should have been told in better words. Whatever was raised, it does not get any further."""
    import traceback  # 10 ms, and never needed

    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if debug:
        return Failure(what, details="".join(traceback.format_exception(error)))
    return Failure(what, "this was not foreseen; --debug shows where it happened")


def report(error: click.ClickException) -> None:
    if isinstance(error, Failure):
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
    # click leaves colours out when standard error is not a terminal, but does not know NO_COLOR.
    colours = False if os.environ.get("NO_COLOR") else None
    styled = click.style(f"{label}:", fg=colour, bold=True)
    click.echo(f"{styled} {printable(text)}", err=True, color=colours)
