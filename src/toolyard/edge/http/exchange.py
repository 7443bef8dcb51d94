"""The reply to one POST: plain JSON, unless the handler speaks or takes long; then a stream.

The handler runs in the task that the ASGI server made for the request. A task of our own to watch
the connection is started only when the handler is still running after a moment, so that a quick
answer, which is nearly every answer, costs nothing extra; not even a timer, since one timer serves
all requests of the moment (a timer each was a tenth of a call's CPU).
"""

import asyncio
from contextlib import suppress
from typing import Any

from msgspec import Raw

from ...wire.call import Call, Service, StreamedResult
from ...wire.errors import InternalError, McpError, Unavailable
from ...wire.messages import JsonRpcNotification, JsonRpcResponse, encode, one_line
from ...wire.sse import PING, frame
from ..replies import CANCELLED, StreamedReply, error_reply
from ..request import (
    JSON_CONTENT,
    SSE_HEADERS,
    AcceptHeader,
    HttpRequest,
    Pace,
    send_json,
    wait_for_disconnect,
)

SHUTTING_DOWN = Unavailable("The server is shutting down; try again later")


class ExchangeMonitor:
    """Knows the exchanges under way, and wakes those that have been so for a while."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._young: dict[Exchange, None] = {}
        self._older: dict[Exchange, None] = {}
        self._watched: dict[Exchange, None] = {}
        self._all_left: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self, exchange: "Exchange") -> "asyncio.Task[Any] | None":
        """Take note of an exchange, and return the task it runs in."""
        self._young[exchange] = None
        loop = self._loop
        if loop is None or loop.is_closed():
            loop = self._loop = asyncio.get_running_loop()
            loop.call_later(self.pace.watch_after, self._tick)
        # Naming the loop spares a system call: before Python 3.12 finding it asks for the process id.
        return asyncio.current_task(loop)

    def leave(self, exchange: "Exchange") -> None:
        # Nearly always it is young still; None is what these dicts hold.
        if (
            self._young.pop(exchange, exchange) is not None
            and self._older.pop(exchange, exchange) is not None
        ):
            self._watched.pop(exchange, None)
        if self._all_left is not None and not (self._young or self._older or self._watched):
            self._all_left.set()

    def _tick(self) -> None:
        for exchange in self._older:
            exchange.watch()
        self._watched |= self._older
        self._older, self._young = self._young, {}
        if self._older and self._loop is not None:
            self._loop.call_later(self.pace.watch_after, self._tick)
        else:
            self._loop = None

    async def close(self) -> None:
        """Let calls under way finish, but not for long; then they are told why they cannot."""
        self._all_left = asyncio.Event()
        running = [*self._young, *self._older, *self._watched]
        if not running:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.close_grace):
                await self._all_left.wait()
                return
        for exchange in [*self._young, *self._older, *self._watched]:
            exchange.stop(SHUTTING_DOWN)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.close_grace):
                await self._all_left.wait()


class Exchange:
    """Modern: the stream belongs to this connection, and hanging up cancels the call."""

    __slots__ = (
        "_accepted",
        "_starting",
        "_task",
        "_visit",
        "_watcher",
        "_watchman",
        "gone",
        "stopped",
    )

    def __init__(self, watchman: ExchangeMonitor, visit: HttpRequest, accepted: AcceptHeader) -> None:
        self._watchman = watchman
        self._visit = visit
        self._accepted = accepted
        self._starting: asyncio.Task[None] | None = None
        self.gone = False
        self.stopped: McpError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def run(self, service: Service, call: Call) -> None:
        self._task = self._watchman.enter(self)
        call.channel = self
        try:
            # As `answer` does, one coroutine less.
            result = await service.handle(call)
            if isinstance(result, StreamedResult):
                status, body = 200, StreamedReply(call.id, result)  # type: ignore[arg-type]
            else:
                status, body = 200, encode(JsonRpcResponse(call.id, result))  # type: ignore[arg-type]
        except Exception as error:
            status, body = error_reply(call, error)
        except asyncio.CancelledError:
            if self.stopped is None or self._task is None:
                raise
            self._task.uncancel()
            status, body = error_reply(call, self.stopped)
        finally:
            self._watchman.leave(self)
            if self._watcher is not None:
                self._watcher.cancel()
        await self.finish(status, body)

    def stop(self, reason: McpError = CANCELLED) -> None:
        """Cancel the call: its client has gone, or said so, or we are closing."""
        self.stopped = reason
        if self._task is not None:
            self._task.cancel()

    async def finish(self, status: int, body: bytes | StreamedReply) -> None:
        if self._accepted.rather_streams and status == 200:
            self._stream_the_answer()
        if isinstance(body, StreamedReply):
            with body:
                await self._finish_in_pieces(body)
        elif self._starting is None:
            # Even when the client has gone: frameworks around us expect an answer, and nobody reads it.
            await send_json(self._visit.send, status, body, self._visit.headers)
        else:
            await asyncio.shield(self._starting)
            if not self.gone:
                await self._visit.send({"type": "http.response.body", "body": frame(body)})

    def _stream_the_answer(self) -> None:
        """Where the client would rather have a stream, one begins with its last event."""
        if self._starting is None and not self.gone:
            self._starting = asyncio.create_task(self._begin())

    async def _finish_in_pieces(self, body: StreamedReply) -> None:
        """A reply that is never whole in memory. It is sent once: an event of that size is not kept."""
        send = self._visit.send
        streaming = self._starting is not None
        if self._starting is not None:
            await asyncio.shield(self._starting)
        else:
            head = [JSON_CONTENT, (b"content-length", b"%d" % body.size), *self._visit.headers]
            await send({"type": "http.response.start", "status": 200, "headers": head})
        if streaming:
            await self.write(b"data: ")
        async for chunk in body.chunks():
            if self.gone:
                return
            piece = one_line(chunk) if streaming else chunk
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"\n\n" if streaming else b""})

    # While the handler runs

    def watch(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._keep_watch())

    async def _keep_watch(self) -> None:
        """Notice the client hanging up; keep a long silence from looking like a dead connection."""
        gone = asyncio.create_task(wait_for_disconnect(self._visit.receive))
        try:
            pause = self._watchman.pace.stream_after
            while not (await asyncio.wait({gone}, timeout=pause))[0]:
                if await self.start_stream():
                    await self.write(PING)
                pause = self._watchman.pace.ping_every
            self.gone = True
            self.hung_up()
        finally:
            gone.cancel()

    def hung_up(self) -> None:
        self.stop()

    async def start_stream(self) -> bool:
        """Switch to a stream; False when the client does not take one.

        The start is a task of its own: whoever speaks waits for it, and nobody's cancellation stops it.
        """
        if self._starting is None:
            if not self._accepted.streams or self.gone:
                return False
            self.watch()
            self._starting = asyncio.create_task(self._begin())
        await asyncio.shield(self._starting)
        return True

    async def _begin(self) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": SSE_HEADERS + self._visit.headers}
        await self._visit.send(start)

    async def write(self, chunk: bytes) -> None:
        if not self.gone:
            await self._visit.send({"type": "http.response.body", "body": chunk, "more_body": True})

    # The call's channel

    async def notify(self, method: str, params: Any) -> None:
        if await self.start_stream():
            await self.write(frame(encode(JsonRpcNotification(method, params))))

    async def ask(self, method: str, params: Any) -> Raw:
        raise InternalError("a modern client cannot be asked on its stream")

    async def release(self, retry_ms: int | None) -> None:
        """Modern streams cannot be resumed, so there is nothing to let go."""
