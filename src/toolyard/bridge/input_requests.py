"""Handles an upstream's requests for input, and tasks, where caller and upstream are of different eras.

For a legacy caller the gateway does what a modern client does: it asks, retries with the answers, follows a
task. For a modern caller of a legacy upstream the call is parked in this process, for a limited time, until
the client comes back with its answers.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from ..upstream.attribution import question
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


class _InputRequest(Struct):
    method: str
    params: Raw = Raw(b"{}")


class _InputRequired(Struct, rename="camel"):
    input_requests: dict[str, _InputRequest] = {}
    request_state: Raw = _NONE


class _Task(Struct, rename="camel"):
    task_id: str
    status: str
    poll_interval_ms: float | None = None
    status_message: str | None = None
    result: Raw = _NONE
    error: ErrorObject | None = None
    input_requests: dict[str, _InputRequest] = {}


def check_input_requests(server: str, call: Call, result: RawResult) -> None:
    """Refuse a result that requests what the client does not support."""
    if isinstance(result, Spooled):
        raise InvalidReplyError(server, "its input requests are too large")
    try:
        requests = decode_params(result, _InputRequired).input_requests
    except McpError as error:
        raise InvalidReplyError(server, f"its input requests are invalid: {error.message}") from None
    _check(server, call, requests)


def _check(server: str, call: Call, requests: dict[str, _InputRequest]) -> None:
    declared = askable(call.caller)
    for request in requests.values():
        if REQUEST_CAPABILITIES.get(request.method) not in declared:
            raise InvalidReplyError(
                server, f"it requested {request.method[:80]!r}, which the client does not support"
            )


async def ask_all(call: Call, result: Raw) -> Params:
    """Ask the client all input requests; returns the params to add to the retry."""
    required = decode_params(result, _InputRequired)
    answers = await _answers(call, required.input_requests)
    state = {} if required.request_state is _NONE else {"requestState": Raw(bytes(required.request_state))}
    return {"inputResponses": raw(answers), **state}


async def _answers(call: Call, requests: dict[str, _InputRequest]) -> dict[str, Raw]:
    asking = [asyncio.create_task(_ask(call, request)) for request in requests.values()]
    try:
        return dict(zip(requests, await asyncio.gather(*asking), strict=True))
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _ask(call: Call, request: _InputRequest) -> Raw:
    params: Any = request.params
    if request.method == "elicitation/create" and b'"url"' in bytes(request.params):
        members = decode_params(params, dict[str, Raw])
        # The legacy era requires an id here; the modern one has none.
        members.setdefault("elicitationId", raw(secrets.token_urlsafe(12)))
        params = members
    return await call.channel.ask(request.method, params)


def _read_task(server: str, state: Raw) -> _Task:
    try:
        return decode_params(state, _Task)
    except McpError as error:
        raise InvalidReplyError(server, f"its task is invalid: {error.message}") from None


async def follow_task(connection: UpstreamConnection, call: Call, result: Raw, meta: Params) -> RawResult:
    """Poll a task as its client would, and return its result."""
    task = _read_task(connection.server, result)
    id = raw(task.task_id)
    answered: set[str] = set()
    reported: str | None = None
    steps = 0
    try:
        while True:
            if task.status == "completed":
                if not bytes(task.result).lstrip().startswith(b"{"):
                    raise InvalidReplyError(connection.server, "the result of its task is not an object")
                return Raw(bytes(task.result))
            if task.status == "failed":
                error = task.error or ErrorObject(INTERNAL_ERROR, "The task failed")
                raise McpError(error.code, error.message, error.data)
            if task.status == "cancelled":
                raise McpError(INTERNAL_ERROR, "The task was cancelled")
            if task.status_message and task.status_message != reported and call.progress_token is not None:
                reported, steps = task.status_message, steps + 1
                progress = {"progressToken": call.progress_token, "progress": steps, "message": reported}
                await call.channel.notify(PROGRESS, progress)
            fresh = {key: item for key, item in task.input_requests.items() if key not in answered}
            if task.status == "input_required" and fresh:
                _check(connection.server, call, fresh)
                answers = await _answers(call, fresh)
                answered |= fresh.keys()
                await connection.request(
                    "tasks/update", {**meta, "taskId": id, "inputResponses": raw(answers)}, SILENT
                )
            else:
                pause = (task.poll_interval_ms or 1000) / 1000
                await asyncio.sleep(min(max(pause, SHORTEST_POLL), LONGEST_POLL))
            state = await connection.request("tasks/get", {**meta, "taskId": id}, SILENT)
            if isinstance(state, Spooled):
                state.close()
                raise McpError(INTERNAL_ERROR, "The task's result is too large to be passed on")
            task = _read_task(connection.server, state)
    except asyncio.CancelledError:
        cancelling = connection.request("tasks/cancel", {**meta, "taskId": id}, SILENT)
        await asyncio.shield(asyncio.ensure_future(_ignore_errors(cancelling)))
        raise


async def _ignore_errors(request: Any) -> None:
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


class _PendingInput(Struct):
    request: InputRequest
    answer: asyncio.Future[Raw]


class ParkedCall(CallListener, eq=False):
    """A running call that keeps the upstream's requests until the client comes back for them."""

    method: str
    params: Params
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    has_client: bool = True
    round: int = 0
    """Counts how often it was parked; a state from an earlier round has expired."""
    running: "asyncio.Future[RawResult] | None" = None
    _pending: dict[str, _PendingInput] = field(default_factory=dict[str, _PendingInput])
    _count: int = 0
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def asks_immediately(self) -> bool:
        return False

    async def notify(self, method: str, params: Raw) -> None:
        if self.has_client:  # between two rounds no client listens
            await super().notify(method, params)

    @property
    def fingerprint(self) -> str:
        """Identifies the request that a retry must repeat; computed only when the call is parked."""
        return _fingerprint(self.method, self.params)

    async def ask(self, method: str, params: Raw) -> Raw:
        if method == "elicitation/create" and b"elicitationId" in bytes(params):
            # The id belongs to the legacy era; no message of the modern one uses it.
            members = decode_params(params, dict[str, Raw])
            members.pop("elicitationId", None)
            params = Raw(msgspec.json.encode(members))
        asked = question(self.server, method, params) if self.server else params
        self._count += 1
        key = f"{method.split('/')[0]}-{self._count}"
        pending = _PendingInput(InputRequest(method, asked), asyncio.get_running_loop().create_future())
        self._pending[key] = pending
        self._asked.set()
        try:
            return await pending.answer
        finally:
            self._pending.pop(key, None)

    def deliver(self, answers: dict[str, Raw]) -> None:
        for key, answer in answers.items():
            pending = self._pending.get(key)
            if pending is not None and not pending.answer.done():
                pending.answer.set_result(Raw(bytes(answer)))

    def input_requests(self) -> dict[str, InputRequest]:
        return {key: item.request for key, item in self._pending.items() if not item.answer.done()}

    async def wait(self) -> RawResult | None:
        """Return the result, or None when the client has to be asked first."""
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
        while not self.input_requests():
            self._asked.clear()
            await self._asked.wait()


class ParkedCalls:
    """All parked calls of the gateway, limited in number and time; a tenth for each principal."""

    def __init__(self, sealer: Sealer, ttl: float, limit: int) -> None:
        self._sealer = sealer
        self._ttl = ttl
        self._limit = limit
        self._parked: dict[str, ParkedCall] = {}
        self._per_principal: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def reconfigure(self, ttl: float, limit: int) -> None:
        self._ttl, self._limit = ttl, limit

    def __len__(self) -> int:
        return len(self._parked)

    async def begin(
        self, parked: ParkedCall, running: Coroutine[Any, Any, RawResult]
    ) -> RawResult | InputRequiredResult:
        """Run a call to its result or its first input request."""
        parked.running = asyncio.ensure_future(running)
        return await self._run_until_input(parked)

    async def resume(self, call: Call, method: str, params: Params) -> RawResult | InputRequiredResult:
        """Deliver answers to a parked call, and run it on."""
        parked = self._find(call, method, params)
        self._unpark(parked)
        parked.call = call
        parked.has_client = True
        answers = params.get("inputResponses")
        if answers is not None:
            parked.deliver(decode_params(answers, dict[str, Raw]))
        return await self._run_until_input(parked)

    async def _run_until_input(self, parked: ParkedCall) -> RawResult | InputRequiredResult:
        result = await parked.wait()
        if result is not None:
            # A reference cycle would keep the call and its result in memory.
            parked.running = None
            return result
        parked.has_client = False
        parked.round += 1
        self._park(parked)
        state = _ParkedState(parked.id, parked.principal, parked.fingerprint, parked.round)
        return InputRequiredResult(
            result_type="input_required",
            input_requests=parked.input_requests(),
            request_state=self._sealer.seal(msgspec.json.encode(state), PURPOSE),
        )

    def abandon(self, token: str) -> None:
        """Cancel a parked call whose client will not come back; ignores a state from elsewhere."""
        try:
            state = msgspec.json.decode(self._sealer.open(token, PURPOSE), type=_ParkedState)
        except (BrokenSeal, msgspec.DecodeError):
            return
        parked = self._parked.get(state.id)
        if parked is not None and parked.round == state.round:
            self._expire(parked)

    def _park(self, parked: ParkedCall) -> None:
        each = max(1, self._limit // 10)
        if len(self._parked) >= self._limit or self._per_principal[parked.principal] >= each:
            self._cancel(parked)
            raise McpError(INTERNAL_ERROR, "Too many calls are waiting for answers; answer some first")
        self._parked[parked.id] = parked
        self._per_principal[parked.principal] += 1
        self._timers[parked.id] = asyncio.get_running_loop().call_later(self._ttl, self._expire, parked)

    def _unpark(self, parked: ParkedCall) -> None:
        if self._parked.pop(parked.id, None) is not None:
            self._timers.pop(parked.id).cancel()
            self._per_principal[parked.principal] -= 1
            if not self._per_principal[parked.principal]:
                del self._per_principal[parked.principal]

    def _expire(self, parked: ParkedCall) -> None:
        self._unpark(parked)
        self._cancel(parked)

    def _cancel(self, parked: ParkedCall) -> None:
        if parked.running is not None:
            parked.running.cancel()
            parked.running.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _find(self, call: Call, method: str, params: Params) -> ParkedCall:
        token = decode_params(params["requestState"], str)
        try:
            state = msgspec.json.decode(self._sealer.open(token, PURPOSE), type=_ParkedState)
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams("requestState was not issued by this server, or was altered") from None
        if state.principal != call.caller.principal.binding or state.request != _fingerprint(method, params):
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
    """Hash a request without the params that change from round to round."""
    stable = {
        key: msgspec.json.decode(value)
        for key, value in params.items()
        if key not in ("_meta", "inputResponses", "requestState")
    }
    return digest(method.encode(), msgspec.json.encode(stable, order="sorted"))
