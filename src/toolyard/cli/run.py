"""`toolyard run`: one of the bundled servers, for a client that starts it or over HTTP."""

import sys
from difflib import get_close_matches
from typing import Any

import click

from ..config.bundled import BUNDLED, is_table
from . import completion, logs, target
from .failure import Failure, hint
from .host import Place
from .options import debug_option
from .output import stdout_kept_clean
from .printable import is_terminal

EPILOG = "Servers: " + ", ".join(BUNDLED) + "."


@click.command("run", short_help="Run a server that comes with Toolyard.", epilog=EPILOG)
@click.argument("name", shell_complete=completion.bundled)
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the server; its page in the documentation has them all.",
)
@click.option("--http", is_flag=True, help="Over HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@debug_option
def command(name: str, options: tuple[str, ...], http: bool, host: str, port: int, debug: bool) -> None:
    """Run one of the servers that come with Toolyard, alone; or the REST API that a table (.toml) describes.

    Without --http it serves the program that started it, over standard input and output.
    """
    if name not in BUNDLED and not is_table(name):
        near = get_close_matches(name, BUNDLED, 1, 0.6)
        raise Failure(f"no server {name!r}", f"did you mean {near[0]!r}?" if near else EPILOG)
    logs.to_stderr(debug)
    settings = _settings(options)
    if http:
        from .serve import serve_target

        place = Place(host=host, port=port)
        serve_target(target.load(name, debug, settings), name, place, debug)
        return
    if is_terminal(sys.stdin):
        hint("this waits for an MCP client on standard input; `--http` is for the others")
    with stdout_kept_clean():  # it is the protocol's
        found = target.load(name, debug, settings)
    found.run_stdio()


def _settings(options: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given in options:
        name, equals, value = given.partition("=")
        if not equals or not name:
            raise Failure(f"--option {given!r} is not NAME=VALUE", "such as --option locale=pt")
        found[name.replace("-", "_")] = value
    return found
