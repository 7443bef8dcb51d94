"""`toolyard stdio`: serve the program that started us."""

import sys

import click

from . import logs, target
from .failure import hint
from .options import debug_option
from .output import stdout_kept_clean
from .printable import is_terminal


@click.command("stdio", short_help="Serve one client on standard input and output.")
@click.argument("server", metavar="[TARGET]", required=False)
@debug_option
def command(server: str | None, debug: bool) -> None:
    """Serve TARGET to the program that started this one, over standard input and output.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute may be left out when
    it is `server`.
    """
    logs.to_stderr(debug)
    if is_terminal(sys.stdin):
        hint("this waits for an MCP client on standard input; `toolyard serve` and `call` are for people")
    with stdout_kept_clean():  # it is the protocol's
        found = target.load(server, debug)
    found.run_stdio()
