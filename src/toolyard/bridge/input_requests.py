"""An upstream's requests for input, and tasks, where caller and upstream are of different eras.

For a legacy caller we do what a modern client does: ask, retry with the answers, follow a task. For a
modern caller of a legacy upstream the call is parked in this process, for a limited time, until the client
comes back with its answers.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..upstream.connection import REQUEST_CAPABILITIES, SILENT, Params, RawResult, UpstreamConnection, askable
from ..upstream.errors import InvalidReplyError
from ..upstream.messages.spool import Spooled
from ..wire.call import Call
from ..wire.errors import INTERNAL_ERROR, ErrorObject, InvalidParams, McpError
from ..wire.messages import decode_params
from ..wire.seal import BrokenSeal, Sealer, digest
from ..wire.types import InputRequest, InputRequiredResult
from .translation import PROGRESS, CallListener, raw

_NONE = Raw(b"{}")
SHORTEST_POLL = 0.02
LONGEST_POLL = 10.0


class _Question(Struct):
    method: str
    params: Raw = Raw(b"{}")


class _Asked(Struct, rename="camel"):
    input_requests: dict[str, _Question] = {}
    request_state: Raw = _NONE


class _Task(Struct, rename="camel"):
    task_id: str
    status: str
    poll_interval_ms: float | None = None
    status_message: str | None = None
    result: Raw = _NONE
    error: ErrorObject | None = None
    input_requests: dict[str, _Question] = {}


def check_questions(server: str, call: Call, result: RawResult) -> None:
    """An upstream may only ask what the client said it can be asked."""
    if isinstance(result, Spooled):
        raise InvalidReplyError(server, "its questions are too big")
    try:
        asked = decode_params(result, _Asked).input_requests
    except McpError as error:
        raise InvalidReplyError(server, f"its questions cannot be understood: {error.message}") from None
    _check(server, call, asked)


def _check(server: str, call: Call, questions: dict[str, _Question]) -> None:
    declared = askable(call.caller)
    for question in questions.values():
        if REQUEST_CAPABILITIES.get(question.method) not in declared:
            raise InvalidReplyError(
                server, f"it asks {question.method[:80]!r}, which the client cannot be asked"
            )


async def ask_all(call: Call, result: Raw) -> Params:
    """Put an upstream's questions to the client; what to send along with the next try."""
    asked = decode_params(result, _Asked)
    answers = await _answers(call, asked.input_requests)
    state = {} if asked.request_state is _NONE else {"requestState": Raw(bytes(asked.request_state))}
    return {"inputResponses": raw(answers), **state}


async def _answers(call: Call, questions: dict[str, _Question]) -> dict[str, Raw]:
    asking = [asyncio.create_task(_ask(call, question)) for question in questions.values()]
    try:
        return dict(zip(questions, await asyncio.gather(*asking), strict=True))
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _ask(call: Call, question: _Question) -> Raw:
    params: Any = question.params
    if question.method == "elicitation/create" and b'"url"' in bytes(question.params):
        members = decode_params(params, dict[str, Raw])
        # The legacy era wants a name for a link; the modern one has none.
        members.setdefault("elicitationId", raw(secrets.token_urlsafe(12)))
        params = members
    return await call.channel.ask(question.method, params)


def _task(server: str, shown: Raw) -> _Task:
    try:
        return decode_params(shown, _Task)
    except McpError as error:
        raise InvalidReplyError(
            server, f"what it calls a task cannot be understood: {error.message}"
        ) from None


async def follow_task(link: UpstreamConnection, call: Call, result: Raw, meta: Params) -> RawResult:
    """Wait for a task as its client would, and return what it comes to."""
    task = _task(link.server, result)
    id = raw(task.task_id)
    answered: set[str] = set()
    said: str | None = None
    steps = 0
    try:
        while True:
            if task.status == "completed":
                if not bytes(task.result).lstrip().startswith(b"{"):
                    raise InvalidReplyError(link.server, "the result of its task is not an object")
                return Raw(bytes(task.result))
            if task.status == "failed":
                error = task.error or ErrorObject(INTERNAL_ERROR, "The task failed")
                raise McpError(error.code, error.message, error.data)
            if task.status == "cancelled":
                raise McpError(INTERNAL_ERROR, "The task was cancelled")
            if task.status_message and task.status_message != said and call.progress_token is not None:
                said, steps = task.status_message, steps + 1
                told = {"progressToken": call.progress_token, "progress": steps, "message": said}
                await call.channel.notify(PROGRESS, told)
            fresh = {key: item for key, item in task.input_requests.items() if key not in answered}
            if task.status == "input_required" and fresh:
                _check(link.server, call, fresh)
                answers = await _answers(call, fresh)
                answered |= fresh.keys()
                await link.request(
                    "tasks/update", {**meta, "taskId": id, "inputResponses": raw(answers)}, SILENT
                )
            else:
                pause = (task.poll_interval_ms or 1000) / 1000
                await asyncio.sleep(min(max(pause, SHORTEST_POLL), LONGEST_POLL))
            shown = await link.request("tasks/get", {**meta, "taskId": id}, SILENT)
            if isinstance(shown, Spooled):
                shown.close()
                raise McpError(INTERNAL_ERROR, "The task's result is too big to be passed on")
            task = _task(link.server, shown)
    except asyncio.CancelledError:
        cancelling = link.request("tasks/cancel", {**meta, "taskId": id}, SILENT)
        await asyncio.shield(asyncio.ensure_future(_suppressed(cancelling)))
        raise


async def _suppressed(request: Any) -> None:
    try:
        async with asyncio.timeout(2):
            await request
    except (McpError, TimeoutError):
        pass


PURPOSE = "parked"
EXPIRED = "requestState has expired, or belongs to another instance of this gateway; start again without it"


class _ParkedState(Struct, array_like=True):
    id: str
    principal: str
    request: str
    round: int


class _OpenQuestion(Struct):
    request: InputRequest
    answer: asyncio.Future[Raw]


class ParkedCall(CallListener):
    """One call, whoever waits for it at the moment. It keeps questions until the client comes for them."""

    asks_immediately = False
    __slots__ = ("_asked", "_count", "_params", "_questions", "attended", "id", "round", "running")

    def __init__(self, call: Call, params: Params, token: str | None) -> None:
        super().__init__(call, token)
        self.id = secrets.token_urlsafe(12)
        self.attended = True
        self.round = 0
        """Counts the times it was left; the state of an earlier round is worth nothing."""
        self.running: asyncio.Future[RawResult] | None = None
        self._params = params
        self._questions: dict[str, _OpenQuestion] = {}
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
        question = _OpenQuestion(InputRequest(method, params), asyncio.get_running_loop().create_future())
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

    async def wait(self) -> RawResult | None:
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


class ParkedCalls:
    def __init__(self, sealer: Sealer, ttl: float, limit: int) -> None:
        self._sealer = sealer
        self._ttl = ttl
        self._limit = limit
        self._parked: dict[str, ParkedCall] = {}
        self._held: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def reconfigure(self, ttl: float, limit: int) -> None:
        self._ttl, self._limit = ttl, limit

    def __len__(self) -> int:
        return len(self._parked)

    async def begin(
        self, parked: ParkedCall, running: Coroutine[Any, Any, RawResult]
    ) -> RawResult | InputRequiredResult:
        """Run a call to its result or its first question."""
        parked.running = asyncio.ensure_future(running)
        return await self._attend(parked)

    async def resume(self, call: Call, params: Params) -> RawResult | InputRequiredResult:
        """Bring answers to a call that waits for them."""
        parked = self._find(call, params)
        self._leave(parked)
        parked.call = call
        parked.attended = True
        answers = params.get("inputResponses")
        if answers is not None:
            parked.deliver(decode_params(answers, dict[str, Raw]))
        return await self._attend(parked)

    async def _attend(self, parked: ParkedCall) -> RawResult | InputRequiredResult:
        result = await parked.wait()
        if result is not None:
            # The call and its result must not keep each other.
            parked.running = None
            return result
        parked.attended = False
        parked.round += 1
        self._park(parked)
        state = _ParkedState(parked.id, parked.principal, parked.request, parked.round)
        return InputRequiredResult(
            result_type="input_required",
            input_requests=parked.questions(),
            request_state=self._sealer.seal(msgspec.json.encode(state), PURPOSE),
        )

    def abandon(self, token: str) -> None:
        """The client will not come back for it. A state that is none of ours means nothing here."""
        try:
            state = msgspec.json.decode(self._sealer.open(token, PURPOSE), type=_ParkedState)
        except (BrokenSeal, msgspec.DecodeError):
            return
        parked = self._parked.get(state.id)
        if parked is not None and parked.round == state.round:
            self._expire(parked)

    def _park(self, parked: ParkedCall) -> None:
        each = max(1, self._limit // 10)
        if len(self._parked) >= self._limit or self._held[parked.principal] >= each:
            self._cancel(parked)
            raise McpError(INTERNAL_ERROR, "Too many calls are waiting for answers; answer some first")
        self._parked[parked.id] = parked
        self._held[parked.principal] += 1
        self._timers[parked.id] = asyncio.get_running_loop().call_later(self._ttl, self._expire, parked)

    def _leave(self, parked: ParkedCall) -> None:
        if self._parked.pop(parked.id, None) is not None:
            self._timers.pop(parked.id).cancel()
            self._held[parked.principal] -= 1
            if not self._held[parked.principal]:
                del self._held[parked.principal]

    def _expire(self, parked: ParkedCall) -> None:
        self._leave(parked)
        self._cancel(parked)

    def _cancel(self, parked: ParkedCall) -> None:
        if parked.running is not None:
            parked.running.cancel()
            parked.running.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _find(self, call: Call, params: Params) -> ParkedCall:
        token = decode_params(params["requestState"], str)
        try:
            state = msgspec.json.decode(self._sealer.open(token, PURPOSE), type=_ParkedState)
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams("requestState was not issued by this server, or was altered") from None
        if state.principal != call.caller.identity.principal or state.request != _fingerprint(
            call.method, params
        ):
            raise InvalidParams("requestState belongs to another request")
        parked = self._parked.get(state.id)
        if parked is None or parked.round != state.round:
            raise InvalidParams(EXPIRED)
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
