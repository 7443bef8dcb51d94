"""The legacy era over HTTP: handshake, sessions, and streams that survive a lost connection.

Any process can serve a session; a stream belongs to one process.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Raw

from ...wire.call import NO_CHANNEL, Call, Service
from ...wire.errors import InvalidRequest, McpError
from ...wire.messages import (
    Id,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    decode_params,
    encode,
    encode_error,
)
from ...wire.seal import Sealer
from ...wire.sse import PING, frame
from ...wire.types import CancelledParams, InitializeParams
from ..replies import StreamedReply, answer, resolve_response, take_notification
from ..request import SSE_HEADERS, AcceptHeader, HttpRequest, Pace, send_empty, send_json, wait_for_disconnect
from ..runner import GRACE
from ..sessions import (
    LegacySessions,
    OpenedSession,
    SessionToken,
    anonymous_session,
    find_session,
    legacy_call,
    session_error,
)
from .exchange import Exchange, ExchangeMonitor

MAX_STREAMS = 10_000
MAX_STREAM_BYTES = 8 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024


class Stream:
    """The recent events of one stream."""

    def __init__(self, session: str, *, of_call: bool, on_size_change: Callable[[int], None]) -> None:
        self.of_call = of_call
        self.on_size_change = on_size_change
        self.id = secrets.token_urlsafe(9)
        self.session = session
        self.ended = asyncio.Event()
        self.readers = 0
        self.reader_id = 0
        """Counts the connections that have followed the stream; events go only to the latest."""
        self.wakeups: set[asyncio.Event] = set()
        self._events: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self._count = 0

    def put(self, data: bytes, retry_ms: int | None = None) -> bytes:
        """Record an event and return its frame."""
        self._count += 1
        framed = frame(data, f"{self.id}.{self._count}", retry_ms)
        self._events.append((self._count, framed))
        before = self.size
        self.size += len(framed)
        while self.size > MAX_STREAM_BYTES and len(self._events) > 1:
            self.size -= len(self._events.popleft()[1])
        self.on_size_change(self.size - before)
        self._wake()
        return framed

    def drop(self) -> None:
        """Free its events: no client can resume it. A timer may still refer to the stream for a while."""
        self.on_size_change = _ignore
        self._events.clear()
        self.size = 0

    def follow(self) -> int:
        """Become the connection that this stream is sent on; the previous one stops."""
        self.reader_id += 1
        self._wake()
        return self.reader_id

    def end(self) -> None:
        self.ended.set()
        self._wake()

    def _wake(self) -> None:
        for wakeup in self.wakeups:
            wakeup.set()

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        return (event for event in list(self._events) if event[0] > number)


def _ignore(bytes_more: int) -> None:
    """Replaces `on_size_change` of a dropped stream."""


class Streams:
    """The streams of this process. Each is kept for a while after its connection is lost."""

    def __init__(self, pace: Pace, max_total: int = MAX_TOTAL_BYTES) -> None:
        self._pace = pace
        self._max_total = max_total
        self._streams: dict[str, Stream] = {}
        self._total = 0

    def open(self, session: str, *, of_call: bool) -> Stream:
        while len(self._streams) >= MAX_STREAMS:
            self._forget(next(iter(self._streams.values())))
        stream = Stream(session, of_call=of_call, on_size_change=self._count)
        self._streams[stream.id] = stream
        return stream

    def find(self, event_id: str, session: str) -> tuple[Stream, int] | None:
        """The stream and position of a Last-Event-ID; None if it does not belong to this session."""
        id, _, number = event_id.rpartition(".")
        stream = self._streams.get(id)
        if (
            stream is None
            or stream.session != session
            or not (number.isascii() and number.isdigit())
            or len(number) > 12
        ):
            return None
        return stream, int(number)

    def expire_later(self, stream: Stream) -> None:
        """Forget the stream after a while unless a client resumes it; at once if there is no room."""
        self._make_room()
        asyncio.get_running_loop().call_later(self._pace.keep_streams, self._forget_unread, stream)

    def _make_room(self) -> None:
        """Forget streams whose call is over, the oldest first."""
        if self._total <= self._max_total:
            return
        for stream in list(self._streams.values()):
            if stream.ended.is_set() and not stream.readers:
                self._forget(stream)
                if self._total <= self._max_total:
                    return

    def _count(self, bytes_more: int) -> None:
        self._total += bytes_more

    def _forget_unread(self, stream: Stream) -> None:
        # While its call runs, a stream is kept for the result, even if no client reads it.
        running = stream.of_call and not stream.ended.is_set()
        if not stream.readers and not running:
            self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        if self._streams.pop(stream.id, None) is not None:
            self._total -= stream.size
            stream.drop()
        stream.end()

    def end_session(self, session: str) -> None:
        for stream in [item for item in self._streams.values() if item.session == session]:
            self._forget(stream)

    async def follow(self, stream: Stream, position: int, request: HttpRequest) -> None:
        """Send the events after `position`, and new ones until either side ends it."""
        wakeup = asyncio.Event()
        wakeup.set()
        send = request.send
        gone = asyncio.create_task(wait_for_disconnect(request.receive))
        gone.add_done_callback(lambda _: wakeup.set())
        stream.wakeups.add(wakeup)
        stream.readers += 1
        me = stream.follow()
        loop, pause = asyncio.get_running_loop(), self._pace.ping_every
        look_at = loop.time() + pause
        try:
            await send(
                {"type": "http.response.start", "status": 200, "headers": SSE_HEADERS + request.reply_headers}
            )
            # Some ASGI servers send the head only with the first piece of body.
            await send({"type": "http.response.body", "body": PING, "more_body": True})
            while not gone.done() and stream.reader_id == me:
                wakeup.clear()
                for number, framed in stream.after(position):
                    await send({"type": "http.response.body", "body": framed, "more_body": True})
                    position = number
                if stream.ended.is_set():
                    break
                if request.is_valid is not None and loop.time() >= look_at:
                    if not await request.is_valid():
                        if not stream.of_call:
                            self._forget(stream)
                        break
                    look_at = loop.time() + pause
                try:
                    async with asyncio.timeout(pause):
                        await wakeup.wait()
                except TimeoutError:
                    await send({"type": "http.response.body", "body": PING, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            stream.wakeups.discard(wakeup)
            stream.readers -= 1
            self.expire_later(stream)


PRIMED_SINCE = "2025-11-25"
RETRY_MS = 1000
"""How long a client should wait before it resumes a broken stream."""
MAX_PENDING = 2000
MAX_PENDING_PER_SESSION = 50


class LegacyExchange(Exchange, kw_only=True, eq=False):
    """A lost connection does not cancel the call: the client can resume its stream."""

    endpoint: "LegacyEndpoint"
    token: SessionToken
    _stream: Stream | None = None
    _finished: bool = False
    _asking: "set[asyncio.Future[Raw]]" = set()  # noqa: RUF012 (a Struct copies it)

    def on_disconnect(self) -> None:
        """The handler goes on, and its events wait in the stream. Its questions wait for a limited time."""
        asyncio.get_running_loop().call_later(self.monitor.pace.keep_streams, self._give_up_asking)

    def _give_up_asking(self) -> None:
        if self._stream is None or self._stream.readers:
            return
        for future in self._asking:
            if not future.done():
                future.set_exception(McpError(-32603, "The client disconnected and did not reconnect"))

    async def _begin(self) -> None:
        stream = self._stream = self.endpoint.streams.open(self.token.nonce, of_call=True)
        await super()._begin()
        if self.token.version >= PRIMED_SINCE:
            await self.write(stream.put(b"", RETRY_MS))

    async def finish(self, status: int, body: bytes | StreamedReply) -> None:
        self._finished = True
        if self.accepted.prefers_streams and status == 200:
            self._stream_the_answer()
        if self._starting is not None:
            await asyncio.shield(self._starting)
        if isinstance(body, StreamedReply) and self._stream is not None:
            # Sent on this connection only and not stored, so a client cannot resume it.
            self._stream.end()
            self.endpoint.streams.expire_later(self._stream)
            await super().finish(status, body)
            return
        if self._stream is None or isinstance(body, StreamedReply):
            await super().finish(status, body)
            return
        await self._yield_to_reader(self._stream)
        framed = self._stream.put(body)
        self._stream.end()
        self.endpoint.streams.expire_later(self._stream)
        if not self.disconnected:
            await self.request.send({"type": "http.response.body", "body": framed})

    async def _emit(self, message: bytes) -> bool:
        if self._finished or not await self.start_stream() or self._stream is None:
            return False
        await self._yield_to_reader(self._stream)
        if self._finished:  # while we waited for the stream to begin
            return False
        await self.write(self._stream.put(message))
        return True

    async def _yield_to_reader(self, stream: Stream) -> None:
        """Stop sending if the client has resumed the stream on another connection."""
        if stream.reader_id and not self.disconnected:
            self.disconnected = True
            await self.request.send({"type": "http.response.body", "body": b""})

    async def notify(self, method: str, params: Any) -> None:
        await self._emit(encode(JsonRpcNotification(method, params)))

    async def ask(self, method: str, params: Any) -> Raw:
        id = f"ask-{secrets.token_urlsafe(9)}"
        future = self.endpoint.add_pending(self.token.nonce, id)
        self._asking.add(future)
        try:
            if not await self._emit(encode(JsonRpcRequest(id, method, params))):
                raise InvalidRequest("The client must accept text/event-stream to receive requests")
            async with asyncio.timeout(self.monitor.pace.ask_timeout):
                return await future
        except TimeoutError:
            raise McpError(-32603, f"The client did not answer {method!r} in time") from None
        except asyncio.CancelledError:
            await self._emit(encode(JsonRpcNotification("notifications/cancelled", {"requestId": id})))
            raise
        finally:
            self._asking.discard(future)
            self.endpoint.remove_pending(self.token.nonce, id)

    async def release(self, retry_ms: int | None) -> None:
        if not await self.start_stream() or self._stream is None or self.disconnected:
            return
        framed = self._stream.put(b"", retry_ms)
        self.disconnected = True
        if self._watcher is not None:
            self._watcher.cancel()
        await self.request.send({"type": "http.response.body", "body": framed})


class _ListeningChannel:
    """The channel of a session's GET stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def notify(self, method: str, params: Any) -> None:
        self._stream.put(encode(JsonRpcNotification(method, params)))

    async def ask(self, method: str, params: Any) -> Raw:
        raise InvalidRequest("The listening stream does not carry requests")

    async def release(self, retry_ms: int | None) -> None:
        return None


class LegacyEndpoint:
    """All legacy traffic of one endpoint."""

    def __init__(self, service: Service, sealer: Sealer, monitor: ExchangeMonitor) -> None:
        self._service = service
        self.monitor = monitor
        self._sessions = LegacySessions(sealer)
        self.streams = Streams(monitor.pace)
        self._pending: dict[tuple[str, str], asyncio.Future[Raw]] = {}
        self._running: dict[tuple[str, Id], LegacyExchange] = {}
        self._listening: dict[str, tuple[Stream, asyncio.Task[None]]] = {}

    # POST

    async def post(
        self, body: bytes, message: JsonRpcMessage, request: HttpRequest, accepted: AcceptHeader
    ) -> None:
        if message.method == "initialize" and message.is_request:
            await self._initialize(message, request)
            return
        opened = self._open(request) or anonymous_session(
            self._sessions, request.headers, request.identity, message
        )
        if opened is None:
            await self._send_session_error(request, message.id)
        elif isinstance(message.method, str) and isinstance(message.id, int | str):
            session = self._sessions.state(opened)
            exchange = LegacyExchange(self.monitor, request, accepted, endpoint=self, token=opened.token)
            call = legacy_call(body, message, opened, session, request.keys, exchange)
            await self._answer(call, (opened.token.nonce, message.id), exchange)
            self._sessions.remember(session)
        else:
            if message.is_notification:
                await self._notification(message, opened, request)
            else:
                self._response(message, opened.token)
            await send_empty(request.send, 202, request.reply_headers)

    async def _answer(self, call: Call, key: tuple[str, Id], exchange: LegacyExchange) -> None:
        if key in self._running:
            error = InvalidRequest(f"Request id {call.id!r} is already in use")
            await exchange.finish(200, encode_error(call.id, error))
            return
        self._running[key] = exchange
        try:
            await exchange.run(self._service, call)
        finally:
            del self._running[key]

    async def _initialize(self, message: JsonRpcMessage, request: HttpRequest) -> None:
        assert isinstance(message.method, str)
        assert isinstance(message.id, int | str)
        try:
            opening = decode_params(message.params, InitializeParams)
            id, caller, session = self._sessions.start(opening, request.identity)
        except McpError as error:
            await send_json(request.send, 400, encode_error(message.id, error), request.reply_headers)
            return
        call = Call(
            message.method,
            message.params,
            caller,
            NO_CHANNEL,
            message.id,
            session=session,
            secrets=request.keys,
        )
        body = await answer(self._service, call)
        assert isinstance(body, bytes)
        await send_json(request.send, 200, body, [*request.reply_headers, (b"mcp-session-id", id.encode())])

    def _open(self, request: HttpRequest) -> OpenedSession | None:
        return find_session(self._sessions, request.headers, request.identity)

    async def _send_session_error(self, request: HttpRequest, id: Any = None) -> None:
        await send_json(request.send, *session_error(request.headers, id), request.reply_headers)

    async def _notification(
        self, message: JsonRpcMessage, opened: OpenedSession, request: HttpRequest
    ) -> None:
        assert isinstance(message.method, str)
        if message.method == "notifications/cancelled":
            try:
                params = decode_params(message.params, CancelledParams)
            except McpError:
                return
            exchange = self._running.get((opened.token.nonce, params.request_id))
            if exchange is not None:
                exchange.stop()
            return
        session = self._sessions.state(opened)
        await take_notification(self._service, legacy_call(b"", message, opened, session, request.keys))

    def add_pending(self, session: str, id: str) -> "asyncio.Future[Raw]":
        of_session = sum(1 for key in self._pending if key[0] == session) if self._pending else 0
        if len(self._pending) >= MAX_PENDING or of_session >= MAX_PENDING_PER_SESSION:
            raise McpError(-32603, "Too many requests to the client are pending; try again later")
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._pending[session, id] = future
        return future

    def remove_pending(self, session: str, id: str) -> None:
        self._pending.pop((session, id), None)

    def _response(self, message: JsonRpcMessage, token: SessionToken) -> None:
        future = self._pending.get((token.nonce, str(message.id)))
        if future is not None:
            resolve_response(message, future)

    # GET and DELETE

    async def get(self, request: HttpRequest) -> None:
        opened = self._open(request)
        if opened is None:
            await self._send_session_error(request)
            return
        last = request.headers.get(b"last-event-id")
        found = self.streams.find(last, opened.token.nonce) if last is not None else None
        stream, position = found or (self._listen(opened, request), 0)
        await self.streams.follow(stream, position, request)

    def _listen(self, opened: OpenedSession, request: HttpRequest) -> Stream:
        """Start the session's listening stream. A session has only one, so an older one ends."""
        nonce = opened.token.nonce
        older = self._listening.pop(nonce, None)
        if older is not None:
            older[0].end()
        stream = self.streams.open(nonce, of_call=False)
        session = self._sessions.state(opened)
        self._sessions.pin(session)
        call = Call(
            "", Raw(b"{}"), opened.caller, _ListeningChannel(stream), session=session, secrets=request.keys
        )
        self._listening[nonce] = (stream, asyncio.create_task(self._feed(call, stream, nonce)))
        return stream

    async def _feed(self, call: Call, stream: Stream, session: str) -> None:
        ended = asyncio.create_task(stream.ended.wait())
        listening = asyncio.create_task(self._service.listen(call))
        try:
            await asyncio.wait({ended, listening}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            listening.cancel()
            await asyncio.gather(ended, listening, return_exceptions=True)
            stream.end()
            if self._listening.get(session, (None,))[0] is stream:
                del self._listening[session]
                self._sessions.unpin(session)

    async def delete(self, request: HttpRequest) -> None:
        opened = self._open(request)
        if opened is None:
            await self._send_session_error(request)
            return
        nonce = opened.token.nonce
        self._sessions.end(nonce)
        self.streams.end_session(nonce)
        for exchange in [running for key, running in self._running.items() if key[0] == nonce]:
            exchange.stop()
        ended = Call("", Raw(b"{}"), opened.caller, NO_CHANNEL, session=opened.session, secrets=request.keys)
        await self._service.end_session(ended)
        await send_empty(request.send, 204, request.reply_headers)

    async def close(self) -> None:
        tasks = [task for _, task in self._listening.values()]
        for stream, _ in list(self._listening.values()):
            stream.end()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
