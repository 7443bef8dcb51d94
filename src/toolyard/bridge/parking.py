"""Calls that wait for a modern client's answer while a legacy upstream holds its breath.

The upstream asked in the middle of a call. The client is told `input_required` and comes back with the
answers in another request; until then the call is parked here, in this process, for a limited time.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..upstream.link import Params, Result
from ..wire.call import Call
from ..wire.errors import INTERNAL_ERROR, InvalidParams, McpError
from ..wire.messages import decode_params
from ..wire.seal import BrokenSeal, Sealer, digest
from ..wire.types import InputRequest, InputRequiredResult
from .ears import CallEar

PURPOSE = "parked"
GONE = "requestState has expired, or belongs to another instance of this gateway; start again without it"


class _State(Struct, array_like=True):
    id: str
    principal: str
    request: str
    round: int


class _Question(Struct):
    request: InputRequest
    answer: asyncio.Future[Raw]


class Parked(CallEar):
    """One call, whoever waits for it at the moment. It keeps questions until the client comes for them."""

    asks_at_once = False
    __slots__ = ("_asked", "_count", "_params", "_questions", "attended", "id", "round", "running")

    def __init__(self, call: Call, params: Params, token: str | None) -> None:
        super().__init__(call, token)
        self.id = secrets.token_urlsafe(12)
        self.attended = True
        self.round = 0
        """Counts the times it was left; the state of an earlier round is worth nothing."""
        self.running: asyncio.Future[Result] | None = None
        self._params = params
        self._questions: dict[str, _Question] = {}
        self._count = 0
        self._asked = asyncio.Event()

    async def notify(self, method: str, params: Raw) -> None:
        if self.attended:  # between two rounds nobody listens
            await super().notify(method, params)

    @property
    def request(self) -> str:
        """What a retry must ask again; worked out only when the call has to wait."""
        return _fingerprint(self.call.method, self._params)

    async def ask(self, method: str, params: Raw) -> Raw:
        if method == "elicitation/create" and b"elicitationId" in bytes(params):
            # A name for a link is the legacy era's; the modern one has no message that would use it.
            members = decode_params(params, dict[str, Raw])
            members.pop("elicitationId", None)
            params = Raw(msgspec.json.encode(members))
        self._count += 1
        key = f"{method.split('/')[0]}-{self._count}"
        question = _Question(InputRequest(method, params), asyncio.get_running_loop().create_future())
        self._questions[key] = question
        self._asked.set()
        try:
            return await question.answer
        finally:
            self._questions.pop(key, None)

    def deliver(self, answers: dict[str, Raw]) -> None:
        for key, answer in answers.items():
            question = self._questions.get(key)
            if question is not None and not question.answer.done():
                question.answer.set_result(Raw(bytes(answer)))

    def questions(self) -> dict[str, InputRequest]:
        return {key: item.request for key, item in self._questions.items() if not item.answer.done()}

    async def wait(self) -> Result | None:
        """The result, or None when there are questions to put first."""
        assert self.running is not None
        asked = asyncio.ensure_future(self._until_asked())
        try:
            await asyncio.wait({self.running, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.running.cancel()
            raise
        finally:
            asked.cancel()
        return self.running.result() if self.running.done() else None

    async def _until_asked(self) -> None:
        while not self.questions():
            self._asked.clear()
            await self._asked.wait()


class Parking:
    def __init__(self, sealer: Sealer, ttl: float, limit: int) -> None:
        self._sealer = sealer
        self._ttl = ttl
        self._limit = limit
        self._parked: dict[str, Parked] = {}
        self._held: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def reconfigure(self, ttl: float, limit: int) -> None:
        self._ttl, self._limit = ttl, limit

    def __len__(self) -> int:
        return len(self._parked)

    async def begin(
        self, parked: Parked, running: Coroutine[Any, Any, Result]
    ) -> Result | InputRequiredResult:
        """Run a call to its result or its first question."""
        parked.running = asyncio.ensure_future(running)
        return await self._attend(parked)

    async def resume(self, call: Call, params: Params) -> Result | InputRequiredResult:
        """Bring answers to a call that waits for them."""
        parked = self._find(call, params)
        self._leave(parked)
        parked.call = call
        parked.attended = True
        answers = params.get("inputResponses")
        if answers is not None:
            parked.deliver(decode_params(answers, dict[str, Raw]))
        return await self._attend(parked)

    async def _attend(self, parked: Parked) -> Result | InputRequiredResult:
        result = await parked.wait()
        if result is not None:
            # The call and its result must not keep each other.
            parked.running = None
            return result
        parked.attended = False
        parked.round += 1
        self._park(parked)
        state = _State(parked.id, parked.principal, parked.request, parked.round)
        return InputRequiredResult(
            result_type="input_required",
            input_requests=parked.questions(),
            request_state=self._sealer.seal(msgspec.json.encode(state), PURPOSE),
        )

    def abandon(self, token: str) -> None:
        """The client will not come back for it. A state that is none of ours means nothing here."""
        try:
            state = msgspec.json.decode(self._sealer.open(token, PURPOSE), type=_State)
        except (BrokenSeal, msgspec.DecodeError):
            return
        parked = self._parked.get(state.id)
        if parked is not None and parked.round == state.round:
            self._expire(parked)

    def _park(self, parked: Parked) -> None:
        each = max(1, self._limit // 10)
        if len(self._parked) >= self._limit or self._held[parked.principal] >= each:
            self._cancel(parked)
            raise McpError(INTERNAL_ERROR, "Too many calls are waiting for answers; answer some first")
        self._parked[parked.id] = parked
        self._held[parked.principal] += 1
        self._timers[parked.id] = asyncio.get_running_loop().call_later(self._ttl, self._expire, parked)

    def _leave(self, parked: Parked) -> None:
        if self._parked.pop(parked.id, None) is not None:
            self._timers.pop(parked.id).cancel()
            self._held[parked.principal] -= 1
            if not self._held[parked.principal]:
                del self._held[parked.principal]

    def _expire(self, parked: Parked) -> None:
        self._leave(parked)
        self._cancel(parked)

    def _cancel(self, parked: Parked) -> None:
        if parked.running is not None:
            parked.running.cancel()
            parked.running.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _find(self, call: Call, params: Params) -> Parked:
        token = decode_params(params["requestState"], str)
        try:
            state = msgspec.json.decode(self._sealer.open(token, PURPOSE), type=_State)
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams("requestState was not issued by this server, or was altered") from None
        if state.principal != call.caller.identity.principal or state.request != _fingerprint(
            call.method, params
        ):
            raise InvalidParams("requestState belongs to another request")
        parked = self._parked.get(state.id)
        if parked is None or parked.round != state.round:
            raise InvalidParams(GONE)
        return parked

    async def close(self) -> None:
        waiting = [parked.running for parked in self._parked.values() if parked.running is not None]
        for parked in list(self._parked.values()):
            self._expire(parked)
        if waiting:
            await asyncio.wait(waiting)


def _fingerprint(method: str, params: Params) -> str:
    """The request itself, without what changes from round to round; in one spelling."""
    salient = {
        key: msgspec.json.decode(value)
        for key, value in params.items()
        if key not in ("_meta", "inputResponses", "requestState")
    }
    return digest(method.encode(), msgspec.json.encode(salient, order="sorted"))
