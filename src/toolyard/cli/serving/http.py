"""Serving over HTTP: the socket, its host names and URL, the server loop, and the banner when it is ready."""

import errno
import os
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import Struct

from ..._version import __version__
from ...config.models import GatewayConfig
from ...config.servers import BUNDLED, is_table
from ...wire.seal import Sealer
from ..target import split
from ..ui.messages import CommandError, warn
from ..ui.tables import counted
from .session_key import session_key

if TYPE_CHECKING:
    from ...edge.http.app import HttpEdge, PathRouter
    from ...kit import Server


def _print_banner(
    server: "Server", url: str, target: str | None, options: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Print to standard output, and flush, also into a pipe."""
    lines = [
        f"Toolyard {__version__} serves {_summary(server)}",
        "",
        f"  {click.style(url, bold=True)}",
        "",
        *client_snippets(server.name, url, _stdio_arguments(target, options), _key_header(server)),
        *_try_it(server, url),
        "",
        "Ctrl-C stops it.",
    ]
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _summary(server: "Server") -> str:
    counts = {
        "tools": server.count_tools(),
        "resources": len(server.resources),
        "prompts": len(server.prompts),
    }
    parts = [counted(count, kind) for kind, count in counts.items() if count]
    label = server.implementation.title or server.name
    return f"{label!r}: {', '.join(parts) or 'nothing yet'}"


def _key_header(server: "Server") -> tuple[str, str] | None:
    """The header that callers must send, and a placeholder for its value."""
    if server.caller_keys is None or not server.caller_keys.required:
        return None
    name = server.caller_keys.headers[0]
    return name, "Bearer …" if name == "authorization" else "…"


def client_snippets(
    name: str, url: str, arguments: list[str], header: tuple[str, str] | None = None
) -> list[str]:
    """Lines to paste into clients. `arguments` start the same on stdio, from any folder."""
    program = shutil.which("toolyard")
    start = [program] if program else [sys.executable, "-m", "toolyard"]
    from ...edge.http.front_page import client_lines, stdio_line  # comes with the edge

    return [
        *client_lines(name, url, header),
        "Claude Desktop and other clients that start the server themselves:",
        f"  {stdio_line(name, [*start, *arguments])}",
    ]


def _header_option(header: tuple[str, str] | None) -> str:
    return f" --header '{header[0]}: {header[1]}'" if header else ""


def _stdio_arguments(target: str | None, options: Mapping[str, Any]) -> list[str]:
    from ...config.secrets import is_secret_name  # 5 ms

    given = [f"{name}={'…' if is_secret_name(name) else value}" for name, value in options.items()]
    return ["stdio", *_from_anywhere(target), *(word for one in given for word in ("-o", one))]


def _from_anywhere(target: str | None) -> list[str]:
    if target is None:
        return []
    if target in BUNDLED:
        return [target]
    if is_table(target):
        return [str(Path(target).expanduser().resolve())]
    place, attribute = split(target)
    path = Path(place).expanduser()
    return [f"{path.resolve() if path.is_file() else place}:{attribute}"]


def _try_it(server: "Server", url: str) -> list[str]:
    example = "call echo text=hello" if "echo" in server.tools else "list"
    return [
        "In another terminal:",
        f"  {program_name()} {example} --url {url}{_header_option(_key_header(server))}",
    ]


def program_name() -> str:
    """The command to type in another terminal in this folder, whose PATH may differ."""
    found = Path(sys.argv[0]).absolute()
    if found.name != "toolyard":
        return "toolyard"
    if found.is_relative_to(Path.cwd()):
        return str(found.relative_to(Path.cwd()))
    return "toolyard" if shutil.which("toolyard") == str(found) else shlex.quote(str(found))


WILDCARDS = ("0.0.0.0", "::", "")
BACKLOG = 2048
DEFAULTS = GatewayConfig()


class ServeSettings(Struct, frozen=True, kw_only=True):
    """Where and how to serve: the options, with defaults from the file."""

    host: str = DEFAULTS.host
    port: int = DEFAULTS.port
    path: str = "/mcp"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    key_file: Path | None = None
    public_url: str = ""
    open_to_all: bool = False

    @property
    def is_exposed(self) -> bool:
        """Whether other machines reach it."""
        return not is_loopback(self.host)

    def url(self, listening: socket.socket) -> str:
        """The URL of the endpoint."""
        return f"{self.base(listening)}{self.path}"

    def base(self, listening: socket.socket) -> str:
        return _without_path(self.path, self.public_url) or url_of(self.host, listening, "")


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line; None or empty if not given."""

    host: str | None
    port: int | None
    path: str
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    key_file: Path | None
    open_to_all: bool = False

    def settings(self, file: GatewayConfig) -> ServeSettings:
        """Options win over the file."""
        return ServeSettings(
            host=file.host if self.host is None else self.host,
            port=file.port if self.port is None else self.port,
            path=self.path,
            allowed_hosts=self.allowed_hosts or file.allowed_hosts,
            allowed_origins=self.allowed_origins or file.allowed_origins,
            key_file=self.key_file,
            public_url=file.public_url,
            open_to_all=self.open_to_all,
        )


def _without_path(path: str, url: str) -> str:
    """The public URL without the endpoint's path, which many people add to it."""
    return url.rstrip("/").removesuffix(path.rstrip("/"))


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Clients can connect from here on, before the first is accepted."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        return _bound(socket.socket(family, kind, protocol), address)
    except socket.gaierror as error:
        raise CommandError(
            f"--host {host!r} is not an address: {error.strerror}", "--host 127.0.0.1"
        ) from None
    except OSError as error:
        raise CommandError(*_listen_failure(error, host, port)) from None


def _bound(listening: socket.socket, address: Any) -> socket.socket:
    # Not `socket.create_server`: it sets no protocol, and without one asyncio leaves Nagle's delay on.
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _listen_failure(error: OSError, host: str, port: int) -> tuple[str, str]:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use",
            "--port 0 takes a free one, or stop the program that has it",
        )
    if error.errno == errno.EACCES:
        return f"no permission to listen on port {port}", "choose a port from 1024 on, such as --port 8321"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine", "--host 127.0.0.1, or 0.0.0.0 for all addresses"
    return f"cannot listen on {host}, port {port}: {error.strerror}", "--host 127.0.0.1 --port 0"


def is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def default_hosts(host: str) -> list[str]:
    """Clients may use the name given as --host."""
    return [] if host in WILDCARDS else [_bracketed(host)]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def url_of(host: str, listening: socket.socket, path: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{_bracketed(shown)}:{listening.getsockname()[1]}{path}"


def check_exposure(settings: ServeSettings, knows_callers: bool, *ways: str) -> None:
    """Refuse to serve strangers, unless --open says that it is meant. `ways` to know them are hints."""
    if settings.is_exposed and not knows_callers and not settings.open_to_all:
        raise CommandError(
            f"other machines reach {settings.host}, and there is no way to know who calls",
            *ways,
            "--open serves everybody who can reach it; --host 127.0.0.1 serves this machine only",
        )


def warn_of_exposure(settings: ServeSettings, knows_callers: bool, *ways: str) -> None:
    if settings.is_exposed and settings.open_to_all:
        warn("--open: whoever can reach this address can call these tools without a key")
    elif settings.public_url and not knows_callers and not settings.open_to_all:
        warn(f"whoever can reach {settings.public_url} can call these tools without a key", *ways)
    if settings.is_exposed and not settings.allowed_hosts:
        known = "localhost" if settings.host in WILDCARDS else f"{settings.host!r} and localhost"
        advice = "add --allow-host NAME, or allowed_hosts in the file, for each name that clients use"
        warn(f"requests to host names other than {known} are refused", advice)


def serve_target(
    server: "Server",
    target: str | None,
    settings: ServeSettings,
    debug: bool,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Serve one server until interrupted. `options` are the settings that it was made with."""
    if settings.key_file is not None or not server.has_own_key:
        server.sealer = Sealer(session_key(settings.key_file), server.name)
    knows_callers = server.caller_keys is not None and server.caller_keys.required
    way = "put it behind a gateway with [auth]: `toolyard add`, then `toolyard serve`"
    check_exposure(settings, knows_callers, way)
    edge = server.asgi(
        path=settings.path,
        allowed_hosts=[*default_hosts(settings.host), *settings.allowed_hosts],
        allowed_origins=list(settings.allowed_origins),
    )
    with listen(settings.host, settings.port) as listening:
        warn_of_exposure(settings, knows_callers, way)
        run_http(
            edge, listening, debug, lambda: _print_banner(server, settings.url(listening), target, options)
        )


def run_http(
    edge: "HttpEdge | PathRouter",
    listening: socket.socket,
    debug: bool,
    on_ready: Callable[[], None] = lambda: None,
    **idle: Any,
) -> None:
    """Serve until interrupted; raise why it does not start. `idle` is as in `uvicorn_server`."""
    import asyncio

    from ...edge.http.server import uvicorn_server  # 35 ms of CPU, most of it uvicorn
    from ...edge.runner import run_to_end

    host, port = listening.getsockname()[:2]
    level = "debug" if debug else "warning"
    running = uvicorn_server(edge, host, port, level, start=edge.start, **idle)

    async def serve() -> None:
        # uvicorn stops cleanly and then raises the signal again, which must not look like a crash.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _exit)
        # Runs when uvicorn first waits; by then it handles the signals.
        asyncio.get_running_loop().call_soon(on_ready)
        await running.serve(sockets=[listening])

    run_to_end(serve(), running.config.get_loop_factory())


def _exit(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)
