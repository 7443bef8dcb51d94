"""`toolyard serve`, `stdio` and `run`: serve a target or a configuration.

`serving` does the work; this module owns the options and decides what is served.
"""

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from ...config.servers import BUNDLED, is_table
from .. import process, target
from ..configuration import loader
from ..process import stdout_for_data
from ..serving.http import DEFAULTS, ServeOptions, ServeSettings, serve_target
from ..ui.messages import CommandError, hint, is_terminal
from . import completion
from .options import config_option, debug_option


@click.command("serve", short_help="Serve over HTTP.")
@click.argument("server", metavar="[TARGET]", required=False, shell_complete=completion.targets)
@click.option(
    "--host", show_default=f"as the file has it, else {DEFAULTS.host}", help="The address to listen on."
)
@click.option(
    "--port",
    show_default=f"as the file has it, else {DEFAULTS.port}",
    type=click.IntRange(0, 65535),
    help="The port; 0 takes a free one.",
)
@click.option("--path", default="/mcp", show_default=True, help="Where the endpoint is.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that clients may call us by."
)
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="A web page that may call us."
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The key that signs sessions; made if missing.",
)
@config_option
@debug_option
def serve(
    server: str | None,
    config: Path | None,
    host: str | None,
    port: int | None,
    path: str,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    key_file: Path | None,
    debug: bool,
) -> None:
    """Serve over HTTP, both eras of MCP at one address: the servers of a toolyard.toml, or one TARGET.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute may be left out when
    it is `server`. Without one, --config or the toolyard.toml found here says what to serve; without
    that, it is the demo. Sessions are signed with TOOLYARD_KEY, or with a key kept in your state folder.
    """
    if not path.startswith("/") or path in ("/health", "/metrics", "/results") or set(path) & set("?# "):
        raise CommandError(
            f"--path {path!r} cannot be the endpoint", "give one such as /mcp; /health is taken"
        )
    file = loader.config_file(server, config)
    asked = ServeOptions(host=host, port=port, path=path, hosts=hosts, origins=origins, key_file=key_file)
    if file is not None:
        from ..serving.gateway import serve_gateway

        serve_gateway(file, asked, debug)
        return
    process.log_to_stderr(debug)
    serve_target(target.load(server, debug), server, asked.place(DEFAULTS), debug)


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
def stdio(server: str | None, config: Path | None, name: str | None, debug: bool) -> None:
    """Serve the program that started this one, over standard input and output.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute may be left out when
    it is `server`. Without one, --config or the toolyard.toml found here says what to serve; without
    that, it is the demo.
    """
    if is_terminal(sys.stdin):
        hint("this waits for an MCP client on standard input; `toolyard serve` and `call` are for people")
    file = loader.config_file(server, config)
    if file is not None:
        from ..serving.gateway import stdio_gateway

        stdio_gateway(file, name, debug)
        return
    if name is not None:
        raise CommandError("--server is for servers of a configuration", "add --config FILE")
    process.log_to_stderr(debug)
    with stdout_for_data():  # it is the protocol's
        found = target.load(server, debug)
    found.run_stdio()


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
def run_bundled(name: str, options: tuple[str, ...], http: bool, host: str, port: int, debug: bool) -> None:
    """Run one of the servers that come with Toolyard, alone; or the REST API that a table (.toml) describes.

    Without --http it serves the program that started it, over standard input and output.
    """
    if name not in BUNDLED and not is_table(name):
        near = get_close_matches(name, BUNDLED, 1, 0.6)
        raise CommandError(f"no server {name!r}", f"did you mean {near[0]!r}?" if near else EPILOG)
    process.log_to_stderr(debug)
    settings = _server_options(options)
    if http:
        place = ServeSettings(host=host, port=port)
        serve_target(target.load(name, debug, settings), name, place, debug)
        return
    if is_terminal(sys.stdin):
        hint("this waits for an MCP client on standard input; `--http` is for the others")
    with stdout_for_data():  # it is the protocol's
        found = target.load(name, debug, settings)
    found.run_stdio()


def _server_options(options: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given in options:
        name, equals, value = given.partition("=")
        if not equals or not name:
            raise CommandError(f"--option {given!r} is not NAME=VALUE", "such as --option locale=pt")
        found[name.replace("-", "_")] = value
    return found
