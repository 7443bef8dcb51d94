"""The reply to one POST: plain JSON, unless the handler speaks or takes long; then a stream.

The handler runs in the task that the ASGI server made for the request. A task of our own to watch
the connection is started only when the handler is still running after a moment, so that a quick
answer, which is nearly every answer, costs nothing extra; not even a timer, since one timer serves
all requests of the moment (a timer each was a tenth of a call's CPU).
"""

import asyncio
from contextlib import suppress
from typing import Any

from msgspec import Raw, Struct

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
    """Knows the exchanges in progress, and watches the connections of those that take a while.

    One timer serves them all: a timer each was a tenth of a call's CPU.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.new: dict[Exchange, None] = {}
        """Those that began after the last tick. An exchange adds and removes itself."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop whose timer is running; None when there is nothing to watch."""
        self.closing: asyncio.Event | None = None
        """Set when the last exchange has ended, once the server is closing."""
        self._running: dict[Exchange, None] = {}
        self._watched: dict[Exchange, None] = {}

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.call_later(self.pace.watch_after, self._tick)

    def remove(self, exchange: "Exchange") -> None:
        for exchanges in (self.new, self._running, self._watched):
            exchanges.pop(exchange, None)
        if self.closing is not None and not self._all():
            self.closing.set()

    def _tick(self) -> None:
        for exchange in self._running:
            exchange.watch()
        self._watched |= self._running
        self._running, self.new = self.new, {}
        if self._running and self.loop is not None:
            self.loop.call_later(self.pace.watch_after, self._tick)
        else:
            self.loop = None

    def _all(self) -> "list[Exchange]":
        return [*self.new, *self._running, *self._watched]

    async def close(self) -> None:
        """Give the calls in progress a moment to finish; then stop them with an error that says why."""
        self.closing = asyncio.Event()
        if not self._all():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.close_grace):
                await self.closing.wait()
                return
        for exchange in self._all():
            exchange.stop(SHUTTING_DOWN)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.close_grace):
                await self.closing.wait()


class Exchange(Struct, eq=False):
    """A modern exchange: its stream belongs to this connection, and a disconnect cancels the call."""

    monitor: ExchangeMonitor
    request: HttpRequest
    accepted: AcceptHeader
    disconnected: bool = False
    stopped: McpError | None = None
    _starting: "asyncio.Task[None] | None" = None
    _task: "asyncio.Task[Any] | None" = None
    _watcher: "asyncio.Task[None] | None" = None

    async def run(self, service: Service, call: Call) -> None:
        monitor = self.monitor
        monitor.new[self] = None
        if monitor.loop is None or monitor.loop.is_closed():
            monitor.start()
        # Naming the loop spares a system call: before Python 3.12 finding it asks for the process id.
        self._task = asyncio.current_task(monitor.loop)
        try:
            # As `answer` does, one coroutine less.
            result = await service.handle(call)
            if isinstance(result, StreamedResult):
                status, body = 200, StreamedReply(call.id, result)  # type: ignore[arg-type]
            else:
                status, body = 200, encode(JsonRpcResponse(call.id, result))  # type: ignore[arg-type]
        except Exception as error:
            status, body = self._failed(call, error)
        except asyncio.CancelledError:
            if self.stopped is None or self._task is None:
                raise
            self._task.uncancel()
            status, body = self._failed(call, self.stopped)
        finally:
            # Nearly always it is new still; None is the value of what is there.
            if monitor.new.pop(self, monitor) is not None or monitor.closing is not None:
                monitor.remove(self)
            if self._watcher is not None:
                self._watcher.cancel()
        await self.finish(status, body)

    def _failed(self, call: Call, error: Exception) -> tuple[int, bytes]:
        reply = error_reply(call, error)
        if reply.headers:
            self.request.reply_headers = [*self.request.reply_headers, *reply.headers]
        return (reply.status if call.caller.era == "modern" else reply.legacy_status), reply.body

    def stop(self, reason: McpError = CANCELLED) -> None:
        """Cancel the call: its client has gone, or said so, or we are closing."""
        self.stopped = reason
        if self._task is not None:
            self._task.cancel()

    async def finish(self, status: int, body: bytes | StreamedReply) -> None:
        if self.accepted.prefers_streams and status == 200:
            self._stream_the_answer()
        if isinstance(body, StreamedReply):
            with body:
                await self._finish_in_pieces(body)
        elif self._starting is None:
            # Even when the client has gone: frameworks around us expect an answer, and nobody reads it.
            await send_json(self.request.send, status, body, self.request.reply_headers)
        else:
            await asyncio.shield(self._starting)
            if not self.disconnected:
                await self.request.send({"type": "http.response.body", "body": frame(body)})

    def _stream_the_answer(self) -> None:
        """Where the client would rather have a stream, one begins with its last event."""
        if self._starting is None and not self.disconnected:
            self._starting = asyncio.create_task(self._begin())

    async def _finish_in_pieces(self, body: StreamedReply) -> None:
        """A reply that is never whole in memory. It is sent once: an event of that size is not kept."""
        send = self.request.send
        streaming = self._starting is not None
        if self._starting is not None:
            await asyncio.shield(self._starting)
        else:
            head = [JSON_CONTENT, (b"content-length", b"%d" % body.size), *self.request.reply_headers]
            await send({"type": "http.response.start", "status": 200, "headers": head})
        if streaming:
            await self.write(b"data: ")
        async for chunk in body.chunks():
            if self.disconnected:
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
        gone = asyncio.create_task(wait_for_disconnect(self.request.receive))
        try:
            pause = self.monitor.pace.stream_after
            while not (await asyncio.wait({gone}, timeout=pause))[0]:
                if await self.start_stream():
                    await self.write(PING)
                pause = self.monitor.pace.ping_every
            self.disconnected = True
            self.on_disconnect()
        finally:
            gone.cancel()

    def on_disconnect(self) -> None:
        self.stop()

    async def start_stream(self) -> bool:
        """Switch to a stream; False when the client does not take one.

        The start is a task of its own: whoever speaks waits for it, and nobody's cancellation stops it.
        """
        if self._starting is None:
            if not self.accepted.streams or self.disconnected:
                return False
            self.watch()
            self._starting = asyncio.create_task(self._begin())
        await asyncio.shield(self._starting)
        return True

    async def _begin(self) -> None:
        start = {
            "type": "http.response.start",
            "status": 200,
            "headers": SSE_HEADERS + self.request.reply_headers,
        }
        await self.request.send(start)

    async def write(self, chunk: bytes) -> None:
        if not self.disconnected:
            await self.request.send({"type": "http.response.body", "body": chunk, "more_body": True})

    # The call's channel

    async def notify(self, method: str, params: Any) -> None:
        if await self.start_stream():
            await self.write(frame(encode(JsonRpcNotification(method, params))))

    async def ask(self, method: str, params: Any) -> Raw:
        raise InternalError("a modern client cannot be asked on its stream")

    async def release(self, retry_ms: int | None) -> None:
        """Modern streams cannot be resumed, so there is nothing to let go."""
