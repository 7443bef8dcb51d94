"""One conversation over a two-way channel of whole messages: stdio, or anything shaped like it.

Requests run side by side, each in its own task. The channel speaks both eras: `initialize` opens a
legacy session for its whole life, a request with modern `_meta` is served on its own terms.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec import Raw

from ..wire.call import Call, Caller, Identity, Service, Session
from ..wire.eras import is_modern, read_legacy_progress_token
from ..wire.errors import InternalError, InvalidRequest, McpError, Unavailable
from ..wire.messages import (
    Id,
    Message,
    Notification,
    Request,
    decode_params,
    encode,
    encode_error,
    parse,
    recover_id,
)
from ..wire.modern import ModernReader
from ..wire.types import CancelledParams, InitializeParams
from ..wire.versions import negotiate
from .answer import StreamedReply, answer, deliver, take_notification
from .running import ended
from .sessions import client_from

MAX_RUNNING = 10_000

Write = Callable[[bytes], Awaitable[None]]
WritePieces = Callable[[AsyncIterator[bytes]], Awaitable[None]]
"""Writes one message that comes in pieces; others wait until it is complete."""


class _Talk:
    """The channel of one call."""

    def __init__(self, duplex: "Duplex") -> None:
        self._duplex = duplex

    async def notify(self, method: str, params: Any) -> None:
        await self._duplex.write(encode(Notification(method, params)))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._duplex.ask(method, params)

    async def release(self, retry_ms: int | None) -> None:
        return None


class Duplex:
    def __init__(
        self,
        service: Service,
        write: Write,
        write_pieces: WritePieces | None = None,
        identity: Identity = Identity(),  # noqa: B008 (frozen)
    ) -> None:
        self._service = service
        self.write = write
        self._write_pieces = write_pieces or self._write_whole
        self._identity = identity
        self._legacy: Caller | None = None
        self._session = Session()
        self._reader = ModernReader()
        self._talk = _Talk(self)
        self._running: dict[Id, asyncio.Task[None]] = {}
        self._asked: dict[str, asyncio.Future[Raw]] = {}
        self._subscriptions: set[asyncio.Task[None]] = set()
        """Of those, the ones that end only with the service."""
        self._minded: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None

    async def feed(self, body: bytes) -> None:
        """Take one message. Returns at once; answers are written when they are ready."""
        try:
            message = parse(body)
        except McpError as error:
            await self.write(encode_error(recover_id(body), error))
            return
        if message.is_request:
            await self._request(body, message)
        elif message.is_notification:
            await self._notification(message)
        else:
            self._response(message)

    async def _request(self, body: bytes, message: Message) -> None:
        assert isinstance(message.id, int | str)
        id = message.id
        try:
            if id in self._running:
                raise InvalidRequest(f"Request id {id!r} is already in use")
            if len(self._running) >= MAX_RUNNING:
                raise Unavailable(f"Already {MAX_RUNNING} requests are under way; wait for some answers")
            call = self._call(body, message, id)
        except McpError as error:
            await self.write(encode_error(id, error))
            return
        self._running[id] = task = asyncio.create_task(self._answer(call, id))
        if call.method == "subscriptions/listen":
            self._subscriptions.add(task)
            task.add_done_callback(self._subscriptions.discard)

    def _call(self, body: bytes, message: Message, id: Id) -> Call:
        method, params = message.method, message.params
        assert isinstance(method, str)
        if is_modern(body, params, None) or method == "server/discover":
            caller, token = self._reader.read(method, params, None, self._identity)
            return Call(method, params, caller, self._talk, id, token)
        if method == "initialize":
            opening = decode_params(params, InitializeParams)
            version = negotiate(opening.protocol_version)
            self._legacy = Caller(
                version, opening.capabilities, client_from(opening.client_info), self._identity
            )
        if self._legacy is None:
            raise InvalidRequest(
                "Not initialized: send 'initialize' first, or speak 2026-07-28 with its params._meta"
            )
        token = read_legacy_progress_token(body, params)
        return Call(method, params, self._legacy, self._talk, id, token, self._session)

    async def _answer(self, call: Call, id: Id) -> None:
        try:
            _, body = await answer(self._service, call)
            if isinstance(body, StreamedReply):
                with body:
                    await self._write_pieces(body.chunks())
            else:
                await self.write(body)
        except asyncio.CancelledError:
            # Who is cancelled by the client or by our close has left the table; else a tool did it to itself.
            if self._running.get(id) is not asyncio.current_task():
                raise
            await self.write(encode_error(id, InternalError()))
        finally:
            # The id may have been cancelled and taken again meanwhile.
            if self._running.get(id) is asyncio.current_task():
                del self._running[id]

    async def _write_whole(self, pieces: AsyncIterator[bytes]) -> None:
        await self.write(b"".join([piece async for piece in pieces]))

    async def _notification(self, message: Message) -> None:
        assert isinstance(message.method, str)
        if message.method == "notifications/cancelled":
            try:
                task = self._running.pop(decode_params(message.params, CancelledParams).request_id, None)
            except McpError:
                return
            if task is not None:
                # Its id is free again at once; it is waited for all the same.
                task.cancel()
                self._mind(task)
            return
        if self._legacy is None or not message.method.startswith("notifications/"):
            return
        call = Call(message.method, message.params, self._legacy, self._talk, session=self._session)
        if message.method == "notifications/initialized":
            if self._listening is None:
                self._listening = asyncio.create_task(self._service.listen(call))
        else:
            self._mind(asyncio.create_task(take_notification(self._service, call)))

    def _mind(self, task: asyncio.Task[None]) -> None:
        """Keep a task that nobody awaits, until it ends or we close."""
        self._minded.add(task)
        task.add_done_callback(self._minded.discard)

    def _response(self, message: Message) -> None:
        future = self._asked.pop(str(message.id), None)
        if future is not None:
            deliver(message, future)

    async def ask(self, method: str, params: Any) -> Raw:
        id = f"ask-{secrets.token_urlsafe(9)}"
        future = self._asked[id] = asyncio.get_running_loop().create_future()
        try:
            await self.write(encode(Request(id, method, params)))
            return await future
        except asyncio.CancelledError:
            await self.write(encode(Notification("notifications/cancelled", {"requestId": id})))
            raise
        finally:
            self._asked.pop(id, None)

    async def finish(self, grace: float) -> None:
        """The other side has no more to say: let calls be answered, but not for long.

        Before the service closes, since what they work with closes with it.
        """
        for future in self._asked.values():
            if not future.done():
                future.set_exception(McpError(-32603, "The client closed the connection"))
        calls = set(self._running.values()) - self._subscriptions
        if calls:
            await asyncio.wait(calls, timeout=grace)

    async def close(self, grace: float) -> None:
        """After the service: let subscriptions end, and whatever else still runs."""
        if self._listening is not None:
            self._listening.cancel()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace)
        left, self._running = self._running, {}
        tasks = [
            *left.values(),
            *self._minded,
            *([self._listening] if self._listening is not None else []),
        ]
        await ended(tasks)
