"""Serves the ASGI apps with uvicorn, with the limits and the shutdown that uvicorn lacks.

`LimitedHttp` bounds what comes besides the body, the time it takes, and idle connections; it drops
trailers and declines upgrades. Limits on the body are the app's.
"""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..request import WITHOUT_TRAILERS
from ..runner import run_to_end
from .app import Endpoint

MAX_HEAD_BYTES = 256 * 1024
"""For all of a request that is not its body: empty lines before it, head, chunk extensions and trailers."""
MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""How much of a request is still taken, and thrown away, after its answer has gone out."""
MAX_PIPELINED = 100
"""How many requests may wait on a connection for the answer to an earlier one."""
REQUEST_SECONDS = 60.0
LINGER_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 150.0
"""Longer than balancers and proxies keep theirs (nginx and AWS 60 s, Go and Traefik 90 s, Caddy 120 s): it is
they who close, and no request meets a connection that we are closing."""
MAX_IDLE = 500

_EXTENSIONS: dict[str, dict[object, object]] = {WITHOUT_TRAILERS: {}}
_CHUNK_FRAMING = 8  # a size of four digits and two ends of lines
_UNREADABLE = "Invalid HTTP request received."


class LimitedHttp(HttpToolsProtocol):
    """One connection. A client that goes beyond a limit is told so, if an answer is due, and disconnected."""

    max_idle = MAX_IDLE
    _in_head = True
    _in_request = False
    _overhead = 0
    _unread = 0
    _answering: Any = None
    _discarding = False
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # All connections of a server share it; those that have been idle for longest stand first.
        self._idle: dict[LimitedHttp, None] = vars(self.server_state).setdefault("idle_connections", {})

    # What the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()
        self._become_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._idle.pop(self, None)
        self._tell_app()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            self._discard(data)
            return
        self._idle.pop(self, None)
        self._overhead += len(data)  # `on_body` takes away what is body
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning(_UNREADABLE)
            self._end(b"400 Bad Request", _UNREADABLE.encode())
        # A request that came whole, as nearly all do, is past by now.
        if not (self._in_request or self._overhead > 0) or self.transport.is_closing():
            self._overhead = 0
            return
        self._arm()
        self._overhead = max(self._overhead, 0)
        if self._overhead > MAX_HEAD_BYTES:
            self._end(b"431 Request Header Fields Too Large")
        elif not self._in_head and self._is_answered():
            self._discard(data)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self._disarm()
                self.handle_websocket_upgrade()
            else:
                self._decline_upgrade(data[upgrade.args[0] :])

    def _decline_upgrade(self, rest: bytes) -> None:
        """Answer in HTTP/1.1, and take no further request: httptools is past this one, body and all."""
        self.cycle.keep_alive = False
        framing = self._framing()
        if not framing:
            self._discarding = True
            return
        self.parser = httptools.HttpRequestParser(
            SimpleNamespace(
                on_body=self.on_body,
                on_chunk_header=self.on_chunk_header,
                on_message_complete=self._on_last_complete,
            )
        )
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % framing)
        self.parser.feed_data(rest)

    def _on_last_complete(self) -> None:
        if not self._discarding:
            self.on_message_complete()
            self._discarding = True

    def _framing(self) -> bytes:
        """The headers that say where the body of the latest request ends; empty if it has none."""
        found = [pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")]
        return b"".join(b"%s: %s\r\n" % pair for pair in found if pair != (b"content-length", b"0"))

    # What the parser calls

    def on_message_begin(self) -> None:
        self._in_request = True
        if self in self._idle:  # the request before came to its end just now
            self._idle.pop(self)
            self._unset_keepalive_if_required()
        super().on_message_begin()
        self.scope["extensions"] = _EXTENSIONS

    def on_header(self, name: bytes, value: bytes) -> None:
        # What uvicorn's own does (its call costs), but for trailers: nobody here wants one.
        if self._in_head:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        if not self.pipeline:
            self._answering = self.cycle
        elif len(self.pipeline) > MAX_PIPELINED:
            raise ValueError("too many requests wait for their turn")

    def on_chunk_header(self) -> None:
        self._overhead -= _CHUNK_FRAMING

    def on_body(self, body: bytes) -> None:
        if not self._discarding:
            self._overhead -= len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and self._framing():
            return  # its body is still to come
        self._in_request, self._in_head = False, True
        self._overhead = self._unread = 0
        self._disarm()
        super().on_message_complete()
        if self._is_answered() and not self.transport.is_closing():
            # It was answered before it was complete, so its last bytes have ended uvicorn's own timer.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            self._become_idle()

    # What uvicorn calls

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answering = self.pipeline[-1][0]  # which it starts now
            super().on_response_complete()
            return
        super().on_response_complete()
        if not self._in_request and not self.transport.is_closing():
            self._become_idle()

    # Idle connections

    def _become_idle(self) -> None:
        """Nothing is under way here: of too many such connections the oldest is closed."""
        self._idle[self] = None
        if len(self._idle) > self.max_idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest._close()

    # Requests that arrive slowly, or without end

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._disarm()
        if cast(Any, self.cycle) is None or self._is_answered():
            self._end(b"408 Request Timeout")
        else:
            self._arm()  # an earlier request is still being answered, or the app waits for the body

    def _end(self, status: bytes, message: bytes = b"") -> None:
        """Answer the request that is arriving with this, if it has no answer yet, and take no more of it."""
        if self._is_answer_due():
            head = b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\n" % status
            self.transport.write(
                b"%scontent-length: %d\r\nconnection: close\r\n\r\n%s" % (head, len(message), message)
            )
            self._linger()
        elif self._is_earlier_under_way():
            # An earlier request has nothing to do with it, and gets its answer.
            self._disarm()
            self.pipeline.clear()
            self._answering.keep_alive = False
            self._discarding = True
        elif self._is_answered():
            self._linger()
        else:
            self._close()

    def _linger(self) -> None:
        """Close once the client has done so, or soon: a client that still sends would not read why."""
        self._disarm()
        self._tell_app()
        self._discarding = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_SECONDS, self._close)

    def _discard(self, data: bytes) -> None:
        self._unread += len(data)
        if self._unread > MAX_UNREAD_BYTES:
            self._close()

    def _is_answered(self) -> bool:
        """Whether the latest request has its whole answer."""
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and cycle.response_complete

    def _is_answer_due(self) -> bool:
        """Whether the next bytes that we send are the answer to the request that is arriving."""
        cycle: Any = self.cycle
        if cycle is None:
            return True
        if self.transport.is_closing() or self.pipeline:
            return False
        return cycle.response_complete if self._in_head else not cycle.response_started

    def _is_earlier_under_way(self) -> bool:
        """Whether a request is being answered that came before the one that is arriving."""
        answering = self._answering
        return not answering.response_complete and (self._in_head or answering is not self.cycle)

    def _close(self) -> None:
        self._disarm()
        self._tell_app()
        if not self.transport.is_closing():
            self.transport.close()

    def _tell_app(self) -> None:
        """Tell the app that the client is gone. uvicorn tells it for the latest request only."""
        self.pipeline.clear()
        for cycle in (self._answering, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()


GRACE_SECONDS = 2


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, edge: Endpoint) -> None:
        super().__init__(config)
        self._edge = edge

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        # uvicorn waits for connections first and tells the app afterwards; a listening stream would
        # hold it until the grace period ends.
        for listening in self.servers:
            listening.close()
        await self._edge.close()
        self._abandon_stubborn()
        await super().shutdown(sockets)  # type: ignore[arg-type]

    def _abandon_stubborn(self) -> None:
        """A call that is still running by now ignores its cancellation; nobody waits for it on the wire."""
        for connection in list(self.server_state.connections):
            cycle: Any = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                cast(Any, connection).transport.abort()


def server(
    edge: Endpoint,
    host: str,
    port: int,
    log_level: str = "warning",
    keep_alive: float = KEEP_ALIVE_SECONDS,
    max_idle: int = MAX_IDLE,
) -> uvicorn.Server:
    """`keep_alive` is how long a connection may be idle, and `max_idle` how many may be so at a time."""
    config = uvicorn.Config(
        edge,
        host=host,
        port=port,
        log_level=log_level,
        access_log=False,
        server_header=False,
        # Nothing here asks for the client's address, so nobody needs to believe a header about it.
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=cast(int, keep_alive),  # a number of any kind will do
        ws="none",
        http=type("Http", (LimitedHttp,), {"max_idle": max_idle}),
        # uvicorn would put its own handlers in the place of whatever was set up.
        log_config=None,
    )
    return _Uvicorn(config, edge)


def run(
    edge: Endpoint,
    host: str,
    port: int,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    max_idle: int = MAX_IDLE,
) -> None:
    serving = server(edge, host, port, keep_alive=keep_alive, max_idle=max_idle)
    # Where nothing was set up to show a log, a server that says nothing looks like one that hangs.
    sys.stderr.write(f"serving MCP at http://{host}:{port}{edge.path} (Ctrl-C stops it)\n")
    run_to_end(serving.serve(), serving.config.get_loop_factory())
