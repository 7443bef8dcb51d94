"""Connections to the web on behalf of a caller: which addresses are allowed, and a proxy that enforces it.

Resolves a name once, checks every address found, and connects to the address that was checked, so that DNS
rebinding gains nothing. Programs that make their own connections (Chromium, yt-dlp) are given the proxy.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAT64 = ipaddress.ip_network("64:ff9b::/96")
UNICAST = ipaddress.ip_network("2000::/3")
"""The public unicast range of IPv6."""
# Closed in addition to the standard library's lists, which differ by version and do not know clouds.
_CLOSED: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure: keys and certificates of the machine
            "161.26.0.0/16",  # IBM Cloud: services inside
            "166.8.0.0/14",
            "192.0.0.0/24",  # protocols, and Oracle Cloud's metadata
            "192.88.99.0/24",  # relays of 6to4
            "100.64.0.0/10",  # behind a carrier, and Alibaba Cloud's metadata
            "198.18.0.0/15",
            "0.0.0.0/8",
            "2001::/23",
            "2001:db8::/32",
            "3fff::/20",
        ),
    )
)
_ISATAP = 0x0000_5EFE, 0x0200_5EFE
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d+(?:[/?#]|$))", re.IGNORECASE)
"""The scheme of an address; `host:8080` has none."""


class UnfitAddressError(Exception):
    """The browser cannot open this address; `scheme` is set if it is the reason."""

    def __init__(self, scheme: str | None = None) -> None:
        super().__init__(scheme)
        self.scheme = scheme


class AddressPattern(Struct, frozen=True):
    """One entry of `allow`: a name, possibly with `*`, or a network, and an optional port."""

    name: str
    network: Network | None
    port: int | None

    def matches(self, host: str, address: Ip, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address.version == self.network.version and address in self.network
        return fnmatchcase(host, self.name)


class AddressRules:
    """Allows public addresses, and others only if configured."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._allowed = [pattern_of(text) for text in allow]

    def allows(self, host: str, address: str, port: int) -> bool:
        ip = plain(ipaddress.ip_address(address.partition("%")[0]))
        name = host.lower().rstrip(".")
        return is_public(ip) or any(pattern.matches(name, ip, port) for pattern in self._allowed)


def pattern_of(text: str) -> AddressPattern:
    """Raises ValueError for an invalid pattern."""
    host, port = _without_port(text.strip().lower())
    if not host or "/" in re.sub(r"/\d+$", "", host) or (port or 0) > 65535:
        raise ValueError(f"{text!r} is not a host, an address or a network, with or without a port")
    try:
        return AddressPattern(host, ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        if "/" in host:
            raise ValueError(f"{text!r} is not a network") from None
        return AddressPattern(host.rstrip("."), None, port)


def _without_port(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]*):(\d+)", text)
    if found is None:
        return text, None
    host, port = found[1] or found[3], found[2] or found[4]
    return host, int(port) if port else None


def plain(ip: Ip) -> Ip:
    """Returns the IPv4 address inside an IPv6 one, so that it cannot be hidden there."""
    if isinstance(ip, ipaddress.IPv6Address):
        # ISATAP embeds the IPv4 address at the end, in any network.
        if ip in NAT64 or (int(ip) >> 32) & 0xFFFF_FFFF in _ISATAP:
            return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or ip
    return ip


def is_public(ip: Ip) -> bool:
    if isinstance(ip, ipaddress.IPv6Address) and ip not in UNICAST:
        return False
    if any(ip.version == network.version and ip in network for network in _CLOSED):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def web_address(text: str) -> str:
    """Completes an http or https address; raises UnfitAddressError for others."""
    address = text.strip()
    found = _SCHEME.match(address)
    if found is None:
        address = "https://" + address.removeprefix("//")
    elif found[1].lower() not in ("http", "https"):
        raise UnfitAddressError(found[1].lower())
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    if not host or any(character.isspace() for character in address):
        raise UnfitAddressError()
    return address


Resolve = Callable[[str, int], Awaitable[list[str]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
CHROMIUM_SERVICES = frozenset(
    f"{name}.googleapis.com"
    for name in ("content-autofill", "optimizationguide-pa", "safebrowsing", "update")
)
"""Services that Chromium itself would contact about forms and pages; no page needs them."""

HEAD_BYTES = 256 * 1024
CONNECT_SECONDS = 15.0
MAX_FAILURES = 100
_HOP = re.compile(rb"(?im)^(?:proxy-[^:\r\n]+|connection|keep-alive|te|upgrade):[^\r\n]*\r\n")
_HOST = re.compile(rb"(?im)^host:[^\r\n]*\r\n")


class ConnectionFailure(Struct, frozen=True):
    """A connection that failed or was refused."""

    kind: Literal["refused", "unknown", "unreachable", "too_much"]
    host: str
    port: int


class _NotConnectedError(Exception):
    def __init__(self, failure: ConnectionFailure) -> None:
        self.failure = failure


async def resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class EgressProxy:
    """Open it before its context and close it after. `failures` are the connections that failed."""

    def __init__(self, rules: AddressRules, max_bytes: int, resolve: Resolve = resolve) -> None:
        self._rules = rules
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.failures: deque[ConnectionFailure] = deque(maxlen=MAX_FAILURES)

    async def open(self) -> str:
        """Starts listening; returns the proxy's URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def open_at(self, path: Path) -> None:
        """Starts listening at a Unix socket, for programs that have no other way out."""
        self._server = await asyncio.start_unix_server(self._serve, path, limit=HEAD_BYTES)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def take_failures(self) -> list[ConnectionFailure]:
        """Returns the failures since the last call, each once."""
        found = list(dict.fromkeys(self.failures))
        self.failures.clear()
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._answer(reader, writer)
        except _NotConnectedError as error:
            self.failures.append(error.failure)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the browser or the site closed the connection, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # we are closing
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        method, target, _ = line.split(b" ")
        if method == b"CONNECT":
            host, _, port = target.decode("ascii").rpartition(":")
            await self._tunnel((reader, writer), host.strip("[]"), int(port))
        else:
            await self._forward((reader, writer), method, target.decode("ascii"), fields)

    async def _tunnel(self, browser: Streams, host: str, port: int) -> None:
        site = await self._reach(host, port)
        browser[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
        await self._between(browser, site[0], site[1], (host, port))

    async def _forward(self, browser: Streams, method: bytes, target: str, fields: bytes) -> None:
        """Forwards one request without TLS, then closes: the next may be for another host."""
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("not a request to a proxy")
        port = parts.port or 80
        site = await self._reach(parts.hostname, port)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = parts.netloc.rpartition("@")[2]
        kept = _HOST.sub(b"", _HOP.sub(b"", fields))
        start = f"{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n".encode("ascii")
        site[1].write(method + b" " + start + kept)
        await self._between(browser, _Headed(site[0]), site[1], (parts.hostname, port))

    async def _reach(self, host: str, port: int) -> Streams:
        if host.lower() in CHROMIUM_SERVICES:
            raise ValueError("not a request of a page")
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            try:
                addresses = await self._resolve(host, port)
            except OSError:
                raise _NotConnectedError(ConnectionFailure("unknown", host, port)) from None
        if not all(self._rules.allows(host, address, port) for address in addresses):
            raise _NotConnectedError(ConnectionFailure("refused", host, port))
        for address in addresses:
            with contextlib.suppress(OSError):  # TimeoutError is one
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port, limit=HEAD_BYTES)
        raise _NotConnectedError(ConnectionFailure("unreachable", host, port))

    async def _between(
        self,
        browser: Streams,
        coming: "asyncio.StreamReader | _Headed",
        going: asyncio.StreamWriter,
        site: tuple[str, int],
    ) -> None:
        up = asyncio.create_task(_pump(browser[0], going, None))
        try:
            if not await _pump(coming, browser[1], self._max_bytes):
                self.failures.append(ConnectionFailure("too_much", *site))
        finally:
            up.cancel()
            going.close()  # before anything is awaited: a second cancellation would skip it
            await asyncio.gather(up, return_exceptions=True)


async def _pump(
    source: "asyncio.StreamReader | _Headed", sink: asyncio.StreamWriter, most: int | None
) -> bool:
    """Returns False if there is more data than allowed."""
    carried = 0
    while data := await source.read(65536):
        carried += len(data)
        if most is not None and carried > most:
            return False
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
    return True


class _Headed:
    """Adds `Connection: close` to a response."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._headed = False

    async def read(self, size: int) -> bytes:
        if self._headed:
            return await self._reader.read(size)
        head = await self._reader.readuntil(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        if line.split(b" ", 2)[1][:1] == b"1":  # an interim response: another head follows
            return head
        self._headed = True
        return line + b"\r\nConnection: close\r\n" + _HOP.sub(b"", fields)
