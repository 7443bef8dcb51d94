"""`toolyard list`: what a server offers."""

import click

from .client import Where, connected
from .offers import offers_of
from .options import debug_option, json_option, remote_options
from .render import print_json
from .tables import print_offers
from .terminal import Terminal


@click.command("list", short_help="List tools, resources and prompts.")
@click.argument("server", metavar="[TARGET]", required=False)
@remote_options
@json_option
@debug_option
def command(
    server: str | None,
    url: str | None,
    headers: tuple[str, ...],
    timeout: float,
    as_json: bool,
    debug: bool,
) -> None:
    """List what TARGET offers, or the server at --url.

    TARGET is package.module:attribute or path/to/file.py:attribute. A question mark after an argument
    means that it may be left out.
    """
    with Terminal() as user, connected(Where(server, url, headers, timeout, debug), user) as client:
        about, offers = client.about, offers_of(client)
    if as_json:
        print_json({"server": about.info, "instructions": about.instructions, **offers})
    else:
        print_offers(about, offers)
