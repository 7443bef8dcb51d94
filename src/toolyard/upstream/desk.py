"""What an upstream says out of turn on a shared channel, and to which call under way it goes.

A legacy server's questions and log lines do not say which request they belong to. All calls of one
session belong to one caller, or to callers who cannot be asked anything, so a guess among them does no
harm: the latest call is taken. A question that comes while no call runs waits for the next one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from ..wire.errors import METHOD_NOT_FOUND, ErrorObject, McpError
from ..wire.messages import ErrorReply, Id, Message, Reply, decode_params, encode
from ..wire.types import CancelledParams
from .link import DEAF, Ear, Watcher

MAX_QUESTIONS = 100
HOMELESS_SECONDS = 300.0

Respond = Callable[[bytes], Awaitable[None]]
LISTS_CHANGED = frozenset(
    f"notifications/{name}"
    for name in ("tools/list_changed", "prompts/list_changed", "resources/list_changed")
)
RESOURCE_UPDATED = "notifications/resources/updated"


class Desk:
    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._ears: dict[int, Ear] = {}
        self._arrived: asyncio.Event = asyncio.Event()
        self._questions: dict[Id, asyncio.Task[None]] = {}
        self._watchers: dict[Watcher, None] = {}

    # Calls under way

    def enter(self, id: int, ear: Ear) -> None:
        if ear is not DEAF:
            self._ears[id] = ear
            if self._questions:
                self._arrived.set()

    def leave(self, id: int) -> None:
        self._ears.pop(id, None)

    @property
    def latest(self) -> Ear | None:
        return next(reversed(self._ears.values()), None)

    # Requests of the server

    def take_request(self, message: Message, ear: Ear | None = None) -> None:
        """Answer it in time; `ear` is the call it came with, where the transport tells."""
        id, method = message.id, message.method
        assert isinstance(id, int | str)
        assert isinstance(method, str)
        if id in self._questions or len(self._questions) >= MAX_QUESTIONS:
            return
        params = Raw(bytes(message.params))
        task = asyncio.create_task(self._answer(id, method, params, ear))
        self._questions[id] = task
        task.add_done_callback(lambda _: self._questions.pop(id, None))

    async def _answer(self, id: Id, method: str, params: Raw, ear: Ear | None) -> None:
        try:
            if method == "ping":
                body = encode(Reply(id, {}))
            else:
                listener = ear if ear is not None else await self._somebody(method)
                body = encode(Reply(id, await listener.ask(method, params)))
        except McpError as error:
            body = encode(ErrorReply(id, ErrorObject(error.code, error.message, error.data)))
        await self._respond(body)

    async def _somebody(self, method: str) -> Ear:
        """A call to put the question to: the latest, or the next that comes."""
        try:
            async with asyncio.timeout(HOMELESS_SECONDS):
                while (ear := self.latest) is None:
                    self._arrived.clear()
                    await self._arrived.wait()
                return ear
        except TimeoutError:
            raise McpError(METHOD_NOT_FOUND, f"nobody was there to be asked {method[:80]!r}") from None

    # Notifications of the server

    def take_notification(self, method: str, params: Raw) -> int | None:
        """Deal with what concerns no call; else say which call it is taken to belong to."""
        if method in LISTS_CHANGED or method == RESOURCE_UPDATED:
            for watcher in list(self._watchers):
                watcher(method, params)
            return None
        if method == "notifications/cancelled":
            self._withdrawn(params)
            return None
        return next(reversed(self._ears), None)

    def _withdrawn(self, params: Raw) -> None:
        try:
            task = self._questions.get(decode_params(params, CancelledParams).request_id)
        except McpError:
            return
        if task is not None:
            task.cancel()

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def close(self) -> list["asyncio.Task[Any]"]:
        """Tell those who watch; the questions left are cancelled and returned, to be waited for."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher("", Raw(b"{}"))
        left = list(self._questions.values())
        for task in left:
            task.cancel()
        return left
