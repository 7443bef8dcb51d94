"""An HTTP client without aiohttp, for a client that makes a few requests and ends: it costs 5 ms to import.

Speaks HTTP/1.1 with httptools over asyncio. Connections are kept and used again one request after the other.
What a server may send without end is limited, as in `limits`. It has no proxies and no cookies, and does not
unpack what is compressed.
"""

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import httptools
from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]
from multidict import CIMultiDict, CIMultiDictProxy

from .client import HttpExchange, HttpFailures

if TYPE_CHECKING:
    import ssl

    from yarl import URL

MAX_INTERIM = 20
MAX_HEAD = 256 * 1024
MAX_OVERHEAD = 1024 * 1024
"""Bytes of a response outside its body."""
_OVERHEAD_PER_BYTE = 8
"""Additional bytes allowed for each byte of the body: chunks of one byte need that many."""
MAX_WAITING = 256 * 1024
"""Bytes of a body that nobody has read yet, above which no more are received."""
KEEP_SECONDS = 30.0
_PIECE = 4096


class DirectHttpError(Exception):
    """The connection ended, or what came is not HTTP."""


class NotConnectedError(DirectHttpError):
    """`os_error` is what the system said."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error) or "timed out")
        self.os_error = error


class UnfinishedRequestError(DirectHttpError):
    """The connection was closed before the request was written."""


class ExcessError(DirectHttpError):
    """A server exceeds a limit; the message names the limit and follows the words 'it sent'."""


class DirectHttpClient:
    def __init__(self) -> None:
        self.exchange: HttpExchange | None = None
        self._idle: dict[tuple[str, str | None, int | None], list[_HttpWire]] = {}
        self._wires: set[_HttpWire] = set()
        self._tls: ssl.SSLContext | None = None

    def open(self) -> HttpExchange:
        self.exchange = self._send
        return self._send

    def failures(self) -> HttpFailures:
        return HttpFailures(
            (DirectHttpError, TimeoutError, OSError),
            (NotConnectedError,),
            ExcessError,
            lambda error: isinstance(error, UnfinishedRequestError),
        )

    def timeout(self, connect_seconds: float) -> float:
        return connect_seconds

    async def _send(
        self,
        method: str,
        url: "URL",
        /,
        *,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: Any,  # noqa: ASYNC109 (as aiohttp has it)
    ) -> "DirectResponse":
        head = _head(method, url, headers, data)
        wire = self._kept(url) or await self._connect(url, timeout)
        try:
            return await wire.send(head + (data or b""))
        except BaseException:
            wire.close()
            raise

    def _kept(self, url: "URL") -> "_HttpWire | None":
        idle = self._idle.get(_origin(url), [])
        while idle:
            wire = idle.pop()
            if wire.is_quiet:
                return wire
            wire.close()
        return None

    async def _connect(self, url: "URL", seconds: float) -> "_HttpWire":
        def keep(wire: _HttpWire) -> None:
            self._idle.setdefault(_origin(url), []).append(wire)

        tls = self._secure() if url.scheme == "https" else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                # Not `create_connection` alone: uvloop's tries one address after the other.
                found = await loop.getaddrinfo(url.raw_host, url.port, type=socket.SOCK_STREAM)
                reached = await start_connection(found, happy_eyeballs_delay=0.25)
                host = url.raw_host if tls is not None else None
                _, wire = await loop.create_connection(
                    lambda: _HttpWire(keep, self._wires), sock=reached, ssl=tls, server_hostname=host
                )
        # OSError: also TimeoutError, and what TLS objects to. RuntimeError: uvloop's.
        except (OSError, UnicodeError, RuntimeError) as error:
            raise NotConnectedError(_plain(error)) from error
        return wire

    def _secure(self) -> "ssl.SSLContext":
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return self._tls

    async def close(self) -> None:
        wires = list(self._wires)
        for wire in wires:
            wire.close()
        self.exchange = None
        self._idle.clear()
        await asyncio.gather(*(wire.closed.wait() for wire in wires))


class DirectResponse:
    """A response whose head has come. It lets go of its connection when it is read to its end."""

    def __init__(self, wire: "_HttpWire", status: int, headers: CIMultiDictProxy[str]) -> None:
        self._wire: _HttpWire | None = wire
        self.status = status
        self.headers = headers

    @property
    def content(self) -> "DirectResponse":
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        while self._wire is not None and (chunk := await self._wire.read()):
            yield chunk
        self.release()

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.iter_any()])

    def release(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.release()

    def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


class _HttpWire(asyncio.Protocol):
    """One connection, with one request at a time. httptools calls the `on_` methods."""

    def __init__(self, keep: "Callable[[_HttpWire], None]", wires: "set[_HttpWire]") -> None:
        self._keep = keep
        self._wires = wires
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_busy = False
        self._error: BaseException | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        # As lenient as aiohttp is towards servers: whoever needs a header's value checks it.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._head: asyncio.Future[DirectResponse] = asyncio.get_running_loop().create_future()
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        self._arrived = asyncio.Event()
        self._interim = self._received = self._size = 0
        self._ends_with_connection = False
        self._is_complete = False
        self._can_keep = False

    # The client's side

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and nothing came while it was idle.

        The event loop would notice a closed connection only in its next turn, after a request was written
        to it. It could not be known then whether the request arrived.
        """
        transport = self._transport
        if transport is None or transport.is_closing() or self._error is not None:
            return False
        try:
            return not select.select([transport.get_extra_info("socket")], [], [], 0)[0]
        except (OSError, ValueError):  # closed, or of a number that is too high for `select`
            return False

    async def send(self, request: bytes) -> DirectResponse:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._begin()
        if self._transport is None or self._transport.is_closing():
            raise UnfinishedRequestError("the connection was closed")
        self._is_busy = True
        self._transport.write(request)
        return await self._head

    async def read(self) -> bytes:
        """The next bytes of the body; none at its end."""
        while not self._chunks:
            if self._is_complete:
                return b""
            if self._error is not None:
                raise self._error
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._chunks.popleft()
        self._waiting -= len(chunk)
        if self._waiting <= MAX_WAITING and self._transport is not None:
            self._transport.resume_reading()
        return chunk

    def release(self) -> None:
        """Keep the connection for another request if this one's response is complete."""
        self._is_busy = False
        transport = self._transport
        whole = self._is_complete and self._can_keep and self._error is None
        # If the response came before the request was sent, the rest must not precede the next one.
        if not whole or transport is None or transport.get_write_buffer_size():
            self.close()
            return
        self._idle_timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self.close)
        self._keep(self)

    def close(self) -> None:
        self._is_busy = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # The event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._wires.add(self)

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        if not self._is_busy or self._is_complete:
            self._fail(DirectHttpError("it sent what no request asked for"))
            return
        # In pieces until the head has come, so that little of what has no end is parsed.
        size = len(data) if self._head.done() else _PIECE
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._received += len(piece)
            try:
                self._parser.feed_data(piece)
            except httptools.HttpParserCallbackError as error:
                self._fail(error.__context__ if isinstance(error.__context__, DirectHttpError) else error)
            except httptools.HttpParserUpgrade:  # 101: what follows is not HTTP
                self._can_keep = False
            except httptools.HttpParserError as error:
                self._fail(DirectHttpError(str(error)))
            if self._error is not None:
                return
            allowed = MAX_OVERHEAD + self._size * _OVERHEAD_PER_BYTE if self._head.done() else MAX_HEAD
            if self._received - self._size > allowed:
                self._fail(ExcessError("no end of a reply's head, chunk extensions or trailers"))
                return

    def eof_received(self) -> bool:
        if self._ends_with_connection and self._error is None:
            self.on_message_complete()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._wires.discard(self)
        if self._error is None and not self._is_complete:
            self._fail(exc if isinstance(exc, OSError) else DirectHttpError("Server disconnected"))
        self.closed.set()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._arrived.set()
        if not self._head.done():
            self._head.set_exception(error)
            self._head.exception()  # whoever waited may have been cancelled
        if self._transport is not None:
            self._transport.abort()

    # The parser's side

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._can_keep = False
            raise DirectHttpError("it sent a second response to one request")
        self._headers = CIMultiDict()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head.done():  # later ones are trailers
            self._headers.add(name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise ExcessError(
                    f"more than {MAX_INTERIM} interim replies (status {status}) and no real one"
                )
            return
        has_length = "Content-Length" in self._headers or "Transfer-Encoding" in self._headers
        self._ends_with_connection = not has_length and status not in (204, 304)
        self._can_keep = self._parser.should_keep_alive() and not self._ends_with_connection
        if not self._head.done():
            self._head.set_result(DirectResponse(self, status, CIMultiDictProxy(self._headers)))

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self._waiting += len(body)
        self._chunks.append(body)
        self._arrived.set()
        if self._waiting > MAX_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._head.done():  # what ends before is an interim response
            self._is_complete = True
            self._arrived.set()


def _head(method: str, url: "URL", headers: Mapping[str, str], body: bytes | None) -> bytes:
    sent = CIMultiDict(headers)
    sent.setdefault("Host", url.host_port_subcomponent or "")
    if body is not None:
        sent["Content-Length"] = str(len(body))
    lines = [f"{method} {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a header cannot hold line breaks or null bytes")
    return "\r\n".join([*lines, "", ""]).encode()


def _origin(url: "URL") -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port


def _plain(error: Exception) -> Exception:
    """What the system said, without the addresses that were tried; an error of TLS as it is."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.errno:
        return OSError(error.errno, os.strerror(error.errno))
    return error
