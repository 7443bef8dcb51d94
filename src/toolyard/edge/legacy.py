"""The legacy era over HTTP: handshake, sessions, streams that survive a lost connection."""

import asyncio
import secrets
from typing import Any

from msgspec import Raw

from ..wire.call import NO_CHANNEL, Call, Service
from ..wire.errors import InvalidRequest, McpError
from ..wire.messages import Id, Message, Notification, Request, decode_params, encode, encode_error
from ..wire.seal import Sealer
from ..wire.types import CancelledParams, InitializeParams
from .accepting import Accepted
from .answer import StreamedReply, answer, deliver, take_notification
from .asgi import send_empty, send_json
from .exchange import Exchange, Watchman
from .legacy_calls import call_of, passer_by, session_of, turned_away
from .running import GRACE
from .sessions import Opened, Sessions, Token
from .streams import Stream, Streams
from .visit import Visit

PRIMED_SINCE = "2025-11-25"
RETRY_MS = 1000
"""How long a client is asked to wait before it comes back for a stream that broke."""
MAX_ASKED = 2000
MAX_ASKED_EACH = 50


class LegacyExchange(Exchange):
    """A lost connection does not cancel the call: its stream is kept for the client to come back to."""

    __slots__ = ("_asking", "_door", "_finished", "_stream", "_token")

    def __init__(self, door: "LegacyDoor", token: Token, visit: Visit, accepted: Accepted) -> None:
        super().__init__(door.watchman, visit, accepted)
        self._door = door
        self._token = token
        self._stream: Stream | None = None
        self._finished = False
        self._asking: set[asyncio.Future[Raw]] = set()

    def hung_up(self) -> None:
        """The handler goes on; what it says waits in the stream. What it asks does not wait for ever."""
        asyncio.get_running_loop().call_later(self._watchman.pace.keep_streams, self._give_up_asking)

    def _give_up_asking(self) -> None:
        if self._stream is None or self._stream.readers:
            return
        for future in self._asking:
            if not future.done():
                future.set_exception(McpError(-32603, "The client has gone and did not come back"))

    async def _begin(self) -> None:
        stream = self._stream = self._door.streams.open(self._token.nonce, of_call=True)
        await super()._begin()
        if self._token.version >= PRIMED_SINCE:
            await self.write(stream.put(b"", RETRY_MS))

    async def finish(self, status: int, body: bytes | StreamedReply) -> None:
        self._finished = True
        if self._accepted.rather_streams:
            self._stream_the_answer()
        if self._starting is not None:
            await asyncio.shield(self._starting)
        if isinstance(body, StreamedReply) and self._stream is not None:
            # It goes out on this connection and is not kept: nobody could come back for it.
            self._stream.end()
            self._door.streams.expire_later(self._stream)
            await super().finish(status, body)
            return
        if self._stream is None or isinstance(body, StreamedReply):
            # Legacy errors are answers like any other; only the transport's own have a status.
            await super().finish(200, body)
            return
        await self._yield_to_follower(self._stream)
        framed = self._stream.put(body)
        self._stream.end()
        self._door.streams.expire_later(self._stream)
        if not self.gone:
            await self._visit.send({"type": "http.response.body", "body": framed})

    async def _emit(self, message: bytes) -> bool:
        if self._finished or not await self.start_stream() or self._stream is None:
            return False
        await self._yield_to_follower(self._stream)
        if self._finished:  # while we waited for the stream to begin
            return False
        await self.write(self._stream.put(message))
        return True

    async def _yield_to_follower(self, stream: Stream) -> None:
        """The client has come back on another connection before this one was seen to be dead."""
        if stream.follower and not self.gone:
            self.gone = True
            await self._visit.send({"type": "http.response.body", "body": b""})

    async def notify(self, method: str, params: Any) -> None:
        await self._emit(encode(Notification(method, params)))

    async def ask(self, method: str, params: Any) -> Raw:
        id = f"ask-{secrets.token_urlsafe(9)}"
        future = self._door.expect(self._token.nonce, id)
        self._asking.add(future)
        try:
            if not await self._emit(encode(Request(id, method, params))):
                raise InvalidRequest("The client must accept text/event-stream to be asked anything")
            async with asyncio.timeout(self._watchman.pace.ask_timeout):
                return await future
        except TimeoutError:
            raise McpError(-32603, f"The client did not answer {method!r} in time") from None
        except asyncio.CancelledError:
            await self._emit(encode(Notification("notifications/cancelled", {"requestId": id})))
            raise
        finally:
            self._asking.discard(future)
            self._door.forget(self._token.nonce, id)

    async def release(self, retry_ms: int | None) -> None:
        if not await self.start_stream() or self._stream is None or self.gone:
            return
        framed = self._stream.put(b"", retry_ms)
        self.gone = True
        if self._watcher is not None:
            self._watcher.cancel()
        await self._visit.send({"type": "http.response.body", "body": framed})


class _Listening:
    """The channel of a session's GET stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def notify(self, method: str, params: Any) -> None:
        self._stream.put(encode(Notification(method, params)))

    async def ask(self, method: str, params: Any) -> Raw:
        raise InvalidRequest("a listening stream carries no requests")

    async def release(self, retry_ms: int | None) -> None:
        return None


class LegacyDoor:
    """All legacy traffic of one endpoint."""

    def __init__(self, service: Service, sealer: Sealer, watchman: Watchman) -> None:
        self._service = service
        self.watchman = watchman
        self._sessions = Sessions(sealer)
        self.streams = Streams(watchman.pace)
        self._asked: dict[tuple[str, str], asyncio.Future[Raw]] = {}
        self._running: dict[tuple[str, Id], LegacyExchange] = {}
        self._listening: dict[str, tuple[Stream, asyncio.Task[None]]] = {}

    # POST

    async def post(self, body: bytes, message: Message, visit: Visit, accepted: Accepted) -> None:
        if message.method == "initialize" and message.is_request:
            await self._initialize(message, visit)
            return
        opened = self._open(visit) or passer_by(self._sessions, visit.head, visit.identity, message)
        if opened is None:
            await self._turn_away(visit, message.id)
        elif isinstance(message.method, str) and isinstance(message.id, int | str):
            session = self._sessions.state(opened)
            call = call_of(body, message, opened, session, visit.secrets)
            await self._answer(
                call, (opened.token.nonce, message.id), LegacyExchange(self, opened.token, visit, accepted)
            )
            self._sessions.remember(session)
        else:
            if message.is_notification:
                await self._notification(message, opened, visit)
            else:
                self._response(message, opened.token)
            await send_empty(visit.send, 202, visit.headers)

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

    async def _initialize(self, message: Message, visit: Visit) -> None:
        assert isinstance(message.method, str)
        assert isinstance(message.id, int | str)
        try:
            opening = decode_params(message.params, InitializeParams)
            id, caller, session = self._sessions.start(opening, visit.identity)
        except McpError as error:
            await send_json(visit.send, 400, encode_error(message.id, error), visit.headers)
            return
        call = Call(message.method, message.params, caller, NO_CHANNEL, message.id, session=session)
        _, body = await answer(self._service, call)
        assert isinstance(body, bytes)
        await send_json(visit.send, 200, body, [*visit.headers, (b"mcp-session-id", id.encode())])

    def _open(self, visit: Visit) -> Opened | None:
        return session_of(self._sessions, visit.head, visit.identity)

    async def _turn_away(self, visit: Visit, id: Any = None) -> None:
        await send_json(visit.send, *turned_away(visit.head, id), visit.headers)

    async def _notification(self, message: Message, opened: Opened, visit: Visit) -> None:
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
        await take_notification(self._service, call_of(b"", message, opened, session, visit.secrets))

    def expect(self, session: str, id: str) -> "asyncio.Future[Raw]":
        of_session = sum(1 for key in self._asked if key[0] == session) if self._asked else 0
        if len(self._asked) >= MAX_ASKED or of_session >= MAX_ASKED_EACH:
            raise McpError(-32603, "Too many questions are waiting for an answer; try again later")
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._asked[session, id] = future
        return future

    def forget(self, session: str, id: str) -> None:
        self._asked.pop((session, id), None)

    def _response(self, message: Message, token: Token) -> None:
        future = self._asked.get((token.nonce, str(message.id)))
        if future is not None:
            deliver(message, future)

    # GET and DELETE

    async def get(self, visit: Visit) -> None:
        opened = self._open(visit)
        if opened is None:
            await self._turn_away(visit)
            return
        last = visit.head.get(b"last-event-id")
        found = self.streams.find(last, opened.token.nonce) if last is not None else None
        stream, position = found or (self._listen(opened), 0)
        await self.streams.follow(stream, position, visit)

    def _listen(self, opened: Opened) -> Stream:
        """Start a session's listening stream; a session has one, so an older one ends."""
        nonce = opened.token.nonce
        older = self._listening.pop(nonce, None)
        if older is not None:
            older[0].end()
        stream = self.streams.open(nonce, of_call=False)
        session = self._sessions.state(opened)
        self._sessions.hold(session)
        call = Call("", Raw(b"{}"), opened.caller, _Listening(stream), session=session)
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
                self._sessions.release(session)

    async def delete(self, visit: Visit) -> None:
        opened = self._open(visit)
        if opened is None:
            await self._turn_away(visit)
            return
        nonce = opened.token.nonce
        self._sessions.end(nonce)
        self.streams.end_session(nonce)
        for exchange in [running for key, running in self._running.items() if key[0] == nonce]:
            exchange.stop()
        ended = Call("", Raw(b"{}"), opened.caller, NO_CHANNEL, session=opened.session)
        await self._service.end_session(ended)
        await send_empty(visit.send, 204, visit.headers)

    async def close(self) -> None:
        tasks = [task for _, task in self._listening.values()]
        for stream, _ in list(self._listening.values()):
            stream.end()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
