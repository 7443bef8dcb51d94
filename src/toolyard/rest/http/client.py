"""HTTP to one API: its base URL, requests as bytes, kept-alive connections, deadlines and limits.

Our own and small, because importing an HTTP library would take most of the cold start of a function
(docs/concepts/decisions.md). Follows no redirects, stores no cookies and knows no keys; retries only if a
kept connection turns out to be closed.
"""

import asyncio
import re
import select
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..._version import __version__
from ..definition.model import WITH_BODY
from .connection import ApiConnection, ApiTimeoutError, ApiUnreachableError, RestResponse

if TYPE_CHECKING:
    import ssl


_URL = re.compile(r"(https?)://(\[[0-9a-fA-F:.]+\]|[^/:\[\]]+)(?::([0-9]{1,5}))?(/[\x21-\x7e]*)?", re.I)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_PORTS = {"http": 80, "https": 443}


class BaseUrlError(ValueError):
    """An invalid base URL. Quotes it only if it cannot contain a password."""

    def __init__(self, what: str, hint: str) -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"the base URL {what}; {hint}")


class ApiOrigin(Struct, frozen=True):
    secure: bool
    host: str
    """For the connection: an IPv6 address has no brackets."""
    port: int
    base: str
    """The path before every path of the definition, without a slash at its end."""
    authority: str
    """For the Host header."""

    @classmethod
    def parse(cls, url: str) -> "ApiOrigin":
        """Raises BaseUrlError."""
        if "@" in re.split(r"[/?#]", url.partition("://")[2] or url)[0]:
            raise BaseUrlError("has a user or a password in it", "keys belong to [auth] and 'api_key'")
        if "?" in url or "#" in url:
            raise BaseUrlError(
                "has a query or a fragment", "put values that are always sent into a tool's 'fixed'"
            )
        match = _URL.fullmatch(url)
        host = _host(match[2].lower()) if match is not None else None
        if match is None or host is None:
            raise BaseUrlError(f"{url!r} is not a URL", "write one such as 'https://api.example.com/v1'")
        scheme = match[1].lower()
        port = int(match[3] or _PORTS[scheme])
        if not 0 < port < 65536:
            raise BaseUrlError(f"{url!r} has an invalid port", "use 1 to 65535")
        authority = host if port == _PORTS[scheme] else f"{host}:{port}"
        return cls(scheme == "https", host.strip("[]"), port, (match[4] or "").rstrip("/"), authority)


def _host(written: str) -> str | None:
    """The host for a Host header; None if it is invalid."""
    try:
        if written.startswith("["):
            socket.inet_pton(socket.AF_INET6, written[1:-1])
            return written
        host = written if written.isascii() else written.encode("idna").decode()
    except (OSError, UnicodeError):
        return None
    labels = host.removesuffix(".").split(".")
    return host if all(_LABEL.fullmatch(label) for label in labels) else None


CONNECT_SECONDS = 10.0
MAX_IDLE = 32
IDLE_SECONDS = 30.0
"""How long a connection is kept. After a freeze, as of a function, a closed one may look open."""
SURE_SECONDS = 4.0
"""The same for requests that must not be sent twice: many servers close connections after 5 s."""

_DEFAULTS = {
    "User-Agent": f"toolyard/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}


class RestRequest(Struct, frozen=True):
    method: str
    target: str
    """Path and query, encoded."""
    headers: dict[str, str] = {}
    body: bytes = b""
    repeatable: bool = False
    """Whether it may be sent twice."""

    def __repr__(self) -> str:
        """Without query and headers, one of which has the key."""
        return f"Request({self.method} {self.target.partition('?')[0]})"


class RestClient:
    def __init__(
        self,
        origin: ApiOrigin,
        idle_seconds: float = IDLE_SECONDS,
        sure_seconds: float = SURE_SECONDS,
        locate: Callable[[str, int], Awaitable[str]] | None = None,
    ) -> None:
        """`locate` gives the address to connect to, by host and port; without it the system chooses.

        What it raises instead of an ApiUnreachableError is not caught here.
        """
        self.origin = origin
        self._locate = locate
        self._idle_seconds = idle_seconds
        self._sure_seconds = sure_seconds
        self._idle: list[ApiConnection] = []
        self._closed = False
        self._tls: ssl.SSLContext | None = None

    async def send(self, request: RestRequest, seconds: float, limit: int) -> RestResponse:
        """The response, whatever its status; raises RestTransportError if there is none."""
        parts = self._write(request)
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(request, parts, limit)
        except TimeoutError:
            raise ApiTimeoutError(seconds) from None

    async def close(self) -> None:
        """What is still under way comes to its end; no connection is kept any more."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: RestRequest, parts: list[bytes], limit: int) -> RestResponse:
        kept = self._idle_connection(self._idle_seconds if request.repeatable else self._sure_seconds)
        if kept is not None:
            try:
                return await self._on(kept, parts, limit)
            except ApiUnreachableError:
                # Closed while we wrote. Send again only if the request may arrive twice.
                if not request.repeatable:
                    raise
        return await self._on(await self._open(), parts, limit)

    async def _on(self, connection: ApiConnection, parts: list[bytes], limit: int) -> RestResponse:
        reply = await connection.exchange(parts, limit)
        if not connection.closed and not self._closed and len(self._idle) < MAX_IDLE:
            connection.idle_since = time.time()
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def _idle_connection(self, seconds: float) -> ApiConnection | None:
        """The last used open connection, if it was used within so many seconds."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop:
                continue  # of an event loop that has ended
            fresh = 0 <= time.time() - connection.idle_since < seconds
            if fresh and not connection.closed and not _is_readable(connection.fileno()):
                return connection
            connection.close()
        return None

    async def _open(self) -> ApiConnection:
        origin = self.origin
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                host = origin.host if self._locate is None else await self._locate(origin.host, origin.port)
                _, connection = await loop.create_connection(
                    ApiConnection,
                    host,
                    origin.port,
                    ssl=self._context() if origin.secure else None,
                    server_hostname=origin.host if origin.secure else None,
                )
        except TimeoutError:
            raise ApiUnreachableError("no connection in time", sent=False) from None
        except (OSError, UnicodeError) as error:
            raise ApiUnreachableError(_reason(error), sent=False) from None
        return connection

    def _context(self) -> "ssl.SSLContext":
        if self._tls is None:
            import ssl  # its context takes 50 ms of CPU, once

            self._tls = ssl.create_default_context()
        return self._tls

    def _write(self, request: RestRequest) -> list[bytes]:
        headers = {"Host": self.origin.authority, **_DEFAULTS}
        names = {name.lower(): name for name in headers}
        for name, value in request.headers.items():
            # The last one counts, in any case: it is the key, even if the definition has that header.
            headers[names.setdefault(name.lower(), name)] = value
        if request.body or request.method in WITH_BODY:
            headers["Content-Length"] = str(len(request.body))
        lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        for line in lines:
            if "\r" in line or "\n" in line or "\0" in line:
                raise ValueError("a line break inside a line of a request")
        if not request.target.startswith("/") or not request.target.isascii() or " " in request.target:
            raise ValueError("a target that is not an encoded path")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return [head, request.body] if request.body else [head]


def _is_readable(descriptor: int) -> bool:
    """Whether an idle connection has ended or has unexpected data.

    The event loop would notice only after the request is written.
    """
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):
        return False
    poll: Any = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _reason(error: Exception) -> str:
    """A short reason without addresses, which system messages contain."""
    name = type(error).__name__
    if "Cert" in name or "SSL" in name:
        return "its certificate or TLS cannot be trusted"
    known = {"ConnectionRefusedError": "connection refused", "gaierror": "its name is not known"}
    return known.get(name, "no connection")
