"""uvicorn's HTTP with limits that it lacks: on the size of a request's head, and on its patience."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 256 * 1024
REQUEST_SECONDS = 60.0


class LimitedHttp(HttpToolsProtocol):
    """A connection that does not finish a request in time, or makes its head too large, is closed."""

    _in_head = True
    _in_body = False
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # A request that came whole, as nearly all do, is past by now.
        if (self._in_head or self._in_body) and not self.transport.is_closing():
            self._arm()
            self._head_bytes += len(data) if self._in_head else 0
            if self._head_bytes > MAX_HEAD_BYTES:
                self._close(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._in_body = True
        self._head_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._disarm()
        super().on_message_complete()

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._close, b"408 Request Timeout")

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, status: bytes, *_: Any) -> None:
        self._disarm()
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is not None and not cycle.response_complete:
            self._arm()  # an earlier request is still being answered
        elif not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
            self.transport.close()
