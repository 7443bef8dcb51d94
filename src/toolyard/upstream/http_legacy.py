"""A legacy upstream at an address: one session over Streamable HTTP.

A reply's stream that breaks before the answer is taken up again where it stopped, if the server numbers
its events.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..wire.errors import McpError
from ..wire.messages import Message, Notification, Request, encode
from ..wire.versions import LATEST_LEGACY
from .desk import Desk
from .errors import Lost, NotReached, UpstreamError
from .handshake import opening, read_opening
from .http_client import Address, Reply
from .http_modern import refusal, spoken
from .link import DEAF, About, Ear, Params, Profile, Result, Standing, Watcher
from .replies import result_of, understand

RESUME_SECONDS = 1.0
MAX_RESUMES = 10
LISTEN_AGAIN_SECONDS = 5.0
CLOSE_SECONDS = 2.0


class LegacyHttp:
    shares_tokens = True

    def __init__(self, address: Address) -> None:
        self.server = address.server
        self.about = About(LATEST_LEGACY)
        self.closed = False
        self.standing = Standing()
        self._address = address
        self.refused = 0
        """The HTTP status it refused us with, when it did."""
        self._headers = dict(address.headers)
        self._id = 0
        self._desk = Desk(self._respond)
        self._tokens: dict[str, Ear] = {}
        self._background: set[asyncio.Task[Any]] = set()

    async def open(self, profile: Profile) -> None:
        self._id = 1
        reply = await self._address.send(
            "POST", self._headers, encode(Request(1, "initialize", opening(profile)))
        )
        if reply.status != 200:
            raise await self._refused(reply)
        session = reply.headers.get("Mcp-Session-Id")
        result = await self._answer(reply, 1, DEAF)
        self.about = read_opening(self._address.server, result)
        self._headers["MCP-Protocol-Version"] = self.about.version
        if session is not None:
            self._headers["Mcp-Session-Id"] = session
        await self.notify("notifications/initialized", {})
        self._mind(self._listen())

    @property
    def busy(self) -> bool:
        return self._desk.latest is not None

    # Saying

    async def request(
        self,
        method: str,
        params: Params,
        ear: Ear,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Result:
        if self.closed:
            raise NotReached(self._address.server, "its session was closed")
        self._id = id = self._id + 1
        self._desk.enter(id, ear)
        if token is not None:
            self._tokens[token] = ear
        try:
            reply = await self._address.send("POST", self._headers, encode(Request(id, method, params)))
            if reply.status != 200:
                raise await self._refused(reply)
            return await self._answer(reply, id, ear)
        except asyncio.CancelledError:
            self._mind(self._tell(encode(Notification("notifications/cancelled", {"requestId": id}))))
            raise
        finally:
            self._desk.leave(id)
            if token is not None:
                self._tokens.pop(token, None)

    async def notify(self, method: str, params: Params) -> None:
        await self._tell(encode(Notification(method, params)))

    async def _respond(self, body: bytes) -> None:
        with suppress(UpstreamError):  # it will miss the answer soon enough
            await self._tell(body)

    async def _tell(self, body: bytes) -> None:
        if not self.closed:
            (await self._address.send("POST", self._headers, body)).release()

    def _mind(self, work: Any) -> None:
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _refused(self, reply: Reply) -> McpError:
        body = await reply.refusal()
        self.refused = reply.status
        if reply.status == 404 and "Mcp-Session-Id" in self._headers:
            self._end()
            return NotReached(self._address.server, "it has forgotten our session")
        error = spoken(body)
        if reply.status in (400, 405, 406):
            self._end()  # it may have been replaced by one of another kind: negotiate anew
        if error is not None and reply.status < 500:
            return NotReached(self._address.server, f"it answered HTTP {reply.status}: {error.message[:200]}")
        return refusal(self._address.server, reply)

    # Hearing

    async def _answer(self, reply: Reply, id: int, ear: Ear) -> Result:
        server = self._address.server
        if not reply.is_stream:
            return result_of(server, understand(server, await reply.body()), id)
        resumes = 0
        last: str | None = None
        while True:
            found, last, pause = await self._follow(reply, id, ear, last)
            if found is not None:
                return result_of(server, found, id)
            resumes += 1
            if last is None or resumes > MAX_RESUMES:
                raise Lost(server, "the stream ended without an answer")
            await ear.release(int(pause * 1000))
            await asyncio.sleep(pause)
            reply = await self._resume(last)

    async def _follow(
        self, reply: Reply, id: int, ear: Ear, last: str | None
    ) -> tuple[Message | None, str | None, float]:
        """Read a stream to the answer or its end: the answer, the last event's id, when to come back."""
        pause = RESUME_SECONDS
        done = False
        try:
            async for event in reply.events():
                last = event.id or last
                pause = pause if event.retry_ms is None else min(event.retry_ms / 1000, 30.0)
                if not event.data:
                    continue
                message = understand(self._address.server, event.data)
                if message.is_request:
                    self._desk.take_request(message, None if ear is DEAF else ear)
                elif message.is_notification:
                    if self._desk.take_notification(str(message.method), message.params) is not None:
                        await ear.notify(str(message.method), message.params)
                elif message.id == id:
                    done = True
                    return message, last, pause
        except Lost:
            pass
        finally:
            reply.release() if done else reply.abandon()
        return None, last, pause

    async def _resume(self, last: str) -> Reply:
        headers = {**self._headers, "Accept": "text/event-stream", "Last-Event-ID": last}
        reply = await self._address.send("GET", headers, None)
        if reply.status != 200 or not reply.is_stream:
            reply.abandon()
            raise Lost(self._address.server, "the stream broke, and the server does not take it up again")
        return reply

    async def _listen(self) -> None:
        """The session's own stream: what the server says outside of any call. Not all have one."""
        while not self.closed:
            headers = {**self._headers, "Accept": "text/event-stream"}
            with suppress(UpstreamError):
                reply = await self._address.send("GET", headers, None)
                if reply.status == 404:
                    reply.abandon()
                    self._end()
                if reply.status != 200 or not reply.is_stream:
                    reply.abandon()
                    return
                try:
                    async for event in reply.events():
                        if event.data:
                            self._overhear(understand(self._address.server, event.data))
                finally:
                    reply.abandon()
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    def _overhear(self, message: Message) -> None:
        if message.is_request:
            self._desk.take_request(message)
        elif message.is_notification:
            method = str(message.method)
            if self._desk.take_notification(method, message.params) is not None:
                ear = self._desk.latest
                if ear is not None:
                    self._mind(ear.notify(method, message.params))

    def watch(self, watcher: Watcher) -> None:
        self._desk.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._desk.unwatch(watcher)

    # Ending

    def _end(self) -> None:
        self.closed = True
        self._desk.close()

    async def close(self) -> None:
        was_open = not self.closed
        self._end()
        for task in list(self._background):
            task.cancel()
        if self._background:
            await asyncio.wait(list(self._background))
        if was_open and "Mcp-Session-Id" in self._headers:
            with suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    (await self._address.send("DELETE", self._headers, None)).release()


async def _quietly(work: Any) -> None:
    """What nobody waits for may fail without a word; whoever depends on it notices."""
    with suppress(McpError):
        await work
