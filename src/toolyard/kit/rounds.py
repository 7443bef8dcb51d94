"""Asking in the modern era: the call ends as `input_required` and is replayed when the answers come.

Nothing is kept here between rounds. What the call has learnt travels in `requestState`, sealed, bound
to the caller and to the request, and good for a limited time.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ..wire.call import Call
from ..wire.errors import InvalidParams
from ..wire.seal import BrokenSeal, Sealer, digest
from ..wire.types import InputRequiredResult, RoundTrip
from .asks import Ask, Notes, made
from .schema import Mismatch

_PURPOSE = "round"

T = TypeVar("T")


class _State(Struct, array_like=True):
    principal: str
    request: str
    expires: int
    notes: Notes


class InputRequired(BaseException):
    """Ends a run that needs answers. Not an Exception: a tool's own handlers must not swallow it."""

    def __init__(self, result: InputRequiredResult, owner: "Rounds") -> None:
        super().__init__("input required")
        self.result = result
        self.owner = owner


class Detached(BaseException):
    """Ends an inline run that goes on as a task, with what it has learnt so far."""

    def __init__(self, notes: Notes, owner: "Rounds") -> None:
        super().__init__("detached")
        self.notes = notes
        self.owner = owner


async def settle(running: Awaitable[T]) -> T:
    """Await an author's function; a signal that a task group has wrapped comes out plain.

    Several questions asked side by side become one round.
    """
    try:
        return await running
    except BaseExceptionGroup as group:
        signals = list(signals_in(group))
        if not signals:
            raise
        asked = [signal for signal in signals if isinstance(signal, InputRequired)]
        if not asked:
            raise signals[0] from None
        for other in asked[:-1]:
            asked[-1].result.input_requests |= other.result.input_requests
        raise asked[-1] from None


def signals_in(error: BaseException) -> Iterator[InputRequired | Detached]:
    """The signals that an exception is or, when a task group made it, holds."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast(BaseExceptionGroup[BaseException], error).exceptions:
            yield from signals_in(inner)
    elif isinstance(error, InputRequired | Detached):
        yield error


class Rounds:
    """The modern `Asker` of one request."""

    def __init__(self, call: Call, trip: RoundTrip, what: bytes, sealer: Sealer, ttl: float) -> None:
        self._call = call
        self._sealer = sealer
        self._ttl = ttl
        self._fingerprint = digest(call.method.encode(), what)
        self._fresh = {} if trip.input_responses is UNSET else trip.input_responses
        self._notes = Notes() if trip.request_state is UNSET else self._open(trip.request_state)
        self.may_detach = False

    def _open(self, token: str) -> Notes:
        try:
            state = msgspec.json.decode(self._sealer.open(token, _PURPOSE), type=_State)
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams("requestState was not issued by this server, or was altered") from None
        if state.principal != self._call.caller.identity.principal or state.request != self._fingerprint:
            raise InvalidParams("requestState belongs to another request")
        if state.expires < time.time():
            raise InvalidParams("requestState has expired; start again without it")
        return state.notes

    def _seal(self) -> str:
        state = _State(
            self._call.caller.identity.principal, self._fingerprint, int(time.time() + self._ttl), self._notes
        )
        return self._sealer.seal(msgspec.json.encode(state), _PURPOSE)

    async def ask(self, questions: dict[str, Ask]) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        missing: dict[str, Ask] = {}
        for key, question in questions.items():
            question.require(self._call.caller)
            raw = self._notes.answers.get(key) or self._fresh.get(key)
            if raw is None:
                missing[key] = question
                continue
            try:
                answers[key] = question.read(raw)
            except Mismatch as error:
                raise InvalidParams(f"inputResponses[{key!r}]: {error}") from None
            self._notes.answers[key] = Raw(raw)
        if missing:
            requests = {key: question.request("modern") for key, question in missing.items()}
            raise InputRequired(
                InputRequiredResult(
                    result_type="input_required", input_requests=requests, request_state=self._seal()
                ),
                self,
            )
        return answers

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        if key not in self._notes.values:
            self._notes.values[key] = await made(make)
        return self._notes.values[key]

    async def detach(self) -> None:
        if self.may_detach:
            raise Detached(self._notes, self)


def fingerprint(name: str, arguments: Raw) -> bytes:
    """A request's salient parts in one spelling, however the client orders its keys."""
    try:
        plain = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidParams("'arguments' must be a JSON object") from None
    return name.encode() + b"\0" + msgspec.json.encode(plain, order="sorted")
