"""`toolyard stdio`: serve the program that started us."""

import sys
from pathlib import Path

import click

from . import completion, logs, target, yard
from .failure import Failure, hint
from .options import config_option, debug_option
from .output import stdout_kept_clean
from .printable import is_terminal


@click.command("stdio", short_help="Serve one client on standard input and output.")
@click.argument("server", metavar="[TARGET]", required=False, shell_complete=completion.targets)
@config_option
@click.option(
    "--server",
    "name",
    metavar="NAME",
    shell_complete=completion.servers,
    help="With a configuration: this server alone, as it is.",
)
@debug_option
def command(server: str | None, config: Path | None, name: str | None, debug: bool) -> None:
    """Serve the program that started this one, over standard input and output.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute may be left out when
    it is `server`. Without one, --config or the toolyard.toml found here says what to serve; without
    that, it is the demo.
    """
    if is_terminal(sys.stdin):
        hint("this waits for an MCP client on standard input; `toolyard serve` and `call` are for people")
    file = yard.config_file(server, config)
    if file is not None:
        from .gateway import stdio_gateway

        stdio_gateway(file, name, debug)
        return
    if name is not None:
        raise Failure("--server is for servers of a configuration", "add --config FILE")
    logs.to_stderr(debug)
    with stdout_kept_clean():  # it is the protocol's
        found = target.load(server, debug)
    found.run_stdio()
