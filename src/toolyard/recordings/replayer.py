"""Answers in the place of servers and models, from a recording.

`Replay` chooses the answer: the nth equal call gets the nth answer, and after the last the last one again.
With `lenient`, an unequal call gets the answer of the one that is most like it. `ReplayUpstream` and
`ReplayTransport` give the answers.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, NoReturn, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ..agents.backends.base import ModelError, ModelErrorKind, ModelHttpRequest, ModelHttpResponse
from ..bridge.input_requests import ask_all
from ..bridge.translation import CallListener, as_modern, raw, with_subscription_id
from ..catalogue.items import KINDS
from ..config import Config, ServerConfig
from ..upstream.base import Forward, Outcome, StatelessUpstream, Upstream
from ..upstream.connection import GATEWAY_CALLER, Params, UpstreamInfo
from ..upstream.errors import NotReachedError
from ..upstream.messages.envelope import read_outcome
from ..wire.call import SERVER_KEY, Call
from ..wire.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, McpError
from ..wire.messages import decode_params, encode
from ..wire.types import InputRequest, InputRequiredResult
from .format import (
    AnswerLine,
    ModelChunkLine,
    ModelEndLine,
    ModelHeadLine,
    NotificationLine,
    QuestionLine,
    RecordedError,
)
from .matching import (
    ComparableParams,
    ResultIds,
    comparable,
    differences,
    fits,
    key_of,
    likeness,
    listed,
    shown,
    steady,
)
from .recording import LISTEN, RecordedCall, RecordedModelCall, Recording, endpoint_of, title_of
from .secrets import SecretRemover

LISTS = frozenset(kind.method for kind in KINDS)
MAX_ROUNDS = 20
_STATE = "replay-"
"""Begins the state of a call whose recorded questions are put to a modern client, one after the other."""
_MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")
MatchKind = Literal["exact", "repeated", "alike", "none"]


class ReplayedCall(Struct, frozen=True):
    """A call that was answered from a recording, or could not be."""

    server: str
    """Empty for a request to a model."""
    method: str
    name: str | None
    params: Any
    match: MatchKind
    seq: int = 0
    """The recorded request that answered it."""
    message: str = ""
    """Why no recorded one did."""

    @property
    def arguments(self) -> Any:
        found: Any = self.params
        return cast(dict[str, Any], found).get("arguments") if isinstance(found, dict) else None


class Replay:
    """Chooses the recorded answer for each call, and remembers what was called."""

    def __init__(self, recording: Recording, *, lenient: bool = False, pace: bool = False) -> None:
        self.recording = recording
        self.lenient = lenient
        self.pace = pace
        self.calls: list[ReplayedCall] = []
        self._ids = ResultIds(recording.file.header.salt)
        self._secrets = SecretRemover()
        self._by_key: dict[bytes, list[RecordedCall]] = {}
        self._alike: dict[tuple[str, str, str | None], list[RecordedCall]] = {}
        self.own: dict[bytes, list[RecordedCall]] = {}
        """What the gateway asked in its own name."""
        self._models: dict[bytes, list[RecordedModelCall]] = {}
        repeated = {id(call.retried) for call in recording.calls.values() if call.retried is not None}
        for call in recording.calls.values():
            if call.by == "gateway" or call.method == LISTEN:
                self.own.setdefault(call.key, []).append(call)
            elif id(call) not in repeated:
                self._by_key.setdefault(call.key, []).append(call)
                self._alike.setdefault((call.server, call.method, call.name), []).append(call)
        for model_call in recording.model_calls.values():
            self._models.setdefault(model_call.key, []).append(model_call)

    @property
    def unmatched(self) -> list[ReplayedCall]:
        return [call for call in self.calls if call.match == "none"]

    @property
    def unused(self) -> list[RecordedCall]:
        """Recorded calls that nobody made."""
        return [call for calls in self._by_key.values() for call in calls if not call.served]

    # In the place of servers: what the gateway is given

    def configured(self, config: Config) -> None:
        """The servers are not there, so there is nothing to note."""

    def wrap(self, config: ServerConfig, upstream: Upstream) -> Upstream:
        return ReplayUpstream(config.name, self)

    def new_id(self, tool: str) -> str:
        """The id that a result of this tool had when it was recorded."""
        return self._ids(tool)

    def find(self, server: str, method: str, name: str | None, params: Params) -> RecordedCall:
        """The recorded call that answers this one; McpError if there is none."""
        given = ComparableParams(server, method, encode(params), self._secrets)
        kind: MatchKind = "exact"
        found = _next(self._by_key.get(given.key, ())) or _next(
            [
                call
                for call in self._named(server, method, name)
                if call.has_secrets and self._fits(call, given)
            ]
        )
        if found is None and self.lenient:
            found, kind = self._most_alike(server, method, name, given.value), "alike"
        if found is None:
            message = self._unknown(server, method, name, given.value)
            self.calls.append(ReplayedCall(server, method, name, given.value, "none", message=message))
            raise McpError(INVALID_PARAMS, message, {"server": server, "recording": self.recording.path.name})
        if found.served and kind == "exact":
            kind = "repeated"
        found.served += 1
        self.calls.append(ReplayedCall(server, method, name, given.value, kind, found.place.seq))
        return found

    def _named(self, server: str, method: str, name: str | None) -> list[RecordedCall]:
        return self._alike.get((server, method, name), [])

    def _fits(self, call: RecordedCall, given: ComparableParams) -> bool:
        return fits(self.recording.params(call), given.value)

    def _most_alike(self, server: str, method: str, name: str | None, given: Any) -> RecordedCall | None:
        """Of equally alike ones the first that nobody got yet."""
        calls = self._named(server, method, name)
        ranked = [
            (likeness(self.recording.params(call), given), -call.served, -number, call)
            for number, call in enumerate(calls)
        ]
        return max(ranked, key=lambda item: item[:3])[3] if ranked else None

    def _unknown(self, server: str, method: str, name: str | None, given: Any) -> str:
        what = f"{title_of(server, method, name)} with {shown(_arguments(given))} was not recorded"
        same = self._named(server, method, name)
        others = same or [
            call for key, calls in self._alike.items() if key[:2] == (server, method) for call in calls
        ]
        if not others:
            return f"{what}; nothing like it was"
        nearest = max(
            others, key=lambda call: (call.name == name, likeness(self.recording.params(call), given))
        )
        params = self.recording.params(nearest)
        return f"{what}; the nearest is event {nearest.place.seq}: {listed(differences(params, given))}"

    # In the place of a model

    def find_model(self, request: ModelHttpRequest) -> RecordedModelCall:
        try:
            body = steady(comparable(self._secrets.json(msgspec.json.decode(request.body))))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = request.body.decode(errors="replace")
        kind: MatchKind = "exact"
        found = _next(self._models.get(key_of(endpoint_of(request.url), body), ()))
        recorded = list(self.recording.model_calls.values())
        if found is None:
            fitting = [call for call in recorded if fits(self.recording.model_body(call), body)]
            found = _next(fitting)
        if found is None and self.lenient:
            # In the order of the recording: a conversation grows, so likeness alone would prefer its end.
            found, kind = next((call for call in recorded if not call.served), None), "alike"
        if found is None:
            message = self._unknown_model(body, recorded)
            self.calls.append(ReplayedCall("", "model", None, body, "none", message=message))
            raise ModelError("invalid", message, "--lenient takes the next recorded answer instead")
        if found.served and kind == "exact":
            kind = "repeated"
        found.served += 1
        self.calls.append(ReplayedCall("", "model", None, body, kind, found.place.seq))
        return found

    def _unknown_model(self, body: Any, recorded: list[RecordedModelCall]) -> str:
        what = "a request to the model was not recorded"
        if not recorded:
            return f"{what}; none was"
        bodies = [(call, self.recording.model_body(call)) for call in recorded]
        nearest, params = max(bodies, key=lambda item: (likeness(item[1], body), -item[0].served))
        return f"{what}; the nearest is event {nearest.place.seq}: {listed(differences(params, body))}"


def _arguments(params: Any) -> Any:
    found = cast(dict[str, Any], params) if isinstance(params, dict) else {}
    return found.get("arguments", found)


def _next(calls: "list[RecordedCall] | list[RecordedModelCall] | tuple[()]") -> Any:
    """The first that nobody got yet, else the last."""
    for call in calls:
        if not call.served:
            return call
    return calls[-1] if calls else None


class ReplayUpstream(StatelessUpstream):
    """A server of a recording."""

    def __init__(self, server: str, replay: Replay) -> None:
        self._server = server
        self._replay = replay
        self._recording = replay.recording
        self._position = 0
        """The lists are those that were read after this event."""
        self._served = asyncio.Event()

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        line = self._recording.servers.get(self._server)
        if line is None:
            raise NotReachedError(self._server, "it was not reached when this was recorded")
        return UpstreamInfo(line.version, line.info, line.capabilities, line.instructions)

    async def close(self) -> None:
        """Does nothing: the recording is its owner's."""

    async def send(self, forward: Forward) -> Outcome:
        if forward.method == LISTEN:
            await self._listen(forward)
        if forward.call.caller is GATEWAY_CALLER and forward.method in LISTS:
            return self._outcome(self._list(forward), forward)
        return await self._answer(forward, forward.params)

    async def _answer(self, forward: Forward, params: Params) -> Outcome:
        """A legacy caller is asked what a modern one was, as the gateway does with a modern server."""
        for _ in range(MAX_ROUNDS):
            outcome = await self._round(forward, params)
            if outcome.kind != "input_required" or forward.call.caller.era == "modern":
                return outcome
            assert isinstance(outcome.body, Raw)
            params = {**params, **await ask_all(forward.call, outcome.body)}
        raise McpError(INTERNAL_ERROR, f"{self._server} was recorded asking {MAX_ROUNDS} times")

    async def _round(self, forward: Forward, params: Params) -> Outcome:
        found, answered = self._resumed(params)
        if found is None:
            found = self._replay.find(self._server, forward.method, forward.name, params)
        call = found.last
        asked = await self._play(call, forward, answered, params)
        if asked is not None:
            return asked
        self._served.set()
        self._served = asyncio.Event()
        if self._replay.pace and call.response is not None:
            begun = call.events[-1].t if call.events else call.place.t
            await asyncio.sleep(call.response.t - begun)
        return self._outcome(call, forward)

    # What happens while a call runs

    async def _play(
        self, call: RecordedCall, forward: Forward, answered: int, params: Params
    ) -> Outcome | None:
        """Repeat notifications and questions; a modern client gets a question as a result."""
        listener = CallListener(forward.call, "", "")
        questions = 0
        at = call.place.t
        given: Raw | McpError | None = None
        for place in call.events:
            event = self._recording.event(place)
            if isinstance(event, QuestionLine):
                questions += 1
                if questions <= answered:
                    given = _answer_of(params, questions) if questions == answered else None
                elif forward.call.caller.era == "modern":
                    return _question(event, call.place.seq, questions)
                else:
                    given = await _ask(forward.call, event)
            elif isinstance(event, AnswerLine):
                if given is not None:
                    self._check_answer(event, given, call)
                given = None
            elif isinstance(event, NotificationLine) and questions >= answered:
                if self._replay.pace:
                    await asyncio.sleep(place.t - at)
                await listener.notify(event.method, event.params)
            at = place.t
        return None

    def _resumed(self, params: Params) -> tuple[RecordedCall | None, int]:
        state = bytes(params.get("requestState", b"")).decode().strip('"')
        if not state.startswith(_STATE):
            return None, 0
        seq, _, answered = state.removeprefix(_STATE).partition("-")
        call = self._recording.calls.get(int(seq)) if seq.isdecimal() and answered.isdecimal() else None
        if call is None:
            raise McpError(INVALID_PARAMS, "requestState was not issued by this recording")
        return call, int(answered)

    def _check_answer(self, recorded: AnswerLine, given: Raw | McpError, call: RecordedCall) -> None:
        if self._replay.lenient or isinstance(given, McpError) or recorded.result is UNSET:
            return
        one, other = (comparable(msgspec.json.decode(value)) for value in (recorded.result, given))
        if not fits(one, other):
            others = listed(differences(one, other))
            raise McpError(INVALID_PARAMS, f"{call.title} was recorded with another answer: {others}")

    # Lists and changes, which the gateway reads in its own name

    def _list(self, forward: Forward) -> RecordedCall:
        key = ComparableParams(self._server, forward.method, encode(forward.params)).key
        known = [call for call in self._replay.own.get(key, ()) if call.response is not None]
        later = next((call for call in known if call.place.seq > self._position), None)
        if later is None and not known:
            raise McpError(METHOD_NOT_FOUND, f"{forward.method!r} was not recorded")
        return later or known[-1]

    async def _listen(self, forward: Forward) -> NoReturn:
        """Repeat what a subscription said, each after the call that was answered before; then stay open."""
        key = ComparableParams(self._server, forward.method, encode(forward.params)).key
        call = next(iter(self._replay.own.get(key, ())), None)
        if call is None:
            raise McpError(METHOD_NOT_FOUND, f"{forward.method!r} was not recorded")
        for place in call.events:
            while place.after is not None and not place.after.served:
                await self._served.wait()
            event = self._recording.event(place)
            if isinstance(event, NotificationLine):
                self._position = place.seq
                members = decode_params(event.params, dict[str, Raw])
                await forward.call.channel.notify(event.method, with_subscription_id(members, forward.call))
        await asyncio.Event().wait()
        raise AssertionError("nobody ends it but its caller")

    # What a call is answered with

    def _outcome(self, call: RecordedCall, forward: Forward) -> Outcome:
        response = self._recording.response(call)
        if response is None or response.cancelled:
            self._fail("it had not answered when this was recorded")
        if response.left_out:
            self._fail(f"its result of {response.left_out} bytes was too long to be recorded")
        modern = forward.call.caller.era == "modern"
        if response.error is not UNSET:
            raise _error(self._server, response.error, call.method, modern)
        body = Raw(b"{}") if response.result is UNSET else response.result
        if modern and call.era == "legacy":
            line = self._recording.servers.get(self._server)
            changed = as_modern(call.method, body, Raw(b"{}") if line is None else line.info)
            assert isinstance(changed, Raw)
            body = changed
        elif not modern and call.era == "modern":
            outcome = read_outcome(self._server, body)
            if outcome.kind != "complete":
                return outcome
            body = _as_legacy(body)
        return read_outcome(self._server, body, modern=modern)

    def _fail(self, reason: str) -> NoReturn:
        raise _error(self._server, RecordedError(INTERNAL_ERROR, reason, type="NotReachedError"), "", True)


def _error(server: str, error: RecordedError, method: str, modern: bool) -> McpError:
    """As its caller got it. It is no UpstreamError: nothing has to be retried, and no breaker opened."""
    if error.type:
        return McpError(
            error.code, f"Server {server!r}: {error.message}", {"server": server, "reason": error.message}
        )
    code = error.code
    if modern and code == RESOURCE_NOT_FOUND:
        code = INVALID_PARAMS
    elif not modern and code == INVALID_PARAMS and method == "resources/read":
        data: Any = error.data
        code = RESOURCE_NOT_FOUND if isinstance(data, dict) and "uri" in data else code
    return McpError(code, error.message, error.data)


def _as_legacy(body: Raw) -> Raw:
    """Without the members that only the modern era has."""
    members = decode_params(body, dict[str, Raw])
    for name in _MODERN_MEMBERS:
        members.pop(name, None)
    if (meta := members.pop("_meta", None)) is not None:
        rest = {key: value for key, value in decode_params(meta, dict[str, Raw]).items() if key != SERVER_KEY}
        if rest:
            members["_meta"] = raw(rest)
    return raw(members)


async def _ask(call: Call, question: QuestionLine) -> Raw | McpError:
    try:
        return await call.channel.ask(question.method, question.params)
    except McpError as error:
        return error


def _question(event: QuestionLine, seq: int, number: int) -> Outcome:
    required = InputRequiredResult(
        result_type="input_required",
        input_requests={f"question-{number}": InputRequest(event.method, msgspec.json.decode(event.params))},
        request_state=f"{_STATE}{seq}-{number}",
    )
    return Outcome.of(encode(required), "input_required")


def _answer_of(params: Params, number: int) -> Raw | None:
    answers = params.get("inputResponses")
    return None if answers is None else decode_params(answers, dict[str, Raw]).get(f"question-{number}")


class _ReplayedResponse:
    def __init__(self, call: RecordedModelCall, replay: Replay) -> None:
        self._call = call
        self._replay = replay
        self._file = replay.recording.file
        head = call.head
        if head is None:
            raise self._failure()
        line = self._file.at(head.offset, head.length, ModelHeadLine)
        self.status = line.status
        self.headers: Mapping[str, str] = line.headers

    def _failure(self) -> ModelError:
        end = self._call.end
        line = None if end is None else self._file.at(end.offset, end.length, ModelEndLine)
        if line is None or not line.error_kind:
            return ModelError("cut", "the model had not answered when this was recorded")
        return ModelError(cast(ModelErrorKind, line.error_kind), line.error)

    async def chunks(self) -> AsyncIterator[bytes]:
        at = self._call.head.t if self._call.head is not None else 0.0
        for place in self._call.chunks:
            if self._replay.pace:
                await asyncio.sleep(place.t - at)
                at = place.t
            yield self._file.at(place.offset, place.length, ModelChunkLine).text.encode()
        end = self._call.end
        line = None if end is None else self._file.at(end.offset, end.length, ModelEndLine)
        if line is None or line.error_kind:
            raise self._failure()


class ReplayTransport:
    """The API of a recorded model."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def post(self, request: ModelHttpRequest) -> AbstractAsyncContextManager[ModelHttpResponse]:
        return self._post(request)

    @asynccontextmanager
    async def _post(self, request: ModelHttpRequest) -> AsyncGenerator[ModelHttpResponse, None]:
        yield _ReplayedResponse(self._replay.find_model(request), self._replay)

    async def close(self) -> None:
        """Does nothing: the recording is its owner's."""
