"""HTTP to one API: requests as bytes, connections kept alive between them, deadlines and limits.

Our own and small, because the import of a whole HTTP library is most of what a cold function may cost
(docs/concepts/decisions.md). It follows no redirects, keeps no cookies, and knows nothing of keys or retries,
but for one: a kept connection that turns out to be closed is replaced at once.
"""

import asyncio
import select
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .. import __version__
from .connection import Connection, Reply
from .faults import TooSlow, Unreachable
from .origin import Origin
from .table import WITH_BODY

if TYPE_CHECKING:
    import ssl

CONNECT_SECONDS = 10.0
MOST_IDLE = 32
IDLE_SECONDS = 30.0
"""How long a connection is kept. One that was closed while we were frozen, as functions are, looks open."""
SURE_SECONDS = 4.0
"""And for what may not be sent twice: many servers close after five, and on such a one it would fail."""

_DEFAULTS = {
    "User-Agent": f"toolyard/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}


class Request(Struct, frozen=True):
    method: str
    target: str
    """Path and query, encoded."""
    headers: dict[str, str] = {}
    body: bytes = b""
    repeatable: bool = False
    """Whether sending it twice does no harm."""

    def __repr__(self) -> str:
        """Without query and headers: the key is in one of them."""
        return f"Request({self.method} {self.target.partition('?')[0]})"


class HttpClient:
    def __init__(
        self, origin: Origin, idle_seconds: float = IDLE_SECONDS, sure_seconds: float = SURE_SECONDS
    ) -> None:
        self.origin = origin
        self._idle_seconds = idle_seconds
        self._sure_seconds = sure_seconds
        self._idle: list[Connection] = []
        self._closed = False
        self._tls: ssl.SSLContext | None = None

    async def send(self, request: Request, seconds: float, limit: int) -> Reply:
        """The reply, whatever its status; raises a `Fault` when there is none."""
        parts = self._written(request)
        try:
            async with asyncio.timeout(seconds):
                return await self._exchanged(request, parts, limit)
        except TimeoutError:
            raise TooSlow(seconds) from None

    async def close(self) -> None:
        """What is still under way comes to its end; no connection is kept any more."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def _exchanged(self, request: Request, parts: list[bytes], limit: int) -> Reply:
        kept = self._kept(self._idle_seconds if request.repeatable else self._sure_seconds)
        if kept is not None:
            try:
                return await self._on(kept, parts, limit)
            except Unreachable:
                # It was closed while we wrote. Sent again only where the API may see it twice.
                if not request.repeatable:
                    raise
        return await self._on(await self._connected(), parts, limit)

    async def _on(self, connection: Connection, parts: list[bytes], limit: int) -> Reply:
        reply = await connection.exchange(parts, limit)
        if not connection.closed and not self._closed and len(self._idle) < MOST_IDLE:
            connection.idle_since = time.time()
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def _kept(self, seconds: float) -> Connection | None:
        """One that is still open and was used within so many seconds; the last: others may go idle."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop:
                continue  # of a loop that has ended, and its connections with it
            fresh = 0 <= time.time() - connection.idle_since < seconds
            if fresh and not connection.closed and not _has_news(connection.fileno()):
                return connection
            connection.close()
        return None

    async def _connected(self) -> Connection:
        origin = self.origin
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    Connection, origin.host, origin.port, ssl=self._context() if origin.secure else None
                )
        except TimeoutError:
            raise Unreachable("no connection in time", sent=False) from None
        except (OSError, UnicodeError) as error:
            raise Unreachable(_reason(error), sent=False) from None
        return connection

    def _context(self) -> "ssl.SSLContext":
        if self._tls is None:
            import ssl  # its context costs 50 ms of CPU: once, and only where it is needed

            self._tls = ssl.create_default_context()
        return self._tls

    def _written(self, request: Request) -> list[bytes]:
        headers = {"Host": self.origin.authority, **_DEFAULTS}
        names = {name.lower(): name for name in headers}
        for name, value in request.headers.items():
            # The last one counts, however it is written: that is the key, whatever a table has of that name.
            headers[names.setdefault(name.lower(), name)] = value
        if request.body or request.method in WITH_BODY:
            headers["Content-Length"] = str(len(request.body))
        lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        for line in lines:
            if "\r" in line or "\n" in line or "\0" in line:
                raise ValueError("a line break inside a line of a request")
        if not request.target.startswith("/") or not request.target.isascii() or " " in request.target:
            raise ValueError("a target that is no encoded path")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return [head, request.body] if request.body else [head]


def _has_news(descriptor: int) -> bool:
    """Whether a connection nobody reads from has something to say: that it ended, or what nobody asked for.

    The event loop would tell only after the next turn, when the request has been written in vain.
    """
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):
        return False
    poll: Any = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _reason(error: Exception) -> str:
    """In a word: messages of the system name addresses, which are nobody's business."""
    name = type(error).__name__
    if "Cert" in name or "SSL" in name:
        return "its certificate or TLS cannot be trusted"
    known = {"ConnectionRefusedError": "connection refused", "gaierror": "its name is not known"}
    return known.get(name, "no connection")
