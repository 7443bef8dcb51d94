"""Which addresses a page may reach: what the rules say of a name, an address and a port. Reaches nothing."""

import ipaddress
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from msgspec import Struct

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAT64 = ipaddress.ip_network("64:ff9b::/96")
UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that anybody on the internet has."""
# Beside what the standard library of any version calls public: its lists differ, and none knows of clouds.
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
"""Of an address; `host:8080` has none."""


class Unfit(Exception):
    """An address that the browser is not sent to; `scheme` where that is the reason."""

    def __init__(self, scheme: str | None = None) -> None:
        super().__init__(scheme)
        self.scheme = scheme


class Pattern(Struct, frozen=True):
    """One entry of `allow`: a name, which may have `*`, or a network, and perhaps a port."""

    name: str
    network: Network | None
    port: int | None

    def fits(self, host: str, address: Ip, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address.version == self.network.version and address in self.network
        return fnmatchcase(host, self.name)


class Rules:
    """Public addresses are open, all others closed unless allowed."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._allowed = [pattern_of(text) for text in allow]

    def admits(self, host: str, address: str, port: int) -> bool:
        ip = plain(ipaddress.ip_address(address.partition("%")[0]))
        name = host.lower().rstrip(".")
        return is_public(ip) or any(pattern.fits(name, ip, port) for pattern in self._allowed)


def pattern_of(text: str) -> Pattern:
    """ValueError when it is none."""
    host, port = _without_port(text.strip().lower())
    if not host or "/" in re.sub(r"/\d+$", "", host) or (port or 0) > 65535:
        raise ValueError(f"{text!r} is not a host, an address or a network, with or without a port")
    try:
        return Pattern(host, ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        if "/" in host:
            raise ValueError(f"{text!r} is not a network") from None
        return Pattern(host.rstrip("."), None, port)


def _without_port(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]*):(\d+)", text)
    if found is None:
        return text, None
    host, port = found[1] or found[3], found[2] or found[4]
    return host, int(port) if port else None


def plain(ip: Ip) -> Ip:
    """The IPv4 address that an IPv6 one stands for, so that neither hides the other."""
    if isinstance(ip, ipaddress.IPv6Address):
        # Whatever network it is in: ISATAP has the other address at the end of its own.
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
    """An http or https address to open, from what somebody wrote; Unfit when it is something else."""
    address = text.strip()
    found = _SCHEME.match(address)
    if found is None:
        address = "https://" + address.removeprefix("//")
    elif found[1].lower() not in ("http", "https"):
        raise Unfit(found[1].lower())
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    if not host or any(character.isspace() for character in address):
        raise Unfit()
    return address
