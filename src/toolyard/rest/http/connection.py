"""One connection to an API: sends a request, reads the whole response, one at a time.

Unexpected data, or data after the end of a response, ends the connection: the next caller on it may be
another tenant.

RestTransportError            no complete response
├── ApiUnreachableError       no connection, or it broke before any part of a response
├── ApiTimeoutError           the deadline passed
├── ResponseTooLargeError     the response is over the limit
└── MalformedResponseError    not HTTP, or it ended in the middle
"""

import asyncio
import zlib
from typing import TYPE_CHECKING, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence


class RestTransportError(Exception):
    """A request without a complete response."""


class ApiUnreachableError(RestTransportError):
    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent
        """Whether the API may have received the request, so that only a repeatable one is sent again."""


class ApiTimeoutError(RestTransportError):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds")
        self.seconds = seconds


class ResponseTooLargeError(RestTransportError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the reply is bigger than {limit} bytes")
        self.limit = limit


class MalformedResponseError(RestTransportError):
    pass


MAX_HEAD = 64 * 1024
MAX_INTERIM = 20
_WITHOUT_BODY = (204, 304)
_CHUNK_FRAMING = 8  # a size of four digits and two ends of lines


class RestResponse(Struct, frozen=True):
    """A whole HTTP response; header names are lower-case, several of a name are joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes


class _ResponseParser:
    """Collects a response; the HTTP parser calls its `on_…` methods."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._outside = 0
        """Bytes of heads, chunk extensions and trailers, without the framing of chunks."""
        self._interim = 0
        self.parser: HttpResponseParser | None = HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.in_head = True
        self.complete = False
        self.surplus = False
        self.problem: RestTransportError | None = None

    def feed(self, data: bytes) -> None:
        assert self.parser is not None
        self._outside += len(data)  # `on_body` subtracts the body
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self.complete:
                self.surplus = True
            elif self.problem is None:
                self.problem = MalformedResponseError(f"not a usable HTTP reply ({type(error).__name__})")
        self._outside = max(self._outside, 0)
        if self._outside > MAX_HEAD and self.problem is None and not self.complete:
            self.problem = MalformedResponseError(
                f"the reply has a head or a trailer of more than {MAX_HEAD} bytes"
            )

    def on_message_begin(self) -> None:
        self.surplus = self.surplus or self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head or self.complete:  # a trailer, or unexpected data
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        self.in_head = False
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length[:18]) > self._limit:
            self.problem = ResponseTooLargeError(self._limit)

    def on_chunk_header(self) -> None:
        self._outside -= _CHUNK_FRAMING

    def on_body(self, data: bytes) -> None:
        self._outside -= len(data)
        if self.complete or self.problem is not None:
            return
        self._size += len(data)
        if self._size > self._limit:
            self.problem = ResponseTooLargeError(self._limit)
            self.body.clear()
        else:
            self.body.append(data)

    def on_message_complete(self) -> None:
        assert self.parser is not None
        if 100 <= self.parser.get_status_code() < 200:  # an interim reply; the real one follows
            self.headers, self.in_head = {}, True
            self._interim += 1
            if self._interim > MAX_INTERIM:
                status = self.parser.get_status_code()
                self.problem = MalformedResponseError(
                    f"more than {MAX_INTERIM} interim replies (status {status})"
                )
                raise self.problem  # the parser reads no more
        else:
            self.complete = True

    @property
    def ends_with_connection(self) -> bool:
        known = "content-length" in self.headers or "transfer-encoding" in self.headers
        return not self.in_head and not known and self.problem is None

    @property
    def keeps_alive(self) -> bool:
        assert self.parser is not None
        said = self.headers.get("connection", "").lower()
        old = self.parser.get_http_version() != "1.1"
        return not self.surplus and ("keep-alive" in said if old else "close" not in said)

    def reply(self) -> RestResponse:
        assert self.parser is not None
        body = b"".join(self.body)
        coding = self.headers.get("content-encoding", "identity").lower()
        if body and coding != "identity":  # although we asked for none
            body = _decompressed(body, coding, self._limit)
        return RestResponse(self.parser.get_status_code(), self.headers, body)


def _decompressed(body: bytes, coding: str, limit: int) -> bytes:
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise MalformedResponseError(f"the reply has the encoding {coding[:40]!r}, which was not requested")
    decoder = zlib.decompressobj(47)
    try:
        whole = decoder.decompress(body, limit + 1)
    except zlib.error:
        raise MalformedResponseError("the reply's compressed body is damaged") from None
    if len(whole) > limit:
        raise ResponseTooLargeError(limit)
    if not decoder.eof:
        raise MalformedResponseError("the reply ended early")
    return whole


class ApiConnection(asyncio.Protocol):
    """Call `exchange` again as long as `closed` is false."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_since = 0.0
        self.closed = False
        self.received = False
        """Whether any data of the response has arrived."""
        self._transport: asyncio.Transport | None = None
        self._reading: _ResponseParser | None = None
        self._answer: asyncio.Future[RestResponse] | None = None

    def fileno(self) -> int:
        socket = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if socket is None else socket.fileno()

    async def exchange(self, parts: "Sequence[bytes]", limit: int) -> RestResponse:
        """Send these bytes and wait for the response; closes the connection on failure."""
        if self.closed or self._transport is None or self._answer is not None:
            raise ApiUnreachableError("the connection is closed", sent=False)
        self.received = False
        self._reading = _ResponseParser(limit)
        # No local variable for the future: with its exception and this frame it would be a cycle, and the key
        # in the request would stay in memory until a garbage collection.
        self._answer = self.loop.create_future()
        try:
            self._transport.writelines(parts)
            return await self._answer
        except BaseException:
            self.close()
            raise
        finally:
            self._forget()

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reading = self._reading
        if reading is None:
            self.close()
            return
        self.received = True
        reading.feed(data)
        if reading.problem is not None:
            self._fail(reading.problem)
        elif reading.complete:
            self._finish(reading, reading.keeps_alive)

    def eof_received(self) -> None:
        self._ended(whole=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(whole=exc is None)

    def _ended(self, *, whole: bool) -> None:
        """A body without a length is complete if the connection ended regularly."""
        self.closed = True
        reading = self._reading
        if reading is None:
            return
        if whole and reading.ends_with_connection:
            self._finish(reading, False)
        elif self.received:
            self._fail(MalformedResponseError("the reply ended early"))
        else:
            self._fail(ApiUnreachableError("the connection was closed without a reply", sent=True))

    def _finish(self, reading: _ResponseParser, keeps_alive: bool) -> None:
        try:
            reply = reading.reply()
        except RestTransportError as error:
            self._fail(error)
            return
        # If the response came before the request was sent, the rest must not precede the next one.
        if not keeps_alive or self._transport is None or self._transport.get_write_buffer_size():
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)
        self._forget()

    def _fail(self, error: RestTransportError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._forget()
        self.close()

    def _forget(self) -> None:
        """Drop the request and its response, and break cycles that would keep them in memory."""
        if self._reading is not None:
            self._reading.parser = None
        self._reading = self._answer = None
