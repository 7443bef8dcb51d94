"""Options that several commands share. Imported by every command, so it imports little."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from ..ui.messages import CommandError
from . import completion

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_TIMEOUT = 60.0
_DEBUG = "toolyard.debug"


class ServerOptions(TypedDict):
    """The values of `target_argument` or `target_option`, of `server_options` and of `debug_option`."""

    target: str | None
    config: Path | None
    url: str | None
    headers: tuple[str, ...]
    key: str | None
    timeout: float
    debug: bool


def target_argument(command: F) -> F:
    return click.argument("target", metavar="[TARGET]", required=False, shell_complete=completion.targets)(
        command
    )


def target_option(command: F) -> F:
    return click.option(
        "--target",
        metavar="TARGET",
        shell_complete=completion.targets,
        help="The server, as for `serve`. Default: the servers of the configuration.",
    )(command)


def server_options(command: F) -> F:
    """Which server a command talks to, if not TARGET."""
    for option in (
        click.option(
            "--timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=0, min_open=True),
            default=DEFAULT_TIMEOUT,
            show_default=True,
            help="With --url: time limit for an answer, or for its next event.",
        ),
        click.option(
            "--key",
            metavar="KEY",
            envvar="TOOLYARD_API_KEY",
            show_envvar=True,
            help="With --url: an API key or a grant of the gateway.",
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="With --url: a header to send; may be repeated.",
        ),
        click.option("--url", metavar="URL", help="A running server, instead of TARGET."),
        config_option,
    ):
        command = option(command)
    return command


class GatewayOptions(TypedDict):
    """The values of `gateway_options`."""

    config: Path | None
    url: str | None
    key: str | None
    headers: tuple[str, ...]


def gateway_options(command: F) -> F:
    """Whose state a command reads: the store of a configuration, or a running gateway."""
    for option in (
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="For a running gateway: a header to send; may be repeated.",
        ),
        click.option(
            "--key",
            metavar="KEY",
            envvar="TOOLYARD_API_KEY",
            show_envvar=True,
            help="For a running gateway: an API key with the scope that it wants.",
        ),
        click.option("--url", metavar="URL", help="A running gateway, instead of the state store."),
        config_option,
    ):
        command = option(command)
    return command


def config_option(command: F) -> F:
    return click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The configuration file. Default: the toolyard.toml that is found.",
    )(command)


def tools_option(command: F) -> F:
    return click.option(
        "--tools",
        metavar="NAMES",
        help="Only these tools or groups of a REST API, with commas: the setting `tools`.",
    )(command)


def settings_options(command: F) -> F:
    """The settings of a target: `read_settings` reads them."""
    return click.option(
        "-o",
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of TARGET; may be repeated. docs/servers lists those of bundled servers.",
    )(tools_option(command))


def read_settings(target: str | None, options: tuple[str, ...], tools: str | None) -> dict[str, Any]:
    from ..ui.arguments import read_setting  # 20 ms with msgspec, and only these need it

    if target is None and (options or tools is not None):
        option = "-o" if options else "--tools"
        raise CommandError(f"{option} needs a TARGET", "in a configuration: options = { … } of its server")
    settings: dict[str, Any] = dict(map(read_setting, options))
    return settings if tools is None else {**settings, "tools": tools}


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print everything, as JSON.")(command)


def debug_option(command: F) -> F:
    return click.option("--debug", is_flag=True, callback=_remember, help="Show tracebacks and debug logs.")(
        command
    )


def _remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    ctx.meta[_DEBUG] = value
    return value


def wants_debug(ctx: click.Context) -> bool:
    """Whether --debug was given, to this command or to a subcommand."""
    return ctx.meta.get(_DEBUG) is True
