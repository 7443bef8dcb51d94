"""Legacy HTTP transports: a Streamable HTTP session, and the event stream of 2024-11-05.

A response stream that breaks before the answer is resumed where it stopped, if the server numbers its
events.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Raw, Struct, field

from ...wire.errors import HEADER_MISMATCH, UNSUPPORTED_VERSION, McpError
from ...wire.messages import (
    Id,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    decode_params,
    encode,
    recover_id,
)
from ...wire.versions import LATEST_LEGACY
from ..connection import (
    SILENT,
    ChangeWatcher,
    ClientProfile,
    LegacySessionState,
    Params,
    RawResult,
    RequestListener,
    UpstreamInfo,
)
from ..errors import ConnectionLostError, InvalidReplyError, NotReachedError, StaleSessionError, UpstreamError
from ..handshake import initialize_params, read_initialized
from ..messages.envelope import decode_message, result_of
from ..messages.router import MessagePipe, ServerRequestRouter
from .client import UpstreamEndpoint, UpstreamResponse, names_session, refusal, rpc_error_in

SESSION_GONE = (400, 404, 405, 406)
"""How a server says that, which may also be one of another era in the old one's place."""
RESUME_SECONDS = 1.0
MAX_RESUMES = 10
LISTEN_AGAIN_SECONDS = 5.0
PROGRESS = "notifications/progress"
CLOSE_SECONDS = 2.0
TELL_SECONDS = 10.0


class LegacyHttpConnection:
    shares_tokens = True

    def __init__(self, address: UpstreamEndpoint) -> None:
        self.server = address.server
        self.about = UpstreamInfo(LATEST_LEGACY)
        self.closed = False
        self.standing = LegacySessionState()
        self._address = address
        self.refused = 0
        """The HTTP status it refused us with, when it did."""
        self._headers = dict(address.headers)
        self._id = 0
        self._desk = ServerRequestRouter(self._respond)
        self._tokens: dict[str, RequestListener] = {}
        self._background: set[asyncio.Task[Any]] = set()

    async def open(self, profile: ClientProfile) -> None:
        self._id = 1
        self._desk.askable = profile.askable
        reply = await self._address.send(
            "POST", self._headers, encode(JsonRpcRequest(1, "initialize", initialize_params(profile)))
        )
        if reply.status != 200:
            raise await self._refused(reply)
        session, *others = reply.headers.getall("Mcp-Session-Id", [None])
        if others:
            reply.abandon()
            raise InvalidReplyError(self._address.server, "its header 'Mcp-Session-Id' came more than once")
        result = await self._answer(reply, 1, SILENT)
        self.about = read_initialized(self._address.server, result)
        self._headers["MCP-Protocol-Version"] = self.about.version
        if session is not None:
            self._headers["Mcp-Session-Id"] = session
        await self.notify("notifications/initialized", {})
        self._mind(self._listen())

    @property
    def busy(self) -> bool:
        return self._desk.busy

    # Saying

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RawResult:
        if self.closed:
            raise NotReachedError(self._address.server, "its session was closed")
        self._id = id = self._id + 1
        self._desk.enter(id, listener)
        if token is not None:
            self._tokens[token] = listener
        try:
            own = {**self._headers, **headers} if headers else self._headers
            reply = await self._address.send("POST", own, encode(JsonRpcRequest(id, method, params)))
            if reply.status != 200:
                raise await self._refused(reply, id)
            return await self._answer(reply, id, listener)
        except asyncio.CancelledError:
            self._mind(self._tell(encode(JsonRpcNotification("notifications/cancelled", {"requestId": id}))))
            raise
        finally:
            self._desk.leave(id)
            if token is not None:
                self._tokens.pop(token, None)

    async def notify(self, method: str, params: Params) -> None:
        await self._tell(encode(JsonRpcNotification(method, params)))

    async def _respond(self, body: bytes) -> None:
        with suppress(UpstreamError):  # it will miss the answer soon enough
            await self._tell(body)

    async def _tell(self, body: bytes) -> None:
        if not self.closed:
            try:
                async with asyncio.timeout(TELL_SECONDS):
                    (await self._address.send("POST", self._headers, body)).release()
            except TimeoutError:
                raise ConnectionLostError(
                    self.server, f"it did not take a message within {TELL_SECONDS:g} s"
                ) from None

    def _mind(self, work: Any) -> None:
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _refused(self, reply: UpstreamResponse, id: int = 1) -> McpError:
        """What an HTTP error means. With an answer to our request in it, it is that answer."""
        body = await reply.refusal()
        self.refused = reply.status
        if reply.status == 404 and id > 1 and "Mcp-Session-Id" in self._headers:
            self._end()  # which is what it means, whatever else it says
            return StaleSessionError(self.server, "it has forgotten our session")
        answer = rpc_error_in(body, id, reply.status)
        if answer is not None and answer.code in (UNSUPPORTED_VERSION, HEADER_MISMATCH):
            self._end()
            return StaleSessionError(self.server, f"it speaks another revision now ({answer.message[:200]})")
        if answer is not None:
            return answer
        if reply.status in SESSION_GONE and id > 1:
            self._end()
            error = rpc_error_in(body)
            why = f": {error.message[:200]}" if error is not None else ""
            stale = StaleSessionError(
                self.server, f"it does not know our session any more (HTTP {reply.status}{why})"
            )
            stale.expired = names_session(body)
            return stale
        return refusal(self.server, reply, body)

    # Hearing

    async def _answer(self, reply: UpstreamResponse, id: int, listener: RequestListener) -> RawResult:
        server = self._address.server
        if not reply.is_stream:
            return result_of(server, decode_message(server, await reply.body()), id)
        in_vain = 0
        last: str | None = None
        while True:
            before = last
            found, last, pause = await self._follow(reply, id, listener, last)
            if found is not None:
                return result_of(server, found, id)
            in_vain = in_vain + 1 if last == before else 0
            if last is None or in_vain > MAX_RESUMES:
                raise ConnectionLostError(server, "the stream ended without an answer")
            await listener.release(int(pause * 1000))
            await asyncio.sleep(pause)
            reply = await self._resume(last)

    async def _follow(
        self, reply: UpstreamResponse, id: int, listener: RequestListener, last: str | None
    ) -> tuple[JsonRpcMessage | None, str | None, float]:
        """Read a stream to the answer or its end: the answer, the last event's id, when to come back."""
        pause = RESUME_SECONDS
        done = False
        try:
            async for event in reply.events():
                last = event.id or last
                pause = pause if event.retry_ms is None else min(event.retry_ms / 1000, 30.0)
                if not event.data:
                    continue
                message = decode_message(self._address.server, event.data)
                if message.is_request:
                    self._desk.take_request(message, id)
                elif message.is_notification:
                    self._desk.take_notification(str(message.method), message.params)
                    await listener.notify(str(message.method), message.params)
                elif message.id == id:
                    done = True
                    return message, last, pause
        except ConnectionLostError:
            pass
        finally:
            reply.release() if done else reply.abandon()
        return None, last, pause

    async def _resume(self, last: str) -> UpstreamResponse:
        headers = {**self._headers, "Accept": "text/event-stream", "Last-Event-ID": last}
        reply = await self._address.send("GET", headers, None)
        if reply.status != 200 or not reply.is_stream:
            reply.abandon()
            raise ConnectionLostError(
                self._address.server, "the stream broke, and the server does not take it up again"
            )
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
                            self._overhear(decode_message(self._address.server, event.data))
                finally:
                    reply.abandon()
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    def _overhear(self, message: JsonRpcMessage) -> None:
        if message.is_request:
            self._desk.take_request(message)
        elif message.is_notification:
            method = str(message.method)
            listener = self._desk.ear_of(self._desk.take_notification(method, message.params))
            if method == PROGRESS:
                listener = self._tokens.get(_token(message.params))
            if listener is not None:
                self._mind(listener.notify(method, message.params))

    def watch(self, watcher: ChangeWatcher) -> None:
        self._desk.watch(watcher)

    def unwatch(self, watcher: ChangeWatcher) -> None:
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


class _Progress(Struct):
    token: Id = field(default="", name="progressToken")


def _token(params: Raw) -> str:
    try:
        return str(decode_params(params, _Progress).token)
    except McpError:
        return ""


async def _quietly(work: Any) -> None:
    """What nobody waits for may fail without a word; whoever depends on it notices."""
    with suppress(McpError):
        await work


ENDED = "its stream ended"


class SseConnection(MessagePipe):
    """A pipe whose one direction is a stream and whose other is POSTs."""

    def __init__(self, address: UpstreamEndpoint) -> None:
        super().__init__(address.server, self._put)
        self._address = address
        self._endpoint: Any = None
        self._named = asyncio.get_running_loop().create_future()
        self._reading: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._more: Mapping[str, str] | None = None
        """Headers of the request that is just being written."""

    async def open(self, profile: ClientProfile) -> None:
        headers = {**self._address.headers, "Accept": "text/event-stream"}
        reply = await self._address.send("GET", headers, None)
        if reply.status != 200 or not reply.is_stream:
            reply.abandon()
            raise refusal(self.server, reply)
        self._reading = asyncio.create_task(self._read(reply))
        await asyncio.wait({self._named, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        if not self._named.done():
            unnamed = "its stream ended before it named an address to POST to"
            raise NotReachedError(self.server, unnamed if self.reason == ENDED else self.reason)
        self._endpoint = self._named.result()
        self.ask_only(profile.askable)
        self.about = read_initialized(
            self.server, await self.request("initialize", initialize_params(profile), SILENT)
        )
        await self.notify("notifications/initialized", {})

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RawResult:
        self._more = headers  # a request is written before anything else can run
        return await super().request(method, params, listener, token)

    async def _read(self, reply: UpstreamResponse) -> None:
        reason = ENDED
        try:
            async for event in reply.events():
                if event.event == "endpoint" and isinstance(event.data, bytes):
                    self._name(event.data)
                elif event.data:
                    self.take(event.data)
        except UpstreamError as error:
            reason = error.reason
        finally:
            reply.abandon()
            self.end(reason)

    def _name(self, data: bytes) -> None:
        from yarl import URL

        try:
            target = self._address.url.join(URL(data.decode(errors="replace").strip()))
        except ValueError:
            raise InvalidReplyError(self.server, f"it names {data[:80]!r}, which is no address") from None
        if target.origin() != self._address.url.origin():
            raise InvalidReplyError(self.server, f"it wants messages POSTed elsewhere, to {target.origin()}")
        if not self._named.done():
            self._named.set_result(target)

    def _put(self, body: bytes) -> None:
        more, self._more = self._more, None
        task = asyncio.create_task(self._post(body, more or {}))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _post(self, body: bytes, more: Mapping[str, str]) -> None:
        """One that is refused concerns its own request only, unless we are not known there any more."""
        try:
            headers = {**self._address.headers, **more}
            reply = await self._address.send("POST", headers, body, self._endpoint)
        except UpstreamError as error:
            self.noise(error, recover_id(body))
            return
        if reply.status < 400:
            reply.release()
            return
        refused = refusal(self.server, reply, await reply.refusal())
        self.noise(refused, recover_id(body))
        if reply.status in (401, 403, 404, 410):
            self.end(refused.reason)

    async def close(self) -> None:
        await super().close()
        tasks = [*self._posting, *([self._reading] if self._reading is not None else [])]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
