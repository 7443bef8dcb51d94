"""Where a request comes from: the address of its client, also behind proxies.

Owns whose word about that counts: only that of the proxies in the configuration. The address is put into the
scope before anybody reads it, so that logs, brakes and the audit mean the same client. Who the caller is, is
for `callers.authenticator`.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from .request import PROXY_EXTENSION, Scope

MAX_REMEMBERED = 1024


class AddressSet:
    """IP addresses and networks."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(ip_network(one) for one in networks)
        self._known: dict[str, bool] = {}

    def has(self, address: str) -> bool:
        known = self._known.get(address)
        if known is None:
            ip = read_address(address)
            known = ip is not None and any(ip in network for network in self._networks)
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[address] = known
        return known


class ForwardingProxies:
    """Proxies that say in X-Forwarded-For for whom they send a request."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._proxies = AddressSet(networks)

    def resolve(self, scope: Scope) -> Scope:
        """The scope with the client's address in it, if a configured proxy has sent the request."""
        client = scope.get("client")
        proxy: str = client[0] if client else ""
        if not self._proxies.has(proxy):
            return scope
        extensions: Mapping[str, Any] = scope.get("extensions") or {}
        found = self._client(scope["headers"], proxy)
        return {**scope, "client": (found, 0), "extensions": {**extensions, PROXY_EXTENSION: proxy}}

    def _client(self, headers: Sequence[tuple[bytes, bytes]], proxy: str) -> str:
        """From the right, the first that is no proxy of ours. Anybody may have written what stands before it.

        What is no address ends the search: the client is then the last proxy that is known.
        """
        found = proxy
        for text in _hops(headers):
            address = read_address(text)
            if address is None:
                break
            found = str(address)
            if not self._proxies.has(found):
                break
        return found


def proxy_of(scope: Scope) -> str:
    """The configured proxy that a request came through; empty if there is none."""
    extensions: Mapping[str, Any] = scope.get("extensions") or {}
    return extensions.get(PROXY_EXTENSION, "")


def _hops(headers: Sequence[tuple[bytes, bytes]]) -> Iterator[str]:
    """The entries of X-Forwarded-For, the newest first."""
    for name, value in reversed(headers):
        if name == b"x-forwarded-for":
            rest, comma = value.decode("latin-1"), ","
            while comma:
                rest, comma, entry = rest.rpartition(",")
                yield _without_port(entry.strip())


def _without_port(entry: str) -> str:
    """Some proxies write the port too: `192.0.2.7:4711`, `[2001:db8::7]:4711`."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address, that of IPv4 where it is written as one of IPv6; None if it is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def block_of(address: str) -> str:
    """The address; of IPv6 the block that one household or machine has."""
    known = read_address(address)
    if isinstance(known, IPv6Address):
        return str(ip_network((known, 64), strict=False))
    return address if known is None else str(known)
