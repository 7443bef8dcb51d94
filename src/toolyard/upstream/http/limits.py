"""Limits that aiohttp lacks: on interim responses, framing, and data nobody asked for.

aiohttp reads any number of interim responses (100, 102, 103) without a pause, skips chunk extensions
without end, and keeps what arrives on an idle connection. The pool checks a connection before it is used
again.
"""

import select
from asyncio import BaseTransport
from functools import partial
from typing import Any
from weakref import WeakSet

from aiohttp import ClientError, ClientPayloadError, TCPConnector
from aiohttp.client_proto import ResponseHandler

MAX_INTERIM = 20
MAX_OUTSIDE = 1024 * 1024
"""Bytes of a reply that are not its body; a little more than one read, which may be waiting to be parsed."""
_FRAMING = 8
"""How many more there may be for each byte of the body: as many as chunks of one byte need."""
_PIECE = 4096


class EndlessReplyError(ClientError):
    """A server sends what has no end; the message says what, and follows the words 'it sent'."""


class LimitedReplies(ResponseHandler):
    """A connection to a server. One that goes beyond a limit is closed."""

    _asked = False
    _interim = 0
    _received = 0

    def set_response_params(self, **options: Any) -> None:
        self._asked = True
        self._interim = self._received = 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        # Until the real reply has begun, in pieces: what one read brings could be thousands of interim ones.
        while self._asked and len(data) > _PIECE and self._is_open():
            self._take(data[:_PIECE])
            data = data[_PIECE:]
        if not data or self._is_open():  # without data, aiohttp goes on with what it has
            self._take(data)

    def _take(self, data: bytes) -> None:
        body = self._payload
        if not self._asked and data and (body is None or body.is_eof()):
            self._hang_up()  # it speaks unasked
            return
        self._received += len(data)
        super().data_received(data)
        error = self.exception()
        if error is not None:
            self._tell_reader(ClientPayloadError(str(error)))  # aiohttp forgets whoever reads the body
            return
        size = 0 if self._asked else getattr(self._payload or body, "total_bytes", 0)
        if self._received - size > MAX_OUTSIDE + size * _FRAMING:
            self._fail("no end of a reply's head, chunk extensions or trailers")

    def feed_data(self, data: Any, size: int = 0) -> None:
        """One reply, of which the head is whole."""
        code: int = data[0].code
        if not self._asked:
            self._hang_up()  # a second answer to one request
        elif code == 101 or not 100 <= code < 200:
            self._asked = False
            super().feed_data(data, size)
        elif self._interim == MAX_INTERIM:
            self._fail(f"more than {MAX_INTERIM} interim replies (status {code}) and no real one")
        else:
            self._interim += 1
            super().feed_data(data, size)

    def _is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def _fail(self, what: str) -> None:
        error = EndlessReplyError(what)
        self._tell_reader(error)
        self.set_exception(error)
        self._hang_up()

    def _tell_reader(self, error: ClientError) -> None:
        body = self._payload
        if not self._asked and body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(error)

    def _hang_up(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.abort()


class CheckedConnector(TCPConnector):
    """Hands out no connection that its server has closed while nobody used it.

    The loop would notice only after its next turn, when a call has been written in vain; and whether it
    arrived could not be told then.
    """

    _seen: WeakSet[Any]

    async def connect(self, *request: Any, **options: Any) -> Any:
        while True:
            connection: Any = await super().connect(*request, **options)
            if connection.protocol not in self._seen:
                self._seen.add(connection.protocol)
                return connection
            if not _has_news(connection.transport):
                return connection
            connection.close()


def _has_news(transport: BaseTransport | None) -> bool:
    """Whether an idle connection has something to say: that it ended, or what nobody asked for."""
    socket: Any = None if transport is None else transport.get_extra_info("socket")
    descriptor = -1 if socket is None else socket.fileno()
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):
        return False
    poll: Any = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def limited_connector(**options: Any) -> TCPConnector:
    connector = CheckedConnector(**options)
    connector._seen = WeakSet()  # pyright: ignore[reportPrivateUsage]
    made = connector._factory  # pyright: ignore[reportPrivateUsage]
    factory: Any = partial(LimitedReplies, *made.args, **made.keywords)
    connector._factory = factory  # pyright: ignore[reportPrivateUsage]
    return connector
