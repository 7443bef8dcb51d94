"""Where `serve` listens: the socket, the names that reach it, and its URL."""

import errno
import os
import socket
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..config.models import GatewayConfig
from .failure import Failure, warn

WILDCARDS = ("0.0.0.0", "::", "")
BACKLOG = 2048
DEFAULTS = GatewayConfig()


class Place(Struct, frozen=True, kw_only=True):
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
        return _without(self.path, self.public_url) or url_of(self.host, listening, "")


class Asked(Struct, frozen=True, kw_only=True):
    """What was given on the command line; None and nothing: it was not."""

    host: str | None
    port: int | None
    path: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    key_file: Path | None

    def place(self, settings: GatewayConfig) -> Place:
        """Options win over the file."""
        return Place(
            host=settings.host if self.host is None else self.host,
            port=settings.port if self.port is None else self.port,
            path=self.path,
            hosts=self.hosts or settings.allowed_hosts,
            origins=self.origins or settings.allowed_origins,
            key_file=self.key_file,
            public_url=settings.public_url,
        )


def _without(path: str, url: str) -> str:
    """A public address is where everything is found; many would write it with the endpoint's path."""
    return url.rstrip("/").removesuffix(path.rstrip("/"))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket: from here on clients can connect, even before the first is accepted."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        return _bound(socket.socket(family, kind, protocol), address)
    except socket.gaierror as error:
        raise Failure(f"--host {host!r} is not an address: {error.strerror}", "--host 127.0.0.1") from None
    except OSError as error:
        raise Failure(*_why_not(error, host, port)) from None


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


def own_names(host: str) -> list[str]:
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
