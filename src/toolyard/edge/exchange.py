"""The reply to one POST: plain JSON, unless the handler speaks or takes long; then a stream.

The handler runs in the task that the ASGI server made for the request. A task of our own to watch
the connection is started only when the handler is still running after a moment, so that a quick
answer, which is nearly every answer, costs nothing extra.
"""

import asyncio
from typing import Any

from msgspec import Raw

from ..wire.call import Call, Service
from ..wire.errors import InternalError
from ..wire.messages import Notification, encode
from ..wire.sse import PING, frame
from .answer import answer
from .asgi import SSE, Headers, Receive, Send, send_json, until_gone

WATCH_AFTER = 0.05
STREAM_AFTER = 5.0
PING_EVERY = 15.0


class Exchange:
    """Modern: the stream belongs to this connection, and hanging up cancels the call."""

    def __init__(self, receive: Receive, send: Send, headers: Headers, streams: bool) -> None:
        self._receive = receive
        self._send = send
        self._headers = headers
        self._may_stream = streams
        self.streaming = False
        self.gone = False
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def run(self, service: Service, call: Call) -> None:
        self._task = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(WATCH_AFTER, self._watch)
        try:
            status, body = await answer(service, call)
        except asyncio.CancelledError:
            if not self._was_ours():
                raise
            return
        finally:
            timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
        await self.finish(status, body)

    def _was_ours(self) -> bool:
        """Whether a cancellation came from the watcher; if so it has done its work and ends here."""
        if self.gone and self._task is not None:
            self._task.uncancel()
            return True
        return False

    async def finish(self, status: int, body: bytes) -> None:
        if self.gone:
            return
        if self.streaming:
            await self._send({"type": "http.response.body", "body": frame(body)})
        else:
            await send_json(self._send, status, body, self._headers)

    # While the handler runs

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._keep_watch())

    async def _keep_watch(self) -> None:
        """Notice the client hanging up; keep a long silence from looking like a dead connection."""
        gone = asyncio.create_task(until_gone(self._receive))
        try:
            pause = STREAM_AFTER
            while not (await asyncio.wait({gone}, timeout=pause))[0]:
                await self.start_stream()
                await self.write(PING)
                pause = PING_EVERY
            self.gone = True
            self.hung_up()
        finally:
            gone.cancel()

    def hung_up(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def start_stream(self) -> bool:
        """Switch to a stream; False when the client does not take one."""
        if not self.streaming and self._may_stream and not self.gone:
            self.streaming = True
            self._watch()
            start = {"type": "http.response.start", "status": 200, "headers": SSE + self._headers}
            await self._send(start)
        return self.streaming

    async def write(self, chunk: bytes) -> None:
        if self.streaming and not self.gone:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    # The call's channel

    async def notify(self, method: str, params: Any) -> None:
        if await self.start_stream():
            await self.write(frame(encode(Notification(method, params))))

    async def ask(self, method: str, params: Any) -> Raw:
        raise InternalError("a modern client cannot be asked on its stream")

    async def release(self, retry_ms: int | None) -> None:
        """Modern streams cannot be resumed, so there is nothing to let go."""
