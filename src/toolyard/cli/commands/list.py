"""`toolyard list`: the tools, resources and prompts of one server, or of every server of a configuration."""

import math
import sys
from pathlib import Path

import click

from ..client.connection import STARTING, ConnectOptions, ServerDescription, connected
from ..client.lists import ServerLists, read_all_lists
from ..ui.messages import hint, is_terminal, warn
from ..ui.output import print_json
from ..ui.tables import print_lists
from ..ui.terminal import Terminal
from . import completion
from .options import config_option, debug_option, json_option, remote_options

INCOMPLETE = 3
"""The exit status when servers are missing from the list."""


@click.command("list", short_help="List tools, resources and prompts.")
@click.argument("server", metavar="[TARGET]", required=False, shell_complete=completion.targets)
@click.option("--long", "-l", is_flag=True, help="Arguments and whole descriptions too.")
@click.option(
    "--wait",
    is_flag=False,
    flag_value=math.inf,
    type=click.FloatRange(min=0),
    metavar="[SECONDS]",
    help="Wait until every server has started or failed, or so long; without it as configured.",
)
@config_option
@remote_options
@json_option
@debug_option
def command(
    server: str | None,
    long: bool,
    wait: float | None,
    config: Path | None,
    url: str | None,
    headers: tuple[str, ...],
    timeout: float,
    as_json: bool,
    debug: bool,
) -> None:
    """List what TARGET offers, or the server at --url, or all servers of a configuration.

    TARGET is package.module:attribute or path/to/file.py:attribute; without one, --config or the
    toolyard.toml found here says what to list, grouped by server. A question mark after an argument of
    --long means that it may be left out. Exit status: 0, or 3 when a server of the configuration is
    missing: still starting, down or not usable.
    """
    where = ConnectOptions(server, config, url, headers, timeout, debug, wait)
    with Terminal() as user, connected(where, user) as client:
        offers = read_all_lists(client)
        about = client.about
    if as_json:
        print_json(_as_json(about, offers))
    else:
        print_lists(about, offers, long)
        _warn(about)
    if any(one.is_missing for one in about.servers):
        raise click.exceptions.Exit(INCOMPLETE)


def _as_json(about: ServerDescription, offers: ServerLists) -> dict[str, object]:
    missing = {"missing": about.missing} if about.missing else {}
    servers = {
        one.name: {"state": one.state}
        | ({"reason": one.detail} if one.detail else {})
        | ({"tools": len(one.holds["tools"])} if one.holds else {})
        for one in about.servers
    }
    more = {"servers": servers} if servers else {}
    return {"server": about.info, "instructions": about.instructions, **offers, **more, **missing}


def _warn(about: ServerDescription) -> None:
    """The reasons are on standard output too; whoever sees both is told of each server once."""
    shown = {one.name for one in about.servers if one.is_missing} if _seen_together() else set[str]()
    for name, reason in about.missing.items():
        if name not in shown:
            warn(f"{name}: {reason}")
    if any(one.state == STARTING for one in about.servers):
        hint("--wait waits until every server has started or failed")


def _seen_together() -> bool:
    return is_terminal(sys.stdout) and is_terminal(sys.stderr)
