"""An aiohttp connector with the limits that aiohttp lacks.

aiohttp reads any number of interim responses (100, 102, 103) without a pause, skips chunk extensions of any
length, and keeps data that arrives on an idle connection. A connection that exceeds a limit is closed here.
The size of a body is limited where the body is read, in `client`.
"""

import select
from functools import partial
from typing import Any

from aiohttp import ClientError, ClientPayloadError, TCPConnector
from aiohttp.client_proto import ResponseHandler

from ...telemetry.requests import current

MAX_INTERIM = 20
MAX_OVERHEAD = 1024 * 1024
"""Bytes of a response outside its body. Above the size of one read, which may still wait to be parsed."""
_OVERHEAD_PER_BYTE = 8
"""Additional bytes allowed for each byte of the body: chunks of one byte need that many."""
_PIECE = 4096


class EndlessReplyError(ClientError):
    """A server exceeds a limit; the message names the limit and follows the words 'it sent'."""


class LimitedResponseHandler(ResponseHandler):
    """One connection to a server, closed when the server exceeds a limit."""

    is_used = False
    _expects_head = False
    _interim = 0
    _received = 0

    def set_response_params(self, **options: Any) -> None:
        """Expect one response; aiohttp calls this before it sends a request."""
        self.is_used = self._expects_head = True
        self._interim = self._received = 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        # In pieces until the final response begins: one read may hold thousands of interim responses.
        while self._expects_head and len(data) > _PIECE and self.is_connected():
            self.data_received(data[:_PIECE])
            data = data[_PIECE:]
        body = self._payload
        if data:  # without data, aiohttp goes on parsing what it has
            if not self.is_connected():
                return
            if not self._expects_head and (body is None or body.is_eof()):
                self._abort()  # data that no request asked for
                return
            self._received += len(data)
        super().data_received(data)
        error = self.exception()
        if error is not None:
            self._fail_body(ClientPayloadError(str(error)))  # aiohttp does not fail a body that is being read
            return
        size = 0 if self._expects_head else getattr(self._payload or body, "total_bytes", 0)
        if self._received - size > MAX_OVERHEAD + size * _OVERHEAD_PER_BYTE:
            self._fail("no end of a reply's head, chunk extensions or trailers")

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Receive one response whose head is complete."""
        code: int = data[0].code
        if not self._expects_head:
            self._abort()  # a second response to one request
        elif code == 101 or not 100 <= code < 200:
            self._expects_head = False
            super().feed_data(data, size)
        elif self._interim == MAX_INTERIM:
            self._fail(f"more than {MAX_INTERIM} interim replies (status {code}) and no real one")
        else:
            self._interim += 1
            super().feed_data(data, size)

    def _fail(self, what: str) -> None:
        error = EndlessReplyError(what)
        self._fail_body(error)
        self.set_exception(error)
        self._abort()

    def _fail_body(self, error: ClientError) -> None:
        body = self._payload
        if not self._expects_head and body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(error)

    def _abort(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.abort()


class LimitedConnector(TCPConnector):
    """Opens limited connections, and reuses only those on which nothing arrived while they were idle.

    The event loop would notice a closed connection only in its next turn, after a call was written to it.
    It could not be known then whether the call arrived.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        factory: Any = partial(LimitedResponseHandler, loop=self._loop)
        self._factory = factory

    async def connect(self, *request: Any, **options: Any) -> Any:
        while True:
            connection: Any = await super().connect(*request, **options)
            if not connection.protocol.is_used:
                seen = current.get()
                if seen is not None:
                    seen.connections += 1
                return connection
            transport = connection.transport
            socket = None if transport is None else transport.get_extra_info("socket")
            descriptor = -1 if socket is None else socket.fileno()
            if descriptor >= 0:
                if not hasattr(select, "poll"):
                    return connection
                poll: Any = select.poll()
                poll.register(descriptor, select.POLLIN)
                if not poll.poll(0):
                    return connection
            connection.close()  # the server closed it, or sent data that no request asked for
