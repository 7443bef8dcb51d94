"""`toolyard serve`, `stdio` and `run`: serve a target or a configuration.

Owns the options and chooses what is served; `serving` serves it.
"""

import sys
from pathlib import Path
from typing import Any

import click

from ...config.servers import BUNDLED, is_table
from .. import traffic
from ..configuration import loader
from ..process import log_to_stderr, stdout_for_data
from ..serving.http import DEFAULTS, ServeOptions, ServeSettings, serve_target
from ..target import load
from ..ui.messages import CommandError, hint, is_terminal
from . import completion
from .options import config_option, debug_option, read_settings, settings_options, target_argument


@click.command("serve", short_help="Serve over HTTP.")
@target_argument
@click.option(
    "--host", show_default=f"host of the file, else {DEFAULTS.host}", help="The address to listen on."
)
@click.option(
    "--port",
    show_default=f"port of the file, else {DEFAULTS.port}",
    type=click.IntRange(0, 65535),
    help="The port; 0 takes a free one.",
)
@click.option("--path", default="/mcp", show_default=True, help="The path of the endpoint.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host name that clients may use; may be repeated.",
)
@click.option(
    "--allow-origin",
    "allowed_origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin whose web pages may call; may be repeated.",
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The key that signs sessions; created if missing.",
)
@click.option(
    "--open",
    "open_to_all",
    is_flag=True,
    help="Serve everybody who can reach the address, also without a key.",
)
@settings_options
@config_option
@debug_option
def serve(
    target: str | None,
    config: Path | None,
    host: str | None,
    port: int | None,
    path: str,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    key_file: Path | None,
    open_to_all: bool,
    options: tuple[str, ...],
    tools: str | None,
    debug: bool,
) -> None:
    """Serve TARGET, or the servers of a configuration, over HTTP, for both eras of MCP.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute defaults to `server`.
    Without a TARGET, the command serves --config or the toolyard.toml that is found, else the demo.
    Sessions are signed with TOOLYARD_KEY, or with a key in your state folder.
    """
    if not path.startswith("/") or path in ("/health", "/metrics", "/results") or set(path) & set("?# "):
        raise CommandError(
            f"--path {path!r} cannot be the endpoint", "use one such as /mcp; /health is taken"
        )
    settings = read_settings(target, options, tools)
    file = loader.config_file(target, config, settings)
    place = ServeOptions(
        host=host,
        port=port,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        key_file=key_file,
        open_to_all=open_to_all,
    )
    if file is not None:
        from ..serving.gateway import serve_gateway

        serve_gateway(file, place, debug)
        return
    log_to_stderr(debug)
    serve_target(load(target, debug, settings), target, place.settings(DEFAULTS), debug, settings)


@click.command("stdio", short_help="Serve one client on standard input and output.")
@target_argument
@config_option
@click.option(
    "--server",
    "name",
    metavar="NAME",
    shell_complete=completion.servers,
    help="With a configuration: only this server, under its own names.",
)
@settings_options
@debug_option
def stdio(
    target: str | None,
    config: Path | None,
    name: str | None,
    options: tuple[str, ...],
    tools: str | None,
    debug: bool,
) -> None:
    """Serve the program that started this one, on standard input and output.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute defaults to `server`.
    Without a TARGET, the command serves --config or the toolyard.toml that is found, else the demo.
    """
    if is_terminal(sys.stdin):
        hint("waiting for an MCP client on standard input; people use `toolyard serve` or `toolyard call`")
    settings = read_settings(target, options, tools)
    file = loader.config_file(target, config, settings)
    if file is not None:
        from ..serving.gateway import stdio_gateway

        stdio_gateway(file, name, debug)
        return
    if name is not None:
        raise CommandError("--server needs a configuration", "add --config FILE")
    log_to_stderr(debug)
    with stdout_for_data():  # standard output is the protocol's
        server = load(target, debug, settings)
    server.run_stdio()


EPILOG = "Servers: " + ", ".join(BUNDLED) + "."


@click.command("run", short_help="Run one server, bundled or your own.", epilog=EPILOG)
@click.argument("name", shell_complete=completion.bundled)
@click.option("--http", is_flag=True, help="Serve over HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=8321,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port; 0 takes a free one.",
)
@click.option(
    "--open",
    "open_to_all",
    is_flag=True,
    help="With --http: serve everybody who can reach the address, also without a key.",
)
@settings_options
@debug_option
def run(
    name: str,
    options: tuple[str, ...],
    http: bool,
    host: str,
    port: int,
    open_to_all: bool,
    tools: str | None,
    debug: bool,
) -> None:
    """Run the bundled server NAME alone, the REST API of a table (.toml), or a module or file of your own.

    Without --http it serves the program that started it, on standard input and output.
    """
    if name not in BUNDLED and not is_table(name):
        _check_name(name)
    settings = read_settings(name, options, tools)
    if traffic.current() is not None:
        at = ServeOptions(
            host=host,
            port=port,
            path="/mcp",
            allowed_hosts=(),
            allowed_origins=(),
            key_file=None,
            open_to_all=open_to_all,
        )
        _run_in_gateway(name, settings, at if http else None, debug)
        return
    log_to_stderr(debug)
    if http:
        place = ServeSettings(host=host, port=port, open_to_all=open_to_all)
        serve_target(load(name, debug, settings), name, place, debug, settings)
        return
    if is_terminal(sys.stdin):
        hint("waiting for an MCP client on standard input; --http serves over HTTP")
    with stdout_for_data():  # standard output is the protocol's
        server = load(name, debug, settings)
    server.run_stdio()


def _check_name(name: str) -> None:
    """Raise CommandError for what is neither a module nor a file."""
    from difflib import get_close_matches  # 5 ms, and only a mistake needs it

    from ...kit.loader import LoadError, look_for

    try:
        look_for(name)
    except LoadError as error:
        near = get_close_matches(name, BUNDLED, 1, 0.6)
        hints = [f"did you mean {near[0]!r}?"] if near else [*error.hints, EPILOG]
        raise CommandError(f"no server {name!r}", *hints) from None


def _run_in_gateway(name: str, settings: dict[str, Any], place: ServeOptions | None, debug: bool) -> None:
    """Run it where it can be recorded."""
    from ..serving.gateway import serve_gateway, stdio_gateway

    file = loader.config_file(name, None, settings)
    assert file is not None, "one is written for a target"
    if place is None:
        stdio_gateway(file, None, debug)
    else:
        serve_gateway(file, place, debug)
