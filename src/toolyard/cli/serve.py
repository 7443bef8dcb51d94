"""`toolyard serve`: a server over HTTP, until interrupted."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..wire.seal import Sealer
from . import completion, logs, target, yard
from .failure import Failure
from .host import DEFAULTS, Asked, Place, listen, own_names, warn_if_public
from .key import session_key
from .options import config_option, debug_option
from .welcome import welcome

if TYPE_CHECKING:
    from ..edge.paths import Endpoint
    from ..kit import Server


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
def command(
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
        raise Failure(f"--path {path!r} cannot be the endpoint", "give one such as /mcp; /health is taken")
    file = yard.config_file(server, config)
    asked = Asked(host=host, port=port, path=path, hosts=hosts, origins=origins, key_file=key_file)
    if file is not None:
        from .gateway import serve_gateway

        serve_gateway(file, asked, debug)
        return
    logs.to_stderr(debug)
    serve_target(target.load(server, debug), server, asked.place(DEFAULTS), debug)


def serve_target(found: "Server", named: str | None, place: Place, debug: bool) -> None:
    """Serve one server until interrupted."""
    if place.key_file is not None or not found.has_own_key:
        found.sealer = Sealer(session_key(place.key_file), found.name)
    edge = found.asgi(
        path=place.path,
        allowed_hosts=[*own_names(place.host), *place.hosts],
        allowed_origins=list(place.origins),
    )
    with listen(place.host, place.port) as listening:
        warn_if_public(place.host, place.hosts)
        run(edge, listening, debug, lambda: welcome(found, place.url(listening), named))


def run(
    edge: "Endpoint",
    listening: socket.socket,
    debug: bool,
    on_ready: Callable[[], None] = lambda: None,
    **idle: Any,
) -> None:
    """`idle` says how long, and how many, connections may be idle, as in `edge.serving.server`."""
    import asyncio

    from ..edge.running import run_to_end
    from ..edge.serving import server  # 35 ms of CPU, most of it uvicorn

    host, port = listening.getsockname()[:2]
    running = server(edge, host, port, log_level="debug" if debug else "warning", **idle)

    async def serve() -> None:
        # uvicorn stops cleanly and then raises the signal anew; that must not look like a crash.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
        # Its turn comes when uvicorn first waits, and by then it minds the signals.
        asyncio.get_running_loop().call_soon(on_ready)
        await running.serve(sockets=[listening])

    run_to_end(serve(), running.config.get_loop_factory())


def _leave(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)
