"""Serving over HTTP: the socket, the names and the URL that reach it, and the banner once it is ready."""

import errno
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import Struct

from ... import __version__
from ...config.models import GatewayConfig
from ...config.servers import BUNDLED, is_table
from ...wire.seal import Sealer
from ..target import split
from ..ui.messages import CommandError, warn
from .session_key import session_key

if TYPE_CHECKING:
    from ...edge.http.app import Endpoint
    from ...kit import Server


def print_banner(server: "Server", url: str, target: str | None) -> None:
    """Once, to standard output, and at once even into a pipe."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", server.name).strip("-") or "toolyard"
    lines = [
        f"Toolyard {__version__} serves {_summary(server)}",
        "",
        f"  {click.style(url, bold=True)}",
        "",
        *client_snippets(name, url, _stdio_arguments(target), _key_header(server)),
        *_try_it(server, url),
        "",
        "Ctrl-C stops it.",
    ]
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _summary(server: "Server") -> str:
    counts = {"tool": server.count_tools(), "resource": len(server.resources), "prompt": len(server.prompts)}
    parts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count]
    label = server.implementation.title or server.name
    return f"{label!r}: {', '.join(parts) or 'nothing yet'}"


def _key_header(server: "Server") -> tuple[str, str] | None:
    """The header without which callers are turned away, and what to put into it."""
    if server.caller_keys is None or not server.caller_keys.required:
        return None
    name = server.caller_keys.headers[0]
    return name, "Bearer …" if name == "authorization" else "…"


def _snippet(name: str, entry: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {name: entry}}, ensure_ascii=False)


def client_snippets(
    name: str, url: str, arguments: list[str], header: tuple[str, str] | None = None
) -> list[str]:
    """What to paste where; `arguments` are how a client starts the same on stdio, from whatever folder."""
    program_name = shutil.which("toolyard")
    start = [program_name] if program_name else [sys.executable, "-m", "toolyard"]
    entry: dict[str, object] = {"url": url, **({"headers": dict([header])} if header else {})}
    return [
        "Claude Code:",
        f"  claude mcp add --transport http {name} {url}{_header_option(header)}",
        "Cursor and other clients that take an address:",
        f"  {_snippet(name, entry)}",
        "Claude Desktop and other clients that start the server themselves:",
        f"  {_snippet(name, {'command': start[0], 'args': [*start[1:], *arguments]})}",
    ]


def _header_option(header: tuple[str, str] | None) -> str:
    return f" --header '{header[0]}: {header[1]}'" if header else ""


def _stdio_arguments(target: str | None) -> list[str]:
    if target in BUNDLED:
        return ["stdio", target]
    if target is None:
        return ["stdio"]
    if is_table(target):
        return ["stdio", str(Path(target).expanduser().resolve())]
    place, attribute = split(target)
    path = Path(place).expanduser()
    return ["stdio", f"{path.resolve() if path.is_file() else place}:{attribute}"]


def _try_it(server: "Server", url: str) -> list[str]:
    example = "call echo text=hello" if "echo" in server.tools else "list"
    return [
        "In another terminal:",
        f"  {program_name()} {example} --url {url}{_header_option(_key_header(server))}",
    ]


def program_name() -> str:
    """What another terminal in this folder can call; it may have another PATH than ours."""
    found = Path(sys.argv[0]).absolute()
    if found.name == "toolyard" and found.is_relative_to(Path.cwd()):
        return str(found.relative_to(Path.cwd()))
    return "toolyard"


WILDCARDS = ("0.0.0.0", "::", "")
BACKLOG = 2048
DEFAULTS = GatewayConfig()


class ServeSettings(Struct, frozen=True, kw_only=True):
    """Where to serve, as the options say, or the file where they say nothing."""

    host: str = DEFAULTS.host
    port: int = DEFAULTS.port
    path: str = "/mcp"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    key_file: Path | None = None
    public_url: str = ""

    def url(self, listening: socket.socket) -> str:
        """Where clients find the endpoint."""
        return f"{self.base(listening)}{self.path}"

    def base(self, listening: socket.socket) -> str:
        return _without_path(self.path, self.public_url) or url_of(self.host, listening, "")


class ServeOptions(Struct, frozen=True, kw_only=True):
    """What was given on the command line; None and nothing: it was not."""

    host: str | None
    port: int | None
    path: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    key_file: Path | None

    def place(self, settings: GatewayConfig) -> ServeSettings:
        """Options win over the file."""
        return ServeSettings(
            host=settings.host if self.host is None else self.host,
            port=settings.port if self.port is None else self.port,
            path=self.path,
            hosts=self.hosts or settings.allowed_hosts,
            origins=self.origins or settings.allowed_origins,
            key_file=self.key_file,
            public_url=settings.public_url,
        )


def _without_path(path: str, url: str) -> str:
    """A public address is where everything is found; many would write it with the endpoint's path."""
    return url.rstrip("/").removesuffix(path.rstrip("/"))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket: from here on clients can connect, even before the first is accepted."""
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
    # Not `socket.create_server`: it names no protocol, and without one asyncio leaves Nagle's delay on.
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


def default_hosts(host: str) -> list[str]:
    """The name that was asked for by --host is one that clients may use."""
    return [] if host in WILDCARDS else [_bracketed(host)]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def url_of(host: str, listening: socket.socket, path: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{_bracketed(shown)}:{listening.getsockname()[1]}{path}"


def warn_if_public(host: str, hosts: tuple[str, ...]) -> None:
    if _is_loopback(host):
        return
    warn("anybody who can reach this address can call these tools: there is no authentication yet")
    if not hosts:
        known = "localhost" if host in WILDCARDS else f"{host!r} and localhost"
        advice = "add --allow-host NAME, or allowed_hosts in the file, for each name that clients use"
        warn(f"requests are refused unless they are addressed to {known}", advice)


def serve_target(found: "Server", named: str | None, place: ServeSettings, debug: bool) -> None:
    """Serve one server until interrupted."""
    if place.key_file is not None or not found.has_own_key:
        found.sealer = Sealer(session_key(place.key_file), found.name)
    edge = found.asgi(
        path=place.path,
        allowed_hosts=[*default_hosts(place.host), *place.hosts],
        allowed_origins=list(place.origins),
    )
    with listen(place.host, place.port) as listening:
        warn_if_public(place.host, place.hosts)
        run_http(edge, listening, debug, lambda: print_banner(found, place.url(listening), named))


def run_http(
    edge: "Endpoint",
    listening: socket.socket,
    debug: bool,
    on_ready: Callable[[], None] = lambda: None,
    **idle: Any,
) -> None:
    """`idle` says how long, and how many, connections may be idle, as in `uvicorn_server`."""
    import asyncio

    from ...edge.http.server import uvicorn_server  # 35 ms of CPU, most of it uvicorn
    from ...edge.runner import run_to_end

    host, port = listening.getsockname()[:2]
    running = uvicorn_server(edge, host, port, log_level="debug" if debug else "warning", **idle)

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
