"""The reply to one POST: JSON, or a stream if the handler sends a notification or takes long.

The handler runs in the task that the ASGI server made for the request. A second task, which watches the
connection, starts only if the handler is still running after a moment. So a quick answer costs nothing
extra, not even a timer: one timer serves all requests.
"""

import asyncio
from contextlib import suppress
from typing import Any

from msgspec import Raw, Struct

from ...wire.call import Call, Service, StreamedResult
from ...wire.errors import InternalError, InvalidRequest, McpError, Unavailable
from ...wire.messages import JsonRpcNotification, JsonRpcResponse, encode, one_line
from ...wire.sse import PING, frame
from ..replies import CANCELLED, StreamedReply, error_reply
from ..request import (
    JSON_HEADERS,
    SSE_HEADERS,
    AcceptHeader,
    HttpRequest,
    Pace,
    send_json,
    wait_for_disconnect,
)

NOT_VALID = InvalidRequest("The credential is not valid any more, or has other rights; open a new stream")
SHUTTING_DOWN = Unavailable("The server is shutting down; try again later")


class ExchangeMonitor:
    """Tracks the exchanges in progress, and watches the connections of long ones.

    One timer serves them all: one for each call took a tenth of its CPU.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.new: dict[Exchange, None] = {}
        """Exchanges that began after the last tick. An exchange adds and removes itself."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop whose timer is running; None if there is nothing to watch."""
        self.closing: asyncio.Event | None = None
        """While the server closes: set when the last exchange has ended."""
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
        """Wait a limited time for the calls in progress, then stop them with SHUTTING_DOWN."""
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
        # Passing the loop saves a system call: before Python 3.12, finding it calls getpid().
        self._task = asyncio.current_task(monitor.loop)
        try:
            # The same as `answer`, with one coroutine less.
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
            # Nearly always it is still in `new`; the values there are None.
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
        """Cancel the call: its client disconnected or cancelled it, or the server is closing."""
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
            # Also if the client has disconnected: frameworks around us expect an answer.
            await send_json(self.request.send, status, body, self.request.reply_headers)
        else:
            await asyncio.shield(self._starting)
            if not self.disconnected:
                await self.request.send({"type": "http.response.body", "body": frame(body)})

    def _stream_the_answer(self) -> None:
        """Start a stream for the answer, for a client that prefers one."""
        if self._starting is None and not self.disconnected:
            self._starting = asyncio.create_task(self._begin())

    async def _finish_in_pieces(self, body: StreamedReply) -> None:
        """Send a reply that is never whole in memory. An event of that size is not kept for resuming."""
        send = self.request.send
        streaming = self._starting is not None
        if self._starting is not None:
            await asyncio.shield(self._starting)
        else:
            head = [*JSON_HEADERS, (b"content-length", b"%d" % body.size), *self.request.reply_headers]
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
        """Notice a disconnect, and send keep-alive comments during a long silence."""
        gone = asyncio.create_task(wait_for_disconnect(self.request.receive))
        try:
            pause = self.monitor.pace.stream_after
            while not (await asyncio.wait({gone}, timeout=pause))[0]:
                if self.request.is_valid is not None and not await self.request.is_valid():
                    self.stop(NOT_VALID)
                    return
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
        """Switch to a stream; returns False if the client does not accept one.

        The stream starts in its own task, so that the cancellation of one sender does not stop it.
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
        raise InternalError("A modern client cannot receive requests on its stream")

    async def release(self, retry_ms: int | None) -> None:
        """Does nothing: modern streams cannot be resumed."""
