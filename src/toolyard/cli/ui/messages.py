"""Errors, warnings and hints on standard error, and text from servers made safe for a terminal.

Servers are not trusted: an escape sequence in a description could rewrite the screen, a direction mark
could reorder text, an invisible character could hide in a name.
"""

import os
import re
from typing import TextIO

import click

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # but for tabs and line feeds
_SEPARATORS = r"\u2028\u2029"  # a line ends there for some terminals and for no others
# The default ignorable characters of Unicode, which are not drawn, and the marks around annotations.
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{_CONTROLS}{_SEPARATORS}{_INVISIBLE}]")
_JOINERS = "\u200c\u200d"
_SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether it is one; a stream that was closed before we started is None."""
    return stream is not None and stream.isatty()


def printable(text: str) -> str:
    """Spell out characters that control a terminal or are invisible (`\\x1b`, `\\ufeff`)."""
    return _HIDDEN.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character in _JOINERS or _SELECTORS.match(character):
        before = found.string[found.start() - 1 : found.start()]
        if _changes_display(before, character, found.string[found.end() : found.end() + 1]):
            return character
    return character.encode("unicode_escape").decode()


def _changes_display(before: str, character: str, after: str) -> bool:
    """Whether it changes the display, as between emoji and in some scripts, never among Latin letters."""
    from unicodedata import category  # 1 ms, and few texts have any of these

    def drawn(other: str) -> bool:
        return bool(other) and category(other)[0] in "LMS" and category(other) not in ("Lu", "Ll", "Lt")

    if character in _JOINERS:
        return drawn(before) and drawn(after) and after not in _JOINERS
    # A digit with a selector is the first part of a keycap. A second selector in a row has no effect.
    if not before or _SELECTORS.match(before):
        return False
    return drawn(before) or category(before) in ("Nd", "Po")


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
