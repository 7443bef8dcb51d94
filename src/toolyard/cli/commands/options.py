"""Options that several commands share. Imported by every command, so it imports little."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from . import completion

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_TIMEOUT = 60.0


_DEBUG = "toolyard.debug"


def debug_option(command: F) -> F:
    return click.option("--debug", is_flag=True, callback=_remember, help="Show tracebacks and debug logs.")(
        command
    )


def _remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    ctx.meta[_DEBUG] = value
    return value


def wants_debug(ctx: click.Context) -> bool:
    """Whether --debug was given, to this command or to one below it."""
    return ctx.meta.get(_DEBUG) is True


def config_option(command: F) -> F:
    return click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The servers to put behind one endpoint; toolyard.toml is found by itself.",
    )(command)


def target_option(command: F) -> F:
    return click.option(
        "--target",
        "server",
        metavar="TARGET",
        shell_complete=completion.targets,
        help="The server, as for `serve`; without it as configured.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print everything, as JSON.")(command)


def remote_options(command: F) -> F:
    """Where a server is, when it is not one of this process."""
    for option in (
        click.option(
            "--timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=0, min_open=True),
            default=DEFAULT_TIMEOUT,
            show_default=True,
            help="With --url: how long the server may take for an answer or the next event of one.",
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="With --url: a header to send; may be repeated.",
        ),
        click.option("--url", metavar="URL", help="A running server, instead of one in this process."),
    ):
        command = option(command)
    return command
