"""Routes the messages of one shared connection: replies, notifications and server requests to their calls.

A legacy server does not always say which call a request or log line belongs to. A session whose client can
be asked belongs to one client, so a request goes to its latest call; on other sessions requests are
refused. Log lines are passed on only where one principal alone has used the connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Raw, Struct, field

from ...wire.call import SUBSCRIPTION_KEY
from ...wire.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, ErrorObject, McpError
from ...wire.messages import (
    Id,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    decode_params,
    encode,
)
from ...wire.types import CancelledParams
from ..connection import (
    REQUEST_CAPABILITIES,
    ChangeWatcher,
    LegacySessionState,
    Params,
    RawResult,
    RequestListener,
    UpstreamInfo,
)
from ..errors import ConnectionLostError, InvalidReplyError, NotReachedError, UpstreamError
from .envelope import read_message, result_of
from .spool import Spooled

logger = logging.getLogger("toolyard.upstream")

MAX_REQUESTS = 100
UNCLAIMED_SECONDS = 300.0
CALL_ENDED = "the call it belongs to has already ended"
ROOTS = "roots/list"
"""Concerns the client, not a call: when the call it was sent to ends, it goes to the next call."""
ROOTS_SECONDS = 1.0

HOME = 0
"""Stands for a call's id where no call is meant: the client that has the whole connection gets it."""

Respond = Callable[[bytes], Awaitable[None]]
LISTS_CHANGED = frozenset(
    (
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    )
)
RESOURCE_UPDATED = "notifications/resources/updated"


class _ServerRequest(Struct, eq=False):
    """`call` is the call it was sent to; `call_ended` says that this call has ended."""

    id: Id
    method: str
    params: Raw
    call: int | None
    task: "asyncio.Future[None] | None" = None
    call_ended: bool = False


class _CallEndedError(Exception):
    """The call that a server request was sent to has ended."""


class ServerRequestRouter:
    """Sends a server's requests to the client of a call, and its notifications to watchers or a call."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._allowed: frozenset[str] | None = frozenset()
        self._listeners: dict[int, RequestListener] = {}
        self._principals: set[str] = set()
        """The principals that ever used this connection; it is enough to know whether there are two."""
        self._call_added = asyncio.Event()
        self._requests: dict[Id, _ServerRequest] = {}
        self._refusing: set[asyncio.Future[None]] = set()
        self._watchers: dict[ChangeWatcher, None] = {}
        self._home: RequestListener | None = None

    def adopt(self, listener: RequestListener | None) -> None:
        """The connection belongs to one client: `listener` gets what is said or asked outside of a call."""
        self._home = listener
        self._call_added.set()

    def allow(self, capabilities: frozenset[str] | None) -> None:
        """Send the client requests that need these capabilities, or all; all others are refused."""
        self._allowed = capabilities

    # Calls

    def add_call(self, id: int, listener: RequestListener) -> None:
        if not listener.principal:
            return
        self._listeners[id] = listener
        if len(self._principals) < 2:
            self._principals.add(listener.principal)
        if self._requests:
            self._call_added.set()

    def remove_call(self, id: int) -> None:
        """End a call and the server requests that were sent to it."""
        listener = self._listeners.pop(id, None)
        if listener is None or not self._requests:
            return
        for request in [request for request in self._requests.values() if request.call == id]:
            if request.method == ROOTS and listener.asks_immediately:
                # The client has received it, and may be about to answer.
                asyncio.get_running_loop().call_later(ROOTS_SECONDS, self._withdraw, request, id)
            else:
                self._withdraw(request, id)

    def _withdraw(self, request: _ServerRequest, call: int) -> None:
        if request.call == call and request.task is not None and not request.task.done():
            request.call_ended = True
            request.task.cancel()

    def listener_of(self, id: int | None) -> RequestListener | None:
        return self._home if id == HOME else None if id is None else self._listeners.get(id)

    @property
    def busy(self) -> bool:
        return bool(self._listeners)

    # Requests from the server

    def route_request(self, message: JsonRpcMessage, call: int | None = None) -> None:
        """Answer it in the background; `call` is the call it came with, if the transport says so."""
        id, method = message.id, message.method
        assert isinstance(id, int | str)
        assert isinstance(method, str)
        request = _ServerRequest(id, method, Raw(bytes(message.params)), call)
        if id in self._requests or len(self._requests) >= MAX_REQUESTS:
            error = McpError(INTERNAL_ERROR, "too many open requests, or one with this id is still open")
            task = asyncio.ensure_future(self._respond(_error_response(id, error)))
            self._refusing.add(task)
            task.add_done_callback(self._refusing.discard)
            return
        self._requests[id] = request
        request.task = asyncio.create_task(self._answer(request))
        request.task.add_done_callback(lambda _: self._requests.pop(id, None))

    async def _answer(self, request: _ServerRequest) -> None:
        try:
            body = encode(JsonRpcResponse(request.id, await self._result(request)))
        except McpError as error:
            body = _error_response(request.id, error)
        except Exception as error:  # the server gets an answer whatever fails on the way to the client
            logger.warning("a server's request could not be sent to the client: %r", error)
            body = _error_response(request.id, McpError(INTERNAL_ERROR, "the client could not be asked"))
        await self._respond(body)

    async def _result(self, request: _ServerRequest) -> Any:
        if request.method == "ping":
            return {}
        if self._allowed is not None and REQUEST_CAPABILITIES.get(request.method) not in self._allowed:
            raise McpError(METHOD_NOT_FOUND, f"the client does not support {request.method[:80]!r}")
        listener = self.listener_of(request.call)
        guessed = request.call is None
        if not guessed and listener is None:
            raise McpError(INTERNAL_ERROR, CALL_ENDED)
        while True:
            if listener is None:
                request.call, listener = await self._next_call(request.method)
            try:
                return await self._ask(request, listener)
            except _CallEndedError:
                # The server still waits, so one of the remaining calls is the one that it asked for.
                if request.method != ROOTS and not (guessed and self._listeners):
                    raise McpError(INTERNAL_ERROR, CALL_ENDED) from None
                request.call_ended, listener = False, None

    async def _ask(self, request: _ServerRequest, listener: RequestListener) -> Raw:
        try:
            return await listener.ask(request.method, request.params)
        except Exception:
            if self.listener_of(request.call) is None:  # the call ended before the request was sent
                raise _CallEndedError from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if request.call_ended and task is not None and task.uncancel() == 0:
                raise _CallEndedError from None
            raise

    async def _next_call(self, method: str) -> tuple[int, RequestListener]:
        """Return the latest call, or wait for one."""
        try:
            async with asyncio.timeout(UNCLAIMED_SECONDS):
                while not self._listeners:
                    if self._home is not None:
                        return HOME, self._home
                    self._call_added.clear()
                    await self._call_added.wait()
                return next(reversed(self._listeners.items()))
        except TimeoutError:
            raise McpError(METHOD_NOT_FOUND, f"no client call is active to answer {method[:80]!r}") from None

    # Notifications from the server

    def route_notification(self, method: str, params: Raw) -> int | None:
        """Handle a notification that concerns no call; else return its call, where one principal has all."""
        if method in LISTS_CHANGED or method == RESOURCE_UPDATED:
            for watcher in list(self._watchers):
                watcher(method, params)
            if self._home is not None:
                return HOME
        if method == "notifications/cancelled":
            self._cancel_request(params)
            return None
        call = next(reversed(self._listeners), None) if len(self._principals) == 1 else None
        return HOME if call is None and self._home is not None else call

    def _cancel_request(self, params: Raw) -> None:
        try:
            request = self._requests.get(decode_params(params, CancelledParams).request_id)
        except McpError:
            return
        if request is not None and request.task is not None:
            request.task.cancel()

    def watch(self, watcher: ChangeWatcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._watchers.pop(watcher, None)

    def close(self) -> list["asyncio.Future[None]"]:
        """Notify the watchers, and cancel the open requests; returns their tasks, to be awaited."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher("", Raw(b"{}"))
        tasks = [request.task for request in self._requests.values() if request.task is not None]
        for task in tasks:
            task.cancel()
        return tasks


def _error_response(id: Id, error: McpError) -> bytes:
    return encode(JsonRpcErrorResponse(id, ErrorObject(error.code, error.message, error.data)))


MAX_QUEUED = 1000

Write = Callable[[bytes], None]


class _Meta(Struct):
    subscription: Id | None = field(default=None, name=SUBSCRIPTION_KEY)


class _Routing(Struct):
    """The params of a notification that say which request it belongs to."""

    token: Id | None = field(default=None, name="progressToken")
    meta: _Meta | None = field(default=None, name="_meta")


class _Pending:
    """A request whose answer has not come, and the messages for it that were not read yet."""

    __slots__ = ("_items", "_loop", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._items: deque[JsonRpcMessage | Exception] = deque()
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: JsonRpcMessage | Exception) -> None:
        if len(self._items) >= MAX_QUEUED and isinstance(item, JsonRpcMessage) and item.is_notification:
            return  # the client does not keep up
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> JsonRpcMessage | Exception:
        while not self._items:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._items.popleft()


class MessagePipe:
    """An `UpstreamConnection` over one channel in each direction.

    The owner of the channel calls `receive` for each message, and `end` when the channel closes.
    """

    shares_tokens = True

    def __init__(self, server: str, write: Write) -> None:
        self.server = server
        self.about = UpstreamInfo("")
        self.closed = False
        self.standing = LegacySessionState()
        self.reason = ""
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._id = 0
        self._pending: dict[Id, _Pending] = {}
        self._tokens: dict[str, _Pending] = {}
        self._router = ServerRequestRouter(self._respond)
        self._ending: list[asyncio.Future[None]] = []
        self._telling: set[asyncio.Future[None]] = set()

    @property
    def busy(self) -> bool:
        return self._router.busy

    def allow_requests(self, capabilities: frozenset[str] | None) -> None:
        """Let the server send requests that need these capabilities of the client."""
        self._router.allow(capabilities)

    # Sending

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
            raise NotReachedError(self.server, self.reason)
        self._id = id = self._id + 1
        pending = self._pending[id] = _Pending(self._loop)
        if token is not None:
            self._tokens[token] = pending
        self._router.add_call(id, listener)
        try:
            self._write(encode(JsonRpcRequest(id, method, params)))
            while True:
                item = await pending.get()
                if isinstance(item, Exception):
                    raise item
                if not item.is_notification:
                    return result_of(self.server, item, id)
                await listener.notify(str(item.method), item.params)
        except asyncio.CancelledError:
            self._cancel(method, id)
            raise
        finally:
            del self._pending[id]
            self._router.remove_call(id)
            if token is not None:
                self._tokens.pop(token, None)

    def _cancel(self, method: str, id: int) -> None:
        if not self.closed and method != "initialize":
            with suppress(McpError):  # the server does not read, or has ended
                self._write(encode(JsonRpcNotification("notifications/cancelled", {"requestId": id})))

    async def notify(self, method: str, params: Params) -> None:
        if not self.closed:
            self._write(encode(JsonRpcNotification(method, params)))

    async def _respond(self, body: bytes) -> None:
        with suppress(McpError):  # the server does not read; its request times out there
            if not self.closed:
                self._write(body)

    # Receiving

    def receive(self, body: bytes | Spooled) -> None:
        """Route one message from the server."""
        try:
            message = read_message(self.server, body)
        except InvalidReplyError as error:
            self.receive_invalid(error, error.id)
            return
        if message.is_request:
            self._router.route_request(message)
        elif message.is_notification:
            self._receive_notification(message)
        else:
            pending = self._pending.get(message.id)  # type: ignore[arg-type]
            if pending is not None:
                pending.put(message)

    def receive_invalid(self, error: UpstreamError, id: Id | None = None) -> None:
        """Fail the request with this id. Without an id, fail the only pending request, if there is one."""
        if id is not None and id in self._pending:
            self._pending[id].put(error)
        elif len(self._pending) == 1:
            next(iter(self._pending.values())).put(error)

    def _receive_notification(self, message: JsonRpcMessage) -> None:
        method = str(message.method)
        try:
            routing = decode_params(message.params, _Routing)
        except McpError:
            return
        if routing.token is not None:
            pending = self._tokens.get(str(routing.token))
            if pending is None and self._router.listener_of(HOME) is not None:
                self._tell_home(method, message.params)
        elif routing.meta is not None and routing.meta.subscription is not None:
            pending = self._pending.get(routing.meta.subscription)
        else:
            id = self._router.route_notification(method, message.params)
            if id == HOME:
                self._tell_home(method, message.params)
            pending = None if id is None else self._pending.get(id)
        # A notification that names a call which has ended is dropped; it must not reach another call.
        if pending is not None:
            pending.put(message)

    def _tell_home(self, method: str, params: Raw) -> None:
        home = self._router.listener_of(HOME)
        assert home is not None
        telling = asyncio.ensure_future(home.notify(method, Raw(bytes(params))))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    def adopt(self, listener: RequestListener | None) -> None:
        self._router.adopt(listener)

    def watch(self, watcher: ChangeWatcher) -> None:
        self._router.watch(watcher)

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._router.unwatch(watcher)

    # Ending

    def end(self, reason: str) -> None:
        """Fail all pending requests: the channel has closed."""
        if self.closed:
            return
        self.closed = True
        self.reason = reason
        for pending in self._pending.values():
            pending.put(ConnectionLostError(self.server, reason))
        self._ending = self._router.close()

    async def close(self) -> None:
        self.end("the connection was closed")
        if self._ending:
            await asyncio.wait(self._ending)
