"""`toolyard stdio`: serve the program that started us."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

import click

from . import logs, target
from .failure import hint
from .options import debug_option
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
    with _stdout_kept_clean():
        found = target.load(server, debug)
    found.run_stdio()


@contextmanager
def _stdout_kept_clean() -> Generator[None, None, None]:
    """What a target prints while it is imported goes to standard error: the output is the protocol's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
