"""Clients whose id is the URL of a document about them (Client ID Metadata Documents).

Owns the fetch, which a stranger causes: public addresses only, checked before the connection is made to that
very address, no redirects, little time, little size. Owns what of a document counts, and how long.
"""

import asyncio
import logging
import re
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from .._version import __version__
from ..edge.proxies import block_of
from ..egress import AddressRules, Resolve
from ..rest.http.connection import ApiConnection, RestResponse, RestTransportError
from .brakes import Bulkhead
from .clients import MAX_REDIRECTS, OAuthClient, is_redirect, shown_name

if TYPE_CHECKING:
    import ssl

logger = logging.getLogger("toolyard.authserver")
T = TypeVar("T")

MAX_DOCUMENT = 32 * 1024
MAX_URL = 512
FETCH_SECONDS = 5.0
MAX_FETCHES, MAX_FETCHES_OF_HOST, MAX_FETCHES_OF_ASKER = 64, 4, 32
"""At a time. Nobody waits for a place: a stranger chooses the host, and how slowly it answers."""
MIN_FRESH, USUAL_FRESH, MAX_FRESH = 60.0, 3600.0, 24 * 3600.0
FAILED_SECONDS = 30.0
"""A document that could not be had is not asked for again within this time."""
MAX_CACHED = 512
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})", re.IGNORECASE)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")

PINNED: dict[str, tuple[str, tuple[str, ...]]] = {
    "https://claude.ai/oauth/mcp-oauth-client-metadata": (
        "Claude",
        ("https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"),
    ),
    "https://claude.ai/oauth/claude-code-client-metadata": (
        "Claude Code",
        ("http://localhost/callback", "http://127.0.0.1/callback"),
    ),
    "https://vscode.dev/oauth/client-metadata.json": (
        "Visual Studio Code",
        (
            "http://127.0.0.1/",
            "http://localhost/",
            "https://vscode.dev/redirect",
            "https://insiders.vscode.dev/redirect",
        ),
    ),
}
"""Names and redirects of well-known clients: their documents cannot be fetched from many data centres."""


class _Fetched(Struct, frozen=True):
    client: OAuthClient
    until: float


class _Place(Struct, frozen=True):
    host: str
    port: int
    is_secure: bool


class DocumentError(Exception):
    """Why a document cannot be used."""


class FetchedDocuments:
    """Finds a client by the URL of its document. `allow` are private addresses that may be fetched from."""

    def __init__(
        self,
        allow: tuple[str, ...] = (),
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = FETCH_SECONDS,
    ) -> None:
        """`seconds` is how long one document may take."""
        self._seconds = seconds
        self._rules = AddressRules(allow)
        self._resolve = resolve or self._look_up
        self._clock = clock
        self._known: dict[str, _Fetched] = {}
        self._failed: dict[str, float] = {}
        """Until when. Apart from the others, because anybody can fill it."""
        self._answers: dict[str, asyncio.Future[OAuthClient | None]] = {}
        self._fetching: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._bulkhead = Bulkhead(MAX_FETCHES)
        self._tls: ssl.SSLContext | None = None

    async def find(self, url: str, asker: str = "") -> OAuthClient | None:
        """None if there is no usable document; why is in the log. `asker` is the address that wants it.

        Raises BusyError if too many are being fetched, in all, of the host or for the asker.
        """
        pinned = PINNED.get(url)
        if pinned is not None:
            return _client(url, *pinned)
        now, known = self._clock(), self._known.get(url)
        if known is not None and now < known.until:
            return known.client
        if now < self._failed.get(url, 0.0):
            return None
        answer = self._answers.get(url)
        if answer is None:
            try:
                place = _check_url(url)
            except DocumentError as error:
                logger.info("the document of the client %r cannot be used: %s", url[:MAX_URL], error)
                return None
            answer = self._begin(url, place, asker)
        return await asyncio.shield(answer)

    def _begin(self, url: str, place: _Place, asker: str) -> asyncio.Future[OAuthClient | None]:
        shares = {
            f"host {place.host}:{place.port}": MAX_FETCHES_OF_HOST,
            f"asker {block_of(asker)}": MAX_FETCHES_OF_ASKER,
        }
        self._bulkhead.enter(shares)
        answer = self._answers[url] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(url, place, answer))
        self._fetching.add(task)

        def end(_: object) -> None:
            self._fetching.discard(task)
            self._bulkhead.leave(shares)

        task.add_done_callback(end)
        return answer

    async def close(self) -> None:
        tasks = list(self._fetching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, url: str, place: _Place, answer: asyncio.Future[OAuthClient | None]) -> None:
        """Give the answer in time. The place is taken until the name server has answered too."""
        lookup = asyncio.ensure_future(self._resolve(place.host, place.port))
        try:
            try:
                answer.set_result(await self._find(url, place, lookup))
            finally:
                del self._answers[url]
                answer.cancel()
            await asyncio.gather(lookup, return_exceptions=True)
        finally:
            lookup.cancel()

    async def _find(self, url: str, place: _Place, lookup: asyncio.Future[list[str]]) -> OAuthClient | None:
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._fetch(url, place, await asyncio.shield(lookup))
            client = read_document(url, reply)
        except TimeoutError:
            logger.info("the document of the client %r did not come in time", url[:MAX_URL])
        except (DocumentError, RestTransportError, OSError, UnicodeError) as error:
            logger.info("the document of the client %r cannot be used: %s", url[:MAX_URL], error)
        else:
            fresh = freshness(reply.headers.get("cache-control", ""))
            _put(self._known, url, _Fetched(client, self._clock() + fresh))
            return client
        self._known.pop(url, None)
        _put(self._failed, url, self._clock() + FAILED_SECONDS)
        return None

    async def _fetch(self, url: str, place: _Place, addresses: Sequence[str]) -> RestResponse:
        host, port = place.host, place.port
        if not addresses or not all(self._rules.allows(host, address, port) for address in addresses):
            raise DocumentError("its address is not public")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            ApiConnection,
            addresses[0],
            port,
            ssl=self._context() if place.is_secure else None,
            server_hostname=host if place.is_secure else None,
        )
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        head = (
            f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
            f"Accept-Encoding: identity\r\nUser-Agent: toolyard/{__version__}\r\nConnection: close\r\n\r\n"
        )
        try:
            return await connection.exchange([head.encode("ascii")], MAX_DOCUMENT)
        finally:
            connection.close()

    async def _look_up(self, host: str, port: int) -> list[str]:
        """In threads of our own: a name server that a stranger chose may hold each of them for long."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_FETCHES, "client-documents")
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def _context(self) -> "ssl.SSLContext":
        if self._tls is None:
            import ssl  # its context takes 50 ms of CPU, once

            self._tls = ssl.create_default_context()
        return self._tls


def _put(known: dict[str, T], url: str, value: T) -> None:
    known.pop(url, None)
    while len(known) >= MAX_CACHED:
        del known[next(iter(known))]
    known[url] = value


def _check_url(url: str) -> _Place:
    """Raises DocumentError for what cannot be the address of a document. Plain http is for this machine."""
    if not _PRINTABLE.fullmatch(url):  # `urlsplit` drops line ends, and leaves blanks in a query
        raise DocumentError("its address has blanks or letters that no URL has")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DocumentError("its address is no URL") from None
    host = parts.hostname or ""
    segments = parts.path.split("/")
    if len(url) > MAX_URL or not _PATH.fullmatch(parts.path) or len(parts.path) < 2 or not host:
        raise DocumentError("its address must have a host and a path")
    if parts.fragment or "@" in parts.netloc or "." in segments or ".." in segments or "#" in url:
        raise DocumentError("its address has a user, a fragment or dots in it")
    is_secure = parts.scheme == "https"
    if not is_secure and host not in ("127.0.0.1", "localhost", "::1"):
        raise DocumentError("its address is not https")
    return _Place(host, port or (443 if is_secure else 80), is_secure)


def read_document(url: str, reply: RestResponse) -> OAuthClient:
    """Raises DocumentError if it is not a document of this client."""
    if reply.status != 200:
        raise DocumentError(f"it was answered with status {reply.status}")
    if "json" not in reply.headers.get("content-type", ""):
        raise DocumentError("it is not JSON")
    try:
        values = msgspec.json.decode(reply.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DocumentError("it is not a JSON object") from None
    if values.get("client_id") != url:
        raise DocumentError("its client_id is not its address")
    if "client_secret" in values or values.get("token_endpoint_auth_method", "none") != "none":
        raise DocumentError("it wants a way to authenticate other than 'none'")
    given: Any = values.get("redirect_uris")
    uris: list[Any] = cast("list[Any]", given) if isinstance(given, list) else []
    usable = [uri for uri in uris[:MAX_REDIRECTS] if isinstance(uri, str) and is_redirect(uri)]
    name = shown_name(values.get("client_name"))
    if not usable or not name:
        raise DocumentError("it has no client_name or no usable redirect_uris")
    return _client(url, name, tuple(usable))


def _client(url: str, name: str, redirects: tuple[str, ...]) -> OAuthClient:
    return OAuthClient(
        id=url, label=url, name=name, redirect_uris=redirects, host=urlsplit(url).hostname or ""
    )


def freshness(cache_control: str) -> float:
    """For how many seconds a document counts, by its Cache-Control and within our own limits."""
    if re.search(r"no-store|no-cache", cache_control, re.IGNORECASE):
        return MIN_FRESH
    found = _MAX_AGE.search(cache_control)
    return USUAL_FRESH if found is None else min(max(float(found[1]), MIN_FRESH), MAX_FRESH)
