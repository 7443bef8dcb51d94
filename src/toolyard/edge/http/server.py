"""Serves the ASGI apps with uvicorn, and adds limits, single writes and a shutdown that uvicorn lacks.

`LimitedHttp` bounds everything besides the body, the time of a request, and idle connections; it drops
trailers and declines upgrades. `ResponseCycle` writes a small response in one piece. Limits on the body
belong to the app.
"""

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from ..request import WITHOUT_TRAILERS
from ..runner import run_to_end
from .app import Endpoint

MAX_HEAD_BYTES = 256 * 1024
"""For everything in a request but its body: empty lines before it, head, chunk framing and trailers."""
MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""How much of a request is read and thrown away after its response was sent."""
MAX_PIPELINED = 100
"""How many requests of a connection may wait for the response to an earlier one."""
MAX_JOINED_BYTES = 64 * 1024
"""A larger body is written by itself: copying it would cost more than a second write."""
REQUEST_SECONDS = 60.0
LINGER_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 150.0
"""Longer than balancers and proxies keep theirs (nginx and AWS 60 s, Go and Traefik 90 s, Caddy 120 s): they
close first, and no request arrives on a connection that we are closing."""
MAX_IDLE = 500

_EXTENSIONS: dict[str, dict[object, object]] = {WITHOUT_TRAILERS: {}}
_CHUNK_FRAMING = 8  # a size of four digits and two line ends
_ORDINARY_CHUNK = 64
"""The framing of smaller chunks counts as overhead, or a body could come as millions of them."""
_UNREADABLE = "Invalid HTTP request received."


class ResponseCycle(RequestResponseCycle):
    """Writes head and body of a small response together; uvicorn makes two system calls of them.

    Holds the head back until the body comes, as ASGI asks of a server.
    """

    _start: Any = None

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start" and not self.response_started:
            self._start = message
            return
        start, self._start = self._start, None
        if start is None:
            await super().send(message)
            return
        body: bytes = message.get("body", b"")
        pairs = (*self.default_headers, *start["headers"])
        is_sized = bool(pairs) and pairs[-1] == (b"content-length", b"%d" % len(body))
        head = _plain_head(pairs[:-1]) if is_sized else None
        if (
            head is None
            or len(body) > MAX_JOINED_BYTES
            or message.get("more_body")
            or self.scope["method"] == "HEAD"
            or not self.keep_alive
            or self.access_log
            or self.disconnected
            or self.flow.write_paused
        ):
            await super().send(start)
            await super().send(message)
            return
        self.transport.write(
            b"%s%scontent-length: %d\r\n\r\n%s" % (STATUS_LINE[start["status"]], head, len(body), body)
        )
        self.response_started = self.response_complete = True
        self.message_event.set()
        self.on_response()


_PLAIN_HEADS: dict[tuple[tuple[bytes, bytes], ...], bytes | None] = {}
"""Replies have the same few headers again and again, but for their length."""
MAX_PLAIN_HEADS = 256


def _plain_head(pairs: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
    """The headers as they are sent; None if uvicorn has to look after them."""
    try:
        return _PLAIN_HEADS[pairs]
    except KeyError:
        pass
    except TypeError:  # another application's, which may be lists
        return None
    headers = dict(pairs)
    names = b"".join(headers)
    is_plain = (
        len(headers) == len(pairs)
        and headers.keys().isdisjoint((b"content-length", b"connection", b"transfer-encoding"))
        and names.islower()
        and not HEADER_RE.search(names)
        and not HEADER_VALUE_RE.search(b"".join(headers.values()))
    )
    head = b"".join(map(b"%s: %s\r\n".__mod__, pairs)) if is_plain else None
    if len(_PLAIN_HEADS) >= MAX_PLAIN_HEADS:
        _PLAIN_HEADS.clear()
    _PLAIN_HEADS[pairs] = head
    return head


class IdleConnections:
    """The idle connections of one server. One timer serves all; a timer each would cost every request."""

    def __init__(self, keep_alive: float, max_idle: int) -> None:
        self.since: dict[LimitedHttp, float] = {}
        """The time at which each became idle; for a new connection infinity, as it has a timer of its own."""
        self._keep_alive = keep_alive
        self.max_idle = max_idle
        self.timer: asyncio.TimerHandle | None = None

    def tidy(self) -> None:
        """Close the oldest if there are too many, and wait for the next that will have been idle too long."""
        if len(self.since) > self.max_idle:
            oldest = next(iter(self.since))
            del self.since[oldest]
            oldest.close_now()
        first = min(self.since.values(), default=math.inf)
        if self.timer is None and first < math.inf:
            loop = next(iter(self.since)).loop
            self.timer = loop.call_at(first + self._keep_alive, self._close_expired, loop)

    def _close_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        self.timer = None
        limit = loop.time() - self._keep_alive
        for connection in [idle for idle, since in self.since.items() if since <= limit]:
            del self.since[connection]
            connection.close_now()
        self.tidy()


class LimitedHttp(HttpToolsProtocol):
    """One connection. A client that exceeds a limit is disconnected, with an error if a response is due."""

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
        self._idle: IdleConnections = vars(self.server_state).setdefault(
            "idle_connections", IdleConnections(self.timeout_keep_alive, self.max_idle)
        )

    # What the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()
        self._idle.since[self] = math.inf
        self._idle.tidy()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._idle.since.pop(self, None)
        self._notify_app()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            self._discard(data)
            return
        self._idle.since.pop(self, None)
        self._overhead += len(data)  # `on_body` subtracts the body
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning(_UNREADABLE)
            self._end(b"400 Bad Request", _UNREADABLE.encode())
        # A request that arrived whole, as nearly all do, is complete by now.
        if not (self._in_request or self._overhead > 0) or self.transport.is_closing():
            self._overhead = 0
            return
        self._arm()
        self._overhead = max(self._overhead, 0)
        if self._overhead > MAX_HEAD_BYTES:
            self._end(b"431 Request Header Fields Too Large")
        elif not self._in_head and self._is_answered():
            self._discard(data)

    def _upgrade(self, rest: bytes) -> None:
        if self._should_upgrade():
            self._disarm()
            self.handle_websocket_upgrade()
        else:
            self._decline_upgrade(rest)

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
        found = [
            pair for pair in self.scope["headers"] if pair[0] in (b"content-length", b"transfer-encoding")
        ]
        return b"".join(b"%s: %s\r\n" % pair for pair in found if pair != (b"content-length", b"0"))

    # What the parser calls

    def on_message_begin(self) -> None:
        self._in_request = True
        self._idle.since.pop(self, None)  # the request before may have ended just now
        super().on_message_begin()
        self.scope["extensions"] = _EXTENSIONS

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        cycle = self.cycle
        if self.parser.should_upgrade():
            if cast(Any, cycle) is None or cycle.scope is not self.scope:
                return  # for a WebSocket uvicorn makes no cycle
        else:
            self.headers = []  # uvicorn would append trailers to the headers that the app sees
        # uvicorn offers no other way to choose the class; the cycle has not started yet.
        cycle.__class__ = ResponseCycle
        if not self.pipeline:
            self._answering = cycle
        elif len(self.pipeline) > MAX_PIPELINED:
            raise ValueError("too many pipelined requests")

    def on_body(self, body: bytes) -> None:
        if not self._discarding:
            size = len(body)
            self._overhead -= size + _CHUNK_FRAMING if size >= _ORDINARY_CHUNK else size
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and self._framing():
            return  # its body is still to come
        self._in_request, self._in_head = False, True
        self._overhead = self._unread = 0
        if self._timer is not None:
            self._disarm()
        super().on_message_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._idle.since[self] = self.loop.time()
            self._idle.tidy()

    # What uvicorn calls

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answering = self.pipeline[-1][0]  # uvicorn starts it now
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if not self._in_request:
            idle = self._idle
            idle.since[self] = self.loop.time()
            if idle.timer is None or len(idle.since) > idle.max_idle:
                idle.tidy()

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
            self.close_now()

    def _linger(self) -> None:
        """Close once the client has done so, or soon: a client that still sends would not read why."""
        self._disarm()
        self._notify_app()
        self._discarding = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.close_now)

    def _discard(self, data: bytes) -> None:
        self._unread += len(data)
        if self._unread > MAX_UNREAD_BYTES:
            self.close_now()

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

    def close_now(self) -> None:
        self._disarm()
        self._notify_app()
        if not self.transport.is_closing():
            self.transport.close()

    def _notify_app(self) -> None:
        """Tell the app that the client is gone. uvicorn tells it for the latest request only."""
        self.pipeline.clear()
        for cycle in (self._answering, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()


GRACE_SECONDS = 2


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, edge: Endpoint, start: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._edge = edge
        self._start = start

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await self._start()
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.lifespan.should_exit:  # uvicorn before 0.36 returns then, and the process would end with 0
            sys.exit(3)

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        # uvicorn waits for connections first and tells the app afterwards; a listening stream would
        # hold it until the grace period ends.
        for listening in self.servers:
            listening.close()
        await self._edge.close()
        self._abort_unfinished()
        await super().shutdown(sockets)  # type: ignore[arg-type]

    def _abort_unfinished(self) -> None:
        """A call that is still running by now ignores its cancellation; nobody waits for it on the wire."""
        for connection in list(self.server_state.connections):
            cycle: Any = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                cast(Any, connection).transport.abort()


async def _nothing() -> None:
    return None


def uvicorn_server(
    edge: Endpoint,
    host: str,
    port: int,
    log_level: str = "warning",
    keep_alive: float = KEEP_ALIVE_SECONDS,
    max_idle: int = MAX_IDLE,
    start: Callable[[], Awaitable[None]] = _nothing,
) -> uvicorn.Server:
    """`keep_alive` is how long a connection may be idle, and `max_idle` how many may be so at a time.

    `serve` raises what `start` raises, and SystemExit if the app fails in its lifespan.
    """
    config = uvicorn.Config(
        edge,
        host=host,
        port=port,
        log_level=log_level,
        access_log=False,
        server_header=False,
        # The peer is whoever holds the connection. Which proxy may name others is up to the configuration.
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=cast(int, keep_alive),  # a number of any kind will do
        lifespan="on",
        ws="none",
        http=type("Http", (LimitedHttp,), {"max_idle": max_idle}),
        # uvicorn would put its own handlers in the place of whatever was set up.
        log_config=None,
    )
    return _Uvicorn(config, edge, start)


def run(
    edge: Endpoint,
    host: str,
    port: int,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    max_idle: int = MAX_IDLE,
) -> None:
    serving = uvicorn_server(edge, host, port, keep_alive=keep_alive, max_idle=max_idle)
    # Where nothing was set up to show a log, a server that says nothing looks like one that hangs.
    sys.stderr.write(f"serving MCP at http://{host}:{port}{edge.path} (Ctrl-C stops it)\n")
    run_to_end(serving.serve(), serving.config.get_loop_factory())
