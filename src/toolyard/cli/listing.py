"""`toolyard list`: what a server offers."""

from pathlib import Path

import click

from .client import Where, connected
from .failure import warn
from .offers import offers_of
from .options import config_option, debug_option, json_option, remote_options
from .render import print_json
from .tables import print_offers
from .terminal import Terminal


@click.command("list", short_help="List tools, resources and prompts.")
@click.argument("server", metavar="[TARGET]", required=False)
@config_option
@remote_options
@json_option
@debug_option
def command(
    server: str | None,
    config: Path | None,
    url: str | None,
    headers: tuple[str, ...],
    timeout: float,
    as_json: bool,
    debug: bool,
) -> None:
    """List what TARGET offers, or the server at --url, or all servers of a configuration.

    TARGET is package.module:attribute or path/to/file.py:attribute; without one, --config or the
    toolyard.toml found here says what to list, and servers that are missing are shown with the reason.
    A question mark after an argument means that it may be left out.
    """
    with Terminal() as user, connected(Where(server, config, url, headers, timeout, debug), user) as client:
        about, offers = client.about, offers_of(client)
    if as_json:
        missing = {"missing": about.missing} if about.missing else {}
        print_json({"server": about.info, "instructions": about.instructions, **offers, **missing})
    else:
        print_offers(about, offers)
        for name, reason in about.missing.items():
            warn(f"{name}: {reason}")
