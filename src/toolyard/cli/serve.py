"""`toolyard serve`: a server over HTTP, until interrupted."""

import errno
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ..wire.seal import Sealer
from . import logs, target
from .failure import Failure, warn
from .key import session_key
from .options import debug_option
from .welcome import welcome

if TYPE_CHECKING:
    from ..edge.http import HttpEdge

WILDCARDS = ("0.0.0.0", "::", "")
BACKLOG = 2048


@click.command("serve", short_help="Serve over HTTP.")
@click.argument("server", metavar="[TARGET]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=8321,
    show_default=True,
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
@debug_option
def command(
    server: str | None,
    host: str,
    port: int,
    path: str,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    key_file: Path | None,
    debug: bool,
) -> None:
    """Serve TARGET over HTTP, both eras of MCP at one address.

    TARGET is package.module:attribute or path/to/file.py:attribute; the attribute may be left out when
    it is `server`. Sessions are signed with TOOLYARD_KEY, or with a key kept in your state folder.
    """
    logs.to_stderr(debug)
    if not path.startswith("/") or path == "/health":
        raise Failure(f"--path {path!r} cannot be the endpoint", "give one such as /mcp; /health is taken")
    found = target.load(server, debug)
    found.sealer = Sealer(session_key(key_file))
    edge = found.asgi(path=path, allowed_hosts=[*_own_name(host), *hosts], allowed_origins=list(origins))
    with _listen(host, port) as listening:
        _warn_if_public(host, hosts)
        _serve(edge, listening, debug, lambda: welcome(found, _url(host, listening, path), server))


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: from here on clients can connect, even before the first is accepted."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise Failure(f"--host {host!r} is not an address: {error.strerror}", "--host 127.0.0.1") from None
    except OSError as error:
        raise Failure(*_why_not(error, host, port)) from None


def _why_not(error: OSError, host: str, port: int) -> tuple[str, str]:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use",
            "--port 0 takes a free one, or stop the program that has it",
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than you have", "choose one from 1024 on, such as --port 8321"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine", "--host 127.0.0.1, or 0.0.0.0 for all addresses"
    return f"cannot listen on {host}, port {port}: {error.strerror}", "--host 127.0.0.1 --port 0"


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_name(host: str) -> list[str]:
    """The name that was asked for by --host is one that clients may use."""
    return [] if host in WILDCARDS else [_bracketed(host)]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _url(host: str, listening: socket.socket, path: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{_bracketed(shown)}:{listening.getsockname()[1]}{path}"


def _warn_if_public(host: str, hosts: tuple[str, ...]) -> None:
    if _is_loopback(host):
        return
    warn("anybody who can reach this address can call these tools: there is no authentication yet")
    if not hosts:
        known = "localhost" if host in WILDCARDS else f"{host!r} and localhost"
        advice = "add --allow-host NAME for each name that clients use"
        warn(f"requests are refused unless they are addressed to {known}", advice)


def _serve(edge: "HttpEdge", listening: socket.socket, debug: bool, on_ready: Callable[[], None]) -> None:
    import asyncio

    from ..edge.serving import server  # uvicorn: 90 ms of CPU

    host, port = listening.getsockname()[:2]
    running = server(edge, host, port, log_level="debug" if debug else "warning")

    async def serve() -> None:
        # uvicorn stops cleanly and then raises the signal anew; that must not look like a crash.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
        # Its turn comes when uvicorn first waits, and by then it minds the signals.
        asyncio.get_running_loop().call_soon(on_ready)
        await running.serve(sockets=[listening])

    with asyncio.Runner(loop_factory=running.config.get_loop_factory()) as runner:
        runner.run(serve())


def _leave(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)
