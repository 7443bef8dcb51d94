"""One HTTP GET on behalf of a caller: checked addresses, limits on time and size, compressed bodies.

Connects only to addresses that the rules allow: names are resolved once, checked, and the checked address is
the one connected to, so that DNS rebinding gains nothing. Follows no redirect and repeats nothing.
"""

import asyncio
import ipaddress
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from ..egress import AddressRules, Resolve
from .decompression import ACCEPTED, CompressionError, Decompressor
from .outcomes import CrawlError

CONNECT_SECONDS = 15.0
MAX_HEADER = 64 * 1024
_CHUNK = 64 * 1024
_KEPT_HEADERS = frozenset(
    [
        "content-type",
        "content-encoding",
        "content-language",
        "location",
        "retry-after",
        "etag",
        "last-modified",
        "cache-control",
        "expires",
        "date",
        "age",
        "vary",
        "server",
        "cf-mitigated",
        "cf-ray",
        "x-datadome",
        "x-robots-tag",
        "www-authenticate",
        "link",
        "refresh",
    ]
)
ACCEPT = (
    "text/html,application/xhtml+xml,application/pdf,application/json;q=0.9,application/rss+xml;q=0.9,"
    "application/atom+xml;q=0.9,text/plain;q=0.9,*/*;q=0.5"
)


class Response(Struct, frozen=True):
    url: str
    status: int
    headers: dict[str, str]
    """Some of them, with names in lower case."""
    body: bytes
    from_cache: bool = False

    @property
    def location(self) -> str:
        return self.headers.get("location", "") if self.status in (301, 302, 303, 307, 308) else ""


class PageCookies:
    """The cookies of one page and its redirects. They are forgotten with it, and no other page sees them."""

    def __init__(self) -> None:
        self._jar = aiohttp.CookieJar(unsafe=True)

    def header(self, url: str) -> dict[str, str]:
        return {name: morsel.value for name, morsel in self._jar.filter_cookies(URL(url)).items()}

    def keep(self, response: aiohttp.ClientResponse) -> None:
        self._jar.update_cookies(response.cookies, response.url)


class _CheckedResolver(AbstractResolver):
    def __init__(self, rules: AddressRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._resolve(host, port)
        if not all(self._rules.allows(host, address, port) for address in addresses):
            raise CrawlError("private", host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


class Fetcher:
    def __init__(
        self, rules: AddressRules, resolve: Resolve, *, user_agent: str, connections: int, max_bytes: int
    ) -> None:
        self._rules = rules
        self._resolver = _CheckedResolver(rules, resolve)
        self._connections = connections
        self._headers = {
            "User-Agent": user_agent,
            "Accept": ACCEPT,
            "Accept-Encoding": ACCEPTED,
            "Accept-Language": "en,pt;q=0.8,*;q=0.5",
        }
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(
        self,
        url: str,
        *,
        cookies: PageCookies,
        extra: dict[str, str] | None = None,
        max_bytes: int | None = None,
    ) -> Response:
        """Raises CrawlError, which says whether to try again by its code."""
        self._check_literal(url)
        try:
            async with self._open().get(
                URL(url, encoded=False),
                headers=extra,
                cookies=cookies.header(url),
                allow_redirects=False,
            ) as response:
                self._check_peer(response)
                cookies.keep(response)
                headers = {
                    name.lower(): value
                    for name, value in response.headers.items()
                    if name.lower() in _KEPT_HEADERS
                }
                is_redirect = response.status in (301, 302, 303, 307, 308) and "location" in headers
                body = b"" if is_redirect else await self._body(response, max_bytes or self._max_bytes)
                return Response(url, response.status, headers, body)
        except CompressionError as error:
            if error.code == "too_large":
                raise CrawlError("too_large", max_bytes or self._max_bytes) from None
            raise CrawlError("compression", error.detail) from None
        except aiohttp.ClientError as error:
            raise _explained(error, url) from None
        except ssl.SSLError as error:
            raise CrawlError("tls", error.reason or "") from None
        except (OSError, asyncio.IncompleteReadError) as error:  # the resolver's, or the connection's
            raise CrawlError("unreachable", getattr(error, "strerror", None) or "") from None
        except ValueError:
            raise CrawlError("address") from None

    async def _body(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        decoder = Decompressor(response.headers.get("Content-Encoding", ""), most)
        announced = response.headers.get("Content-Length", "")
        if announced.isdigit() and int(announced) > most:
            raise CrawlError("too_large", most)
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_chunked(_CHUNK):
            size += len(piece)
            if size > most:
                raise CrawlError("too_large", most)
            pieces.append(decoder.decode(piece))
        return b"".join(pieces)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections, resolver=self._resolver, use_dns_cache=False, keepalive_timeout=15
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                auto_decompress=False,
                trust_env=False,  # a proxy of the environment would connect for us, unchecked
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                max_line_size=MAX_HEADER,
                max_field_size=MAX_HEADER,
            )
        return self._session

    def _check_literal(self, url: str) -> None:
        """Addresses in the URL itself never reach the resolver."""
        parts = urlsplit(url)
        host = (parts.hostname or "").partition("%")[0]
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            address = str(ipaddress.ip_address(host))
        except ValueError:
            return
        if not self._rules.allows(host, address, port):
            raise CrawlError("private", host)

    def _check_peer(self, response: aiohttp.ClientResponse) -> None:
        """The address that was connected to, once more: nothing above should let another one through."""
        connection = response.connection
        transport: Any = None if connection is None else connection.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        host = response.url.host or ""
        if peer and not self._rules.allows(host, str(peer[0]), response.url.port or 0):
            raise CrawlError("private", host)


def _explained(error: aiohttp.ClientError, url: str) -> CrawlError:
    host = urlsplit(url).hostname or ""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return CrawlError("unknown_host", host)
    if isinstance(error, (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError)):
        return CrawlError("tls", host)
    if isinstance(error, aiohttp.ClientConnectorError):
        return CrawlError("unreachable", host)
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return CrawlError("address")
    if isinstance(error, aiohttp.ServerTimeoutError):
        return CrawlError("unreachable", host)
    return CrawlError("broken", host)
