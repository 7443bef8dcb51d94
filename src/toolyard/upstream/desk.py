"""What an upstream says out of turn on a shared channel, and to which call under way it goes.

A legacy server's questions and log lines do not always say which request they belong to. A session whose
client can be asked belongs to one client, so a question is put to its latest call; on any other session
questions are refused. Log lines go to the latest call only where one principal alone has ever used the
channel; elsewhere they are dropped, since they might be about somebody else's affairs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw, Struct, field

from ..wire.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, ErrorObject, McpError
from ..wire.messages import ErrorReply, Id, Message, Reply, decode_params, encode
from ..wire.types import CancelledParams
from .link import ASKED_BY, Ear, Watcher

logger = logging.getLogger("toolyard.upstream")

MAX_QUESTIONS = 100
HOMELESS_SECONDS = 300.0
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
    ears: dict[int, Ear] = field(default_factory=dict[int, Ear])
    principals: set[str] = field(default_factory=set[str])
    """Of all who ever spoke here; more than one or two need not be told apart."""


class Desk:
    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.askable: frozenset[str] = frozenset()
        """What the client of this session said it can be asked."""
        self._calls = _Calls()
        self._arrived = asyncio.Event()
        self._questions: dict[Id, _Question] = {}
        self._watchers: dict[Watcher, None] = {}

    # Calls under way

    def enter(self, id: int, ear: Ear) -> None:
        if not ear.principal:
            return
        calls = self._calls
        calls.ears[id] = ear
        if len(calls.principals) < 2:
            calls.principals.add(ear.principal)
        if self._questions:
            self._arrived.set()

    def leave(self, id: int) -> None:
        """A call is over, and with it what was asked in its name."""
        ear = self._calls.ears.pop(id, None)
        if ear is None or not self._questions:
            return
        for question in [one for one in self._questions.values() if one.call == id]:
            if question.method == ROOTS and ear.asks_at_once:
                # The client has it, and may be about to answer.
                asyncio.get_running_loop().call_later(ROOTS_SECONDS, self._give_up, question, id)
            else:
                self._give_up(question, id)

    def _give_up(self, question: _Question, call: int) -> None:
        if question.call == call and question.task is not None and not question.task.done():
            question.over = True
            question.task.cancel()

    def ear_of(self, id: int | None) -> Ear | None:
        return None if id is None else self._calls.ears.get(id)

    @property
    def busy(self) -> bool:
        return bool(self._calls.ears)

    # Requests of the server

    def take_request(self, message: Message, call: int | None = None) -> None:
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
            body = encode(Reply(question.id, await self._result(question)))
        except McpError as error:
            body = _refusal(question.id, error)
        except Exception as error:  # whatever the way to the client does, the server gets an answer
            logger.warning("a question of a server could not be put: %r", error)
            body = _refusal(question.id, McpError(INTERNAL_ERROR, "the client could not be asked"))
        await self._respond(body)

    async def _result(self, question: _Question) -> Any:
        if question.method == "ping":
            return {}
        if ASKED_BY.get(question.method) not in self.askable:
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

    async def _put(self, question: _Question, ear: Ear) -> Raw:
        try:
            return await ear.ask(question.method, question.params)
        except Exception:
            if self.ear_of(question.call) is None:  # its call was answered before the question was out
                raise _Over from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if question.over and task is not None and task.uncancel() == 0:
                raise _Over from None
            raise

    async def _somebody(self, method: str) -> tuple[int, Ear]:
        """A call to put the question to: the latest, or the next that comes."""
        try:
            async with asyncio.timeout(HOMELESS_SECONDS):
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

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
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
    return encode(ErrorReply(id, ErrorObject(error.code, error.message, error.data)))
