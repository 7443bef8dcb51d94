"""A conversation with an upstream over one two-way channel of whole messages, in either era.

Requests are told apart by an id of our own. Whoever made one also delivers what the server says on the
way, in order, so that a slow client holds up nobody but itself.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct, field

from ..wire.eras import SUBSCRIPTION_KEY
from ..wire.errors import McpError
from ..wire.messages import Id, Message, Notification, Request, decode_params, encode
from .desk import Desk
from .errors import Garbled, Lost, NotReached, UpstreamError
from .link import About, Ear, Params, Result, Standing, Watcher
from .replies import result_of, understand
from .spool import Spooled

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
        self._items: deque[Message | Exception] = deque()
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Message | Exception) -> None:
        if len(self._items) >= MAX_NOTES and isinstance(item, Message) and item.is_notification:
            return  # a client so slow has more than it can read already
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> Message | Exception:
        while not self._items:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._items.popleft()


class Pipe:
    """Implements `Link`. Whoever owns the channel calls `take` for each message and `end` when it is over."""

    shares_tokens = True

    def __init__(self, server: str, write: Write) -> None:
        self.server = server
        self.about = About("")
        self.closed = False
        self.standing = Standing()
        self.reason = ""
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._id = 0
        self._pending: dict[Id, _Pending] = {}
        self._tokens: dict[str, _Pending] = {}
        self._desk = Desk(self._respond)
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
        ear: Ear,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Result:
        if self.closed:
            raise NotReached(self.server, self.reason)
        self._id = id = self._id + 1
        pending = self._pending[id] = _Pending(self._loop)
        if token is not None:
            self._tokens[token] = pending
        self._desk.enter(id, ear)
        try:
            self._write(encode(Request(id, method, params)))
            while True:
                item = await pending.get()
                if isinstance(item, Exception):
                    raise item
                if not item.is_notification:
                    return result_of(self.server, item, id)
                await ear.notify(str(item.method), item.params)
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
                self._write(encode(Notification("notifications/cancelled", {"requestId": id})))

    async def notify(self, method: str, params: Params) -> None:
        if not self.closed:
            self._write(encode(Notification(method, params)))

    async def _respond(self, body: bytes) -> None:
        with suppress(McpError):  # it does not read: it will miss the answer soon enough
            if not self.closed:
                self._write(body)

    # Hearing

    def take(self, body: bytes | Spooled) -> None:
        """One message of the server."""
        try:
            message = understand(self.server, body)
        except Garbled as error:
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

    def _take_notification(self, message: Message) -> None:
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

    def watch(self, watcher: Watcher) -> None:
        self._desk.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._desk.unwatch(watcher)

    # Ending

    def end(self, reason: str) -> None:
        """The channel is gone: everybody who waits is told."""
        if self.closed:
            return
        self.closed = True
        self.reason = reason
        for pending in self._pending.values():
            pending.put(Lost(self.server, reason))
        self._ending = self._desk.close()

    async def close(self) -> None:
        self.end("the connection was closed")
        if self._ending:
            await asyncio.wait(self._ending)
