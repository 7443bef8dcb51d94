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
from .envelope import decode_message, result_of
from .spool import Spooled

logger = logging.getLogger("toolyard.upstream")

MAX_QUESTIONS = 100
UNCLAIMED_SECONDS = 300.0
OVER = "the call it belongs to is over"
ROOTS = "roots/list"
"""Asked for a client, not for a call: when the call it was put to is over, the next one is asked."""
ROOTS_SECONDS = 1.0

Respond = Callable[[bytes], Awaitable[None]]
LISTS_CHANGED = frozenset(
    (
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    )
)
RESOURCE_UPDATED = "notifications/resources/updated"


class _Question(Struct, eq=False):
    """A request of the server. `call` is the one it was put to; `over` says that this call has ended."""

    id: Id
    method: str
    params: Raw
    call: int | None
    task: "asyncio.Future[None] | None" = None
    over: bool = False


class _Calls(Struct):
    ears: dict[int, RequestListener] = field(default_factory=dict[int, RequestListener])
    principals: set[str] = field(default_factory=set[str])
    """Of all who ever spoke here; more than one or two need not be told apart."""


class ServerRequestRouter:
    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.askable: frozenset[str] = frozenset()
        """What the client of this session said it can be asked."""
        self._calls = _Calls()
        self._arrived = asyncio.Event()
        self._questions: dict[Id, _Question] = {}
        self._watchers: dict[ChangeWatcher, None] = {}

    # Calls under way

    def enter(self, id: int, listener: RequestListener) -> None:
        if not listener.principal:
            return
        calls = self._calls
        calls.ears[id] = listener
        if len(calls.principals) < 2:
            calls.principals.add(listener.principal)
        if self._questions:
            self._arrived.set()

    def leave(self, id: int) -> None:
        """A call is over, and with it what was asked in its name."""
        listener = self._calls.ears.pop(id, None)
        if listener is None or not self._questions:
            return
        for question in [one for one in self._questions.values() if one.call == id]:
            if question.method == ROOTS and listener.asks_immediately:
                # The client has it, and may be about to answer.
                asyncio.get_running_loop().call_later(ROOTS_SECONDS, self._give_up, question, id)
            else:
                self._give_up(question, id)

    def _give_up(self, question: _Question, call: int) -> None:
        if question.call == call and question.task is not None and not question.task.done():
            question.over = True
            question.task.cancel()

    def ear_of(self, id: int | None) -> RequestListener | None:
        return None if id is None else self._calls.ears.get(id)

    @property
    def busy(self) -> bool:
        return bool(self._calls.ears)

    # Requests of the server

    def take_request(self, message: JsonRpcMessage, call: int | None = None) -> None:
        """Answer it in time; `call` is the request it came with, where the transport tells."""
        id, method = message.id, message.method
        assert isinstance(id, int | str)
        assert isinstance(method, str)
        question = _Question(id, method, Raw(bytes(message.params)), call)
        if id in self._questions or len(self._questions) >= MAX_QUESTIONS:
            refusing = McpError(INTERNAL_ERROR, "too many questions are open, or one has this id already")
            question.task = asyncio.ensure_future(self._respond(_refusal(id, refusing)))
            _background.add(question.task)
            question.task.add_done_callback(_background.discard)
            return
        self._questions[id] = question
        question.task = asyncio.create_task(self._answer(question))
        question.task.add_done_callback(lambda _: self._questions.pop(id, None))

    async def _answer(self, question: _Question) -> None:
        try:
            body = encode(JsonRpcResponse(question.id, await self._result(question)))
        except McpError as error:
            body = _refusal(question.id, error)
        except Exception as error:  # whatever the way to the client does, the server gets an answer
            logger.warning("a question of a server could not be put: %r", error)
            body = _refusal(question.id, McpError(INTERNAL_ERROR, "the client could not be asked"))
        await self._respond(body)

    async def _result(self, question: _Question) -> Any:
        if question.method == "ping":
            return {}
        if REQUEST_CAPABILITIES.get(question.method) not in self.askable:
            raise McpError(
                METHOD_NOT_FOUND, f"the client did not say it can be asked {question.method[:80]!r}"
            )
        asked_on = self.ear_of(question.call)
        guessed = question.call is None
        if not guessed and asked_on is None:
            raise McpError(INTERNAL_ERROR, OVER)
        while True:
            if asked_on is None:
                question.call, asked_on = await self._somebody(question.method)
            try:
                return await self._put(question, asked_on)
            except _Over:
                # The server still waits: one of the calls that are left is the one it asked for.
                if question.method != ROOTS and not (guessed and self._calls.ears):
                    raise McpError(INTERNAL_ERROR, OVER) from None
                question.over, asked_on = False, None

    async def _put(self, question: _Question, listener: RequestListener) -> Raw:
        try:
            return await listener.ask(question.method, question.params)
        except Exception:
            if self.ear_of(question.call) is None:  # its call was answered before the question was out
                raise _Over from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if question.over and task is not None and task.uncancel() == 0:
                raise _Over from None
            raise

    async def _somebody(self, method: str) -> tuple[int, RequestListener]:
        """A call to put the question to: the latest, or the next that comes."""
        try:
            async with asyncio.timeout(UNCLAIMED_SECONDS):
                while not self._calls.ears:
                    self._arrived.clear()
                    await self._arrived.wait()
                return next(reversed(self._calls.ears.items()))
        except TimeoutError:
            raise McpError(METHOD_NOT_FOUND, f"nobody was there to be asked {method[:80]!r}") from None

    # Notifications of the server

    def take_notification(self, method: str, params: Raw) -> int | None:
        """Deal with what concerns no call; else say which call it is taken to belong to, if it is safe to."""
        if method in LISTS_CHANGED or method == RESOURCE_UPDATED:
            for watcher in list(self._watchers):
                watcher(method, params)
            return None
        if method == "notifications/cancelled":
            self._withdrawn(params)
            return None
        calls = self._calls
        return next(reversed(calls.ears), None) if len(calls.principals) == 1 else None

    def _withdrawn(self, params: Raw) -> None:
        try:
            question = self._questions.get(decode_params(params, CancelledParams).request_id)
        except McpError:
            return
        if question is not None and question.task is not None:
            question.task.cancel()

    def watch(self, watcher: ChangeWatcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._watchers.pop(watcher, None)

    def close(self) -> list["asyncio.Future[None]"]:
        """Tell those who watch; the questions left are cancelled and returned, to be waited for."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher("", Raw(b"{}"))
        left = [question.task for question in self._questions.values() if question.task is not None]
        for task in left:
            task.cancel()
        return left


class _Over(Exception):
    """The call that a question was put to has ended."""


_background: set["asyncio.Future[None]"] = set()


def _refusal(id: Id, error: McpError) -> bytes:
    return encode(JsonRpcErrorResponse(id, ErrorObject(error.code, error.message, error.data)))


MAX_NOTES = 1000

Write = Callable[[bytes], None]


class _Meta(Struct):
    subscription: Id | None = field(default=None, name=SUBSCRIPTION_KEY)


class _Notes(Struct):
    token: Id | None = field(default=None, name="progressToken")
    meta: _Meta | None = field(default=None, name="_meta")


class _Pending:
    """A request under way: what has come for it and was not taken yet."""

    __slots__ = ("_items", "_loop", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._items: deque[JsonRpcMessage | Exception] = deque()
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: JsonRpcMessage | Exception) -> None:
        if len(self._items) >= MAX_NOTES and isinstance(item, JsonRpcMessage) and item.is_notification:
            return  # a client so slow has more than it can read already
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> JsonRpcMessage | Exception:
        while not self._items:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._items.popleft()


class MessagePipe:
    """Implements `Link`. Whoever owns the channel calls `take` for each message and `end` when it is over."""

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
        self._desk = ServerRequestRouter(self._respond)
        self._ending: list[asyncio.Future[None]] = []

    @property
    def busy(self) -> bool:
        return self._desk.busy

    def ask_only(self, askable: frozenset[str]) -> None:
        """What the client of this session said it can be asked."""
        self._desk.askable = askable

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
            raise NotReachedError(self.server, self.reason)
        self._id = id = self._id + 1
        pending = self._pending[id] = _Pending(self._loop)
        if token is not None:
            self._tokens[token] = pending
        self._desk.enter(id, listener)
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
            self._desk.leave(id)
            if token is not None:
                self._tokens.pop(token, None)

    def _cancel(self, method: str, id: int) -> None:
        if not self.closed and method != "initialize":
            with suppress(McpError):  # it does not read, or has ended: there is nobody to tell
                self._write(encode(JsonRpcNotification("notifications/cancelled", {"requestId": id})))

    async def notify(self, method: str, params: Params) -> None:
        if not self.closed:
            self._write(encode(JsonRpcNotification(method, params)))

    async def _respond(self, body: bytes) -> None:
        with suppress(McpError):  # it does not read: it will miss the answer soon enough
            if not self.closed:
                self._write(body)

    # Hearing

    def take(self, body: bytes | Spooled) -> None:
        """One message of the server."""
        try:
            message = decode_message(self.server, body)
        except InvalidReplyError as error:
            self.noise(error, error.id)
            return
        if message.is_request:
            self._desk.take_request(message)
        elif message.is_notification:
            self._take_notification(message)
        else:
            pending = self._pending.get(message.id)  # type: ignore[arg-type]
            if pending is not None:
                pending.put(message)

    def noise(self, error: UpstreamError, id: Id | None = None) -> None:
        """What is no message. Without an id it is taken for the answer to the one call under way."""
        if id is not None and id in self._pending:
            self._pending[id].put(error)
        elif len(self._pending) == 1:
            next(iter(self._pending.values())).put(error)

    def _take_notification(self, message: JsonRpcMessage) -> None:
        method = str(message.method)
        try:
            notes = decode_params(message.params, _Notes)
        except McpError:
            return
        if notes.token is not None:
            pending = self._tokens.get(str(notes.token))
        elif notes.meta is not None and notes.meta.subscription is not None:
            pending = self._pending.get(notes.meta.subscription)
        else:
            id = self._desk.take_notification(method, message.params)
            pending = None if id is None else self._pending.get(id)
        # One that names a call which is over is nobody's: not that of another call in any case.
        if pending is not None:
            pending.put(message)

    def watch(self, watcher: ChangeWatcher) -> None:
        self._desk.watch(watcher)

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._desk.unwatch(watcher)

    # Ending

    def end(self, reason: str) -> None:
        """The channel is gone: everybody who waits is told."""
        if self.closed:
            return
        self.closed = True
        self.reason = reason
        for pending in self._pending.values():
            pending.put(ConnectionLostError(self.server, reason))
        self._ending = self._desk.close()

    async def close(self) -> None:
        self.end("the connection was closed")
        if self._ending:
            await asyncio.wait(self._ending)
