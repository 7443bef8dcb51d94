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
from ...wire.secrets import KnownSecrets
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
from ..messages.envelope import read_message, result_of
from ..messages.router import HOME, MessagePipe, ServerRequestRouter
from .client import UpstreamEndpoint, UpstreamResponse, names_session, refusal, rpc_error_in

SESSION_GONE = (400, 404, 405, 406)
"""Statuses that mean an unknown session, or that a server of another era has replaced the old one."""
RESUME_SECONDS = 1.0
MAX_RESUMES = 10
LISTEN_AGAIN_SECONDS = 5.0
PROGRESS = "notifications/progress"
CLOSE_SECONDS = 2.0
POST_SECONDS = 10.0


class LegacyHttpConnection:
    """A session of the Streamable HTTP transport, 2025-03-26 to 2025-11-25."""

    shares_tokens = True

    def __init__(self, address: UpstreamEndpoint) -> None:
        self.server = address.server
        self.about = UpstreamInfo(LATEST_LEGACY)
        self.closed = False
        self.standing = LegacySessionState()
        self._address = address
        self.refused = 0
        """The HTTP status with which the server last refused a request."""
        self._headers = dict(address.headers)
        self._sent = KnownSecrets(address.sent.values)
        """What the session was sent: it may repeat a request's key after the request, on another stream."""
        self._id = 0
        self._router = ServerRequestRouter(self._respond)
        self._tokens: dict[str, RequestListener] = {}
        self._background: set[asyncio.Task[Any]] = set()

    async def open(self, profile: ClientProfile) -> None:
        self._id = 1
        self._router.allow(profile.may_be_asked)
        reply = await self._send("POST", encode(JsonRpcRequest(1, "initialize", initialize_params(profile))))
        if reply.status != 200:
            raise await self._refused(reply)
        session, *others = reply.headers.getall("Mcp-Session-Id", [None])
        if others:
            reply.abandon()
            raise InvalidReplyError(
                self._address.server, "it sent the header 'Mcp-Session-Id' more than once"
            )
        if session is not None and not _is_sendable(session):
            reply.abandon()
            shown = self._sent.clean_text(session)[:80]
            wants = f"it wants to have {shown!r} back as Mcp-Session-Id, which cannot be sent"
            raise InvalidReplyError(self._address.server, wants)
        result = await self._answer(reply, 1, SILENT)
        self.about = read_initialized(self._address.server, result)
        # A new object: headers that were sent once are known, and taken for what they were.
        agreed = {"MCP-Protocol-Version": self.about.version}
        if session is not None:
            agreed["Mcp-Session-Id"] = session
        self._headers = {**self._headers, **agreed}
        await self.notify("notifications/initialized", {})
        self._in_background(self._listen())

    @property
    def busy(self) -> bool:
        return self._router.busy

    # Sending

    async def _send(
        self, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> UpstreamResponse:
        own = {**self._headers, **headers} if headers else self._headers
        return await self._address.send(method, own, body, sent=self._sent)

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        as_id: Id | None = None,
    ) -> RawResult:
        if self.closed:
            raise NotReachedError(self._address.server, "its session was closed")
        self._id = id = self._id + 1
        self._router.add_call(id, listener)
        if token is not None:
            self._tokens[token] = listener
        try:
            reply = await self._send("POST", encode(JsonRpcRequest(id, method, params)), headers)
            if reply.status != 200:
                raise await self._refused(reply, id)
            return await self._answer(reply, id, listener)
        except asyncio.CancelledError:
            cancelled = encode(JsonRpcNotification("notifications/cancelled", {"requestId": id}))
            self._in_background(self._post(cancelled))
            raise
        finally:
            self._router.remove_call(id)
            if token is not None:
                self._tokens.pop(token, None)

    async def notify(self, method: str, params: Params) -> None:
        await self._post(encode(JsonRpcNotification(method, params)))

    async def _respond(self, body: bytes) -> None:
        with suppress(UpstreamError):  # the server's request times out there
            await self._post(body)

    async def _post(self, body: bytes) -> None:
        """Send a message that has no answer."""
        if not self.closed:
            try:
                async with asyncio.timeout(POST_SECONDS):
                    (await self._send("POST", body)).release()
            except TimeoutError:
                raise ConnectionLostError(
                    self.server, f"it did not accept a message within {POST_SECONDS:g} s"
                ) from None

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        # One that is cancelled before its first turn would be missed as never awaited.
        task.add_done_callback(lambda _: work.close())

    async def _refused(self, reply: UpstreamResponse, id: int = 1) -> McpError:
        """Turn an HTTP error into ours, or return the JSON-RPC error in its body that answers `id`."""
        body = await reply.refusal()
        self.refused = reply.status
        if reply.status == 404 and id > 1 and "Mcp-Session-Id" in self._headers:
            self._end()  # the specification's sign for an expired session, whatever the body says
            return StaleSessionError(self.server, "its session has expired")
        answer = rpc_error_in(body, id, reply.status)
        if answer is not None and answer.code in (UNSUPPORTED_VERSION, HEADER_MISMATCH):
            self._end()
            return StaleSessionError(
                self.server, f"it now speaks another protocol revision ({answer.message[:200]})"
            )
        if answer is not None:
            return answer
        if reply.status in SESSION_GONE and id > 1:
            self._end()
            error = rpc_error_in(body)
            why = f": {error.message[:200]}" if error is not None else ""
            stale = StaleSessionError(
                self.server, f"it no longer knows the gateway's session (HTTP {reply.status}{why})"
            )
            stale.expired = names_session(body)
            return stale
        return refusal(self.server, reply, body)

    # Receiving

    async def _answer(self, reply: UpstreamResponse, id: int, listener: RequestListener) -> RawResult:
        server = self._address.server
        if not reply.is_stream:
            return result_of(server, await reply.message(), id)
        fruitless = 0
        last: str | None = None
        while True:
            before = last
            found, last, pause = await self._follow(reply, id, listener, last)
            if found is not None:
                return result_of(server, found, id)
            fruitless = fruitless + 1 if last == before else 0
            if last is None or fruitless > MAX_RESUMES:
                raise ConnectionLostError(server, "the stream ended without an answer")
            await listener.release(int(pause * 1000))
            await asyncio.sleep(pause)
            reply = await self._resume(last)

    async def _follow(
        self, reply: UpstreamResponse, id: int, listener: RequestListener, last: str | None
    ) -> tuple[JsonRpcMessage | None, str | None, float]:
        """Read a stream to the answer or its end.

        Returns the answer, the id of the last event, and the seconds to wait before resuming.
        """
        pause = RESUME_SECONDS
        done = False
        try:
            async for event in reply.events(listener.alive):
                last = event.id or last
                pause = pause if event.retry_ms is None else min(event.retry_ms / 1000, 30.0)
                if not event.data:
                    continue
                message = read_message(self._address.server, event.data)
                if message.is_request:
                    self._router.route_request(message, id)
                elif message.is_notification:
                    self._router.route_notification(str(message.method), message.params)
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
        headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
        reply = await self._send("GET", headers=headers)
        if reply.status != 200 or not reply.is_stream:
            reply.abandon()
            raise ConnectionLostError(
                self._address.server, "its response stream broke and could not be resumed"
            )
        return reply

    async def _listen(self) -> None:
        """Read the session's own stream of messages outside any call. Not all servers have one."""
        while not self.closed:
            with suppress(UpstreamError):
                reply = await self._send("GET", headers={"Accept": "text/event-stream"})
                if reply.status == 404 and "Mcp-Session-Id" in self._headers:
                    reply.abandon()
                    self._end()
                if reply.status != 200 or not reply.is_stream:
                    reply.abandon()
                    return
                try:
                    async for event in reply.events():
                        if event.data:
                            self._route(read_message(self._address.server, event.data))
                finally:
                    reply.abandon()
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    def _route(self, message: JsonRpcMessage) -> None:
        if message.is_request:
            self._router.route_request(message)
        elif message.is_notification:
            method = str(message.method)
            listener = self._router.listener_of(self._router.route_notification(method, message.params))
            if method == PROGRESS:
                listener = self._tokens.get(_token(message.params)) or self._router.listener_of(HOME)
            if listener is not None:
                self._in_background(listener.notify(method, message.params))

    def watch(self, watcher: ChangeWatcher) -> None:
        self._router.watch(watcher)

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._router.unwatch(watcher)

    def adopt(self, listener: RequestListener | None) -> None:
        self._router.adopt(listener)

    # Ending

    def _end(self) -> None:
        self.closed = True
        self._router.close()

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
                    (await self._send("DELETE")).release()


class _Progress(Struct):
    token: Id = field(default="", name="progressToken")


def _token(params: Raw) -> str:
    try:
        return str(decode_params(params, _Progress).token)
    except McpError:
        return ""


def _is_sendable(value: str) -> bool:
    """Whether a header can carry it."""
    return all(" " <= character <= "\xff" and character != "\x7f" for character in value)


async def _quietly(work: Any) -> None:
    """Await background work and ignore its errors: nobody waits for it."""
    with suppress(McpError):
        await work


ENDED = "its stream ended"
ENDPOINT = "endpoint"


class SseConnection(MessagePipe):
    """The HTTP+SSE transport of 2024-11-05: messages come on an event stream and leave as POSTs."""

    def __init__(self, address: UpstreamEndpoint) -> None:
        super().__init__(address.server, self._put)
        self._address = address
        self._sent = KnownSecrets(address.sent.values)
        self._post_url: Any = None
        self._endpoint = asyncio.get_running_loop().create_future()
        """The address for POSTs, from the event `endpoint`."""
        self._reading: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._request_headers: Mapping[str, str] | None = None
        """Headers of the request that is being written."""

    async def open(self, profile: ClientProfile) -> None:
        headers = {**self._address.headers, "Accept": "text/event-stream"}
        reply = await self._address.send("GET", headers, None, sent=self._sent)
        if reply.status != 200 or not reply.is_stream:
            reply.abandon()
            raise refusal(self.server, reply)
        self._reading = asyncio.create_task(self._read(reply))
        await asyncio.wait({self._endpoint, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        if not self._endpoint.done():
            unnamed = "its stream ended before it named an address to POST to"
            raise NotReachedError(self.server, unnamed if self.reason == ENDED else self.reason)
        self._post_url = self._endpoint.result()
        self.allow_requests(profile.may_be_asked)
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
        as_id: Id | None = None,
    ) -> RawResult:
        self._request_headers = headers  # `super` writes the request before anything else can run
        return await super().request(method, params, listener, token)

    async def _read(self, reply: UpstreamResponse) -> None:
        reason = ENDED
        try:
            # The address may have the key that ours has; who else wants to read it gets it without.
            async for event in reply.events(as_they_are=ENDPOINT):
                if event.event == ENDPOINT:
                    if isinstance(event.data, bytes):
                        self._set_endpoint(event.data)
                elif event.data:
                    self.receive(event.data)
        except UpstreamError as error:
            reason = error.reason
        finally:
            reply.abandon()
            self.end(reason)

    def _set_endpoint(self, data: bytes) -> None:
        from yarl import URL

        try:
            target = self._address.url.join(URL(data.decode(errors="replace").strip()))
        except ValueError:
            shown = self._sent.clean(data)[:80]
            raise InvalidReplyError(self.server, f"its endpoint {shown!r} is not an address") from None
        if target.origin() != self._address.url.origin():
            origin = self._sent.clean_text(str(target.origin()))
            raise InvalidReplyError(self.server, f"its endpoint is on another origin, {origin}")
        if not self._endpoint.done():
            self._endpoint.set_result(target)

    def _put(self, body: bytes) -> None:
        headers, self._request_headers = self._request_headers, None
        task = asyncio.create_task(self._post(body, headers or {}))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _post(self, body: bytes, request_headers: Mapping[str, str]) -> None:
        """Fail only its own request when the server refuses it, unless the status ends the session."""
        try:
            headers = {**self._address.headers, **request_headers}
            reply = await self._address.send("POST", headers, body, self._post_url, self._sent)
        except UpstreamError as error:
            self.receive_invalid(error, recover_id(body))
            return
        if reply.status < 400:
            reply.release()
            return
        refused = refusal(self.server, reply, await reply.refusal())
        self.receive_invalid(refused, recover_id(body))
        if reply.status in (401, 403, 404, 410):
            self.end(refused.reason)

    async def close(self) -> None:
        await super().close()
        tasks = [*self._posting, *([self._reading] if self._reading is not None else [])]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
