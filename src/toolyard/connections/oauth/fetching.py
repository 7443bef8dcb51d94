"""HTTP to authorization servers, guarded: their addresses come from documents that strangers wrote.

Follows no redirect, limits time and size, and connects only to addresses that were checked: public ones,
and others only if the upstream itself, or an address in the configuration, is of the same kind. HTTPS is
required, except where the upstream is on this machine or is itself reached without.
"""

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from ...egress import Ip, Resolve, is_public, plain, resolve
from ...rest.http.client import ApiOrigin, BaseUrlError, RestClient, RestRequest
from ...rest.http.connection import ApiUnreachableError, RestTransportError
from .errors import AuthorityUnavailableError, UntrustedAuthorityError

SECONDS = 10.0
MAX_DOCUMENT = 256 * 1024
MAX_CLIENTS = 16
MAX_URL = 2000
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_WRITTEN = re.compile(r"[\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+")
"""The signs that a URL may have: no space, quote, backslash, nor anything beyond ASCII."""
_CLOUD_SERVICES = frozenset(
    map(
        ipaddress.ip_address,
        # Azure, Alibaba, Oracle, AWS and Google: they hand the keys of a machine to whoever asks from it.
        ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)


class FetchedReply(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes

    def json(self) -> dict[str, Any] | None:
        """The object in the body; None if it is something else."""
        try:
            found: Any = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]


def kind_of_address(ip: Ip) -> str:
    if is_public(ip):
        return "public"
    if ip.is_loopback:
        return "loopback"
    # Cloud metadata services live there; no authorization server does.
    if ip.is_link_local or ip in _CLOUD_SERVICES:
        return "link-local"
    # 0.0.0.0 is this machine, whatever else a server's network may be.
    return "special" if ip.is_unspecified or ip.is_multicast or ip.is_reserved else "private"


class GuardedFetcher:
    """`trusted` are URLs of the operator's own choice: the upstream, and issuers from the configuration."""

    def __init__(self, trusted: Sequence[str], seconds: float = SECONDS, resolve: Resolve = resolve) -> None:
        self._hosts = {(urlsplit(url).hostname or "").lower() for url in trusted if url}
        self._plain = {
            (urlsplit(url).hostname or "").lower() for url in trusted if urlsplit(url).scheme == "http"
        }
        self._seconds = seconds
        self._resolve = resolve
        self._kinds: set[str] | None = None
        self._clients: dict[str, RestClient] = {}

    async def get(self, url: str) -> FetchedReply:
        """Raises AuthorityUnavailableError, or UntrustedAuthorityError for an address that is not allowed."""
        return await self._send("GET", url, {}, b"")

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> FetchedReply:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self._send("POST", url, {**(headers or {}), **kind}, urlencode(form).encode())

    async def post_json(self, url: str, document: Mapping[str, Any]) -> FetchedReply:
        body = json.dumps(document).encode()
        return await self._send("POST", url, {"Content-Type": "application/json"}, body)

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    def check(self, url: str) -> None:
        """Raises UntrustedAuthorityError if nothing may be sent there, whatever its addresses are."""
        try:
            parts = urlsplit(url)
            host, _ = (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise UntrustedAuthorityError("an address in the server's metadata is no URL") from None
        # Python drops line breaks from a URL where a browser or a header would not.
        if not _WRITTEN.fullmatch(url) or len(url) > MAX_URL:
            raise UntrustedAuthorityError(f"{shown_url(url)} cannot be used as an address")
        loopback = host in _LOOPBACK_NAMES and bool(self._plain)
        if parts.scheme != "https" and not (parts.scheme == "http" and (loopback or host in self._plain)):
            raise UntrustedAuthorityError(
                f"{shown_url(url)} is not an https address",
                "tokens are sent there, so it has to be; only servers on this machine may do without",
            )
        try:
            ApiOrigin.parse(f"{parts.scheme}://{parts.netloc}")
        except BaseUrlError:
            raise UntrustedAuthorityError(f"{shown_url(url)} cannot be used as an address") from None

    async def _send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> FetchedReply:
        self.check(url)
        client = await self._client(url)
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        request = RestRequest(method, target, headers, body, repeatable=method == "GET")
        try:
            reply = await client.send(request, self._seconds, MAX_DOCUMENT)
        except (RestTransportError, ValueError) as error:
            raise AuthorityUnavailableError(f"{shown_url(url)}: {error}") from None
        return FetchedReply(reply.status, reply.headers, reply.body)

    async def _client(self, url: str) -> RestClient:
        parts = urlsplit(url)
        key = f"{parts.scheme}://{parts.netloc}"
        if key not in self._clients:
            origin = ApiOrigin.parse(key)
            while len(self._clients) >= MAX_CLIENTS:
                await self._clients.pop(next(iter(self._clients))).close()
            self._clients[key] = RestClient(origin, locate=self._locate)
        return self._clients[key]

    async def _locate(self, host: str, port: int) -> str:
        """The address to connect to, so that a name cannot lead elsewhere after it was checked."""
        found = await self._addresses(host, port)
        allowed = await self._allowed_kinds()
        for address in found:
            kind = kind_of_address(plain(ipaddress.ip_address(address.partition("%")[0])))
            if kind != "public" and kind not in allowed and host.lower() not in self._hosts:
                raise UntrustedAuthorityError(
                    f"{host} is at a {kind} address, and the server is not",
                    "if it is meant to be there, name it as 'issuer' in the server's auth",
                )
        return found[0]

    async def _allowed_kinds(self) -> set[str]:
        """The kinds of addresses that the trusted hosts have."""
        if self._kinds is None:
            kinds: set[str] = set()
            for host in self._hosts:
                try:
                    found = await self._addresses(host, 443)
                except ApiUnreachableError:
                    continue
                kinds |= {
                    kind_of_address(plain(ipaddress.ip_address(one.partition("%")[0]))) for one in found
                }
            self._kinds = kinds - {"link-local", "special"}
        return self._kinds

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ApiUnreachableError(f"{host} is not known ({error})", sent=False) from None
        if not found:
            raise ApiUnreachableError(f"{host} is not known", sent=False)
        return found


def shown_url(url: str) -> str:
    """For messages: without query and user."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    text = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
    return "".join(sign if sign.isprintable() else "?" for sign in text)
