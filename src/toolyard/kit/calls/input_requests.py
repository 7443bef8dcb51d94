"""Questions to the client: elicitation forms and links, sampling, roots.

Each kind of request knows its wire form, the capability it needs and how to read the answer.
`LegacyRequester` sends it on the stream of the call. `RoundTripRequester` ends the call as `input_required`;
the client sends the call again with the answers, and with the state so far sealed in `requestState`. Tasks
have their own requester (`kit.calls.tasks`).
"""

import asyncio
import inspect
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, field

from ...languages import said
from ...wire.call import Call, Caller
from ...wire.errors import InvalidParams, MissingCapability
from ...wire.seal import BrokenSeal, Sealer, digest
from ...wire.types import InputRequest, InputRequiredResult, RoundTrip, Wire
from ..schema.annotations import read_type
from ..schema.pydantic_types import JsonSchema
from ..schema.validation import (
    MismatchError,
    SchemaValidator,
    TypedValidator,
    Validator,
    explain,
    flat_schema_of,
    schema_of,
)
from .content import ToolError

T = TypeVar("T")


class Answer(Struct, Generic[T], frozen=True):
    """The answer to a form or a link."""

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"

    @property
    def data(self) -> T | None:
        """The content, as FastMCP spells it."""
        return self.content


class Sampled(Wire):
    """The answer of the client's model."""

    role: str
    content: Any
    model: str = ""
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of all content blocks."""
        content: Any = self.content
        blocks: list[Any] = content if isinstance(content, list) else [content]  # pyright: ignore[reportUnknownVariableType]
        return "".join(_text_of(block) for block in blocks)


def _text_of(block: Any) -> str:
    return str(cast(dict[str, Any], block).get("text", "")) if isinstance(block, dict) else ""


class Root(Wire):
    uri: str
    name: str | None = None


class _Elicited(Struct):
    action: Literal["accept", "decline", "cancel"]
    content: Raw = Raw(b"{}")


class _Roots(Struct):
    roots: list[Root]


class InputRequestKind(Protocol):
    """One kind of question to the client."""

    kind: str

    def request(self, era: str) -> InputRequest: ...

    def require(self, caller: Caller) -> None:
        """Raise MissingCapability unless the client declared what this needs."""
        ...

    def read(self, answer: Raw) -> Any:
        """The typed answer; raises MismatchError if it is malformed."""
        ...


def _read(answer: Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MismatchError(explain(error)) from None


class Elicit:
    """A form: `schema` is a flat JSON Schema, or a struct, dataclass, TypedDict or model of primitives.

    A primitive, or a list of strings to choose from, is a form with the one field `value`.
    """

    kind = "elicit"

    def __init__(self, message: str, schema: JsonSchema | type[Any] | list[str]) -> None:
        self.message = message
        self._validate: Validator
        self._is_value = False
        if isinstance(schema, dict):
            self.schema = schema
            self._validate = SchemaValidator(schema)
        else:
            kind: Any = Literal[tuple(schema)] if isinstance(schema, list) else read_type(schema)
            self._is_value = schema_of(kind).get("type") != "object"
            if self._is_value:
                kind = msgspec.defstruct("Form", [("value", kind)])
            self.schema = flat_schema_of(kind)
            self._validate = TypedValidator(kind, self.schema)

    def request(self, era: str) -> InputRequest:
        params = {"mode": "form", "message": self.message, "requestedSchema": self.schema}
        return InputRequest("elicitation/create", params)

    def require(self, caller: Caller) -> None:
        declared = caller.capabilities.get("elicitation")
        # An empty declaration means forms only, as before links existed.
        if not isinstance(declared, dict) or (declared and "form" not in declared):
            raise MissingCapability({"elicitation": {"form": {}} if declared else {}})

    def read(self, answer: Raw) -> Answer[Any]:
        elicited = _read(answer, _Elicited)
        if elicited.action != "accept":
            return Answer(elicited.action)
        content = self._validate(elicited.content)
        return Answer("accept", content.value if self._is_value else content)


class ElicitUrl:
    """A page for the user to open: a payment, a sign-in. The answer is only whether they agreed."""

    kind = "link"

    def __init__(self, message: str, url: str) -> None:
        self.message = message
        self.url = url

    def request(self, era: str) -> InputRequest:
        params = {"mode": "url", "message": self.message, "url": self.url}
        if era == "legacy":
            params["elicitationId"] = secrets.token_urlsafe(12)
        return InputRequest("elicitation/create", params)

    def require(self, caller: Caller) -> None:
        declared = caller.capabilities.get("elicitation")
        if not isinstance(declared, dict) or "url" not in declared:
            raise MissingCapability({"elicitation": {"url": {}}})

    def read(self, answer: Raw) -> Answer[None]:
        return Answer(_read(answer, _Elicited).action)


class Sample:
    """A completion by the client's model. `messages` is a prompt, or messages in their wire form."""

    kind = "sample"

    def __init__(
        self,
        messages: str | list[dict[str, Any]],
        max_tokens: int = 1000,
        system: str | None = None,
        **more: Any,
    ) -> None:
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        self.params: dict[str, Any] = {"messages": messages, "maxTokens": max_tokens, **_camel(more)}
        if system is not None:
            self.params["systemPrompt"] = system

    def request(self, era: str) -> InputRequest:
        return InputRequest("sampling/createMessage", self.params)

    def require(self, caller: Caller) -> None:
        declared = caller.capabilities.get("sampling")
        if not isinstance(declared, dict):
            raise MissingCapability({"sampling": {}})
        if "tools" in self.params and "tools" not in declared:
            raise MissingCapability({"sampling": {"tools": {}}})

    def read(self, answer: Raw) -> Sampled:
        return _read(answer, Sampled)


def _camel(options: dict[str, Any]) -> dict[str, Any]:
    def rename(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(part.capitalize() for part in rest)

    return {rename(name): value for name, value in options.items() if value is not None}


class Roots:
    """The folders the client has opened."""

    kind = "roots"

    def request(self, era: str) -> InputRequest:
        return InputRequest("roots/list", {})

    def require(self, caller: Caller) -> None:
        if not isinstance(caller.capabilities.get("roots"), dict):
            raise MissingCapability({"roots": {}})

    def read(self, answer: Raw) -> list[Root]:
        return _read(answer, _Roots).roots


class InputRequester(Protocol):
    """Sends questions to the client and returns the answers, in one era."""

    async def ask(self, questions: dict[str, InputRequestKind]) -> dict[str, Any]: ...

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        """The value of `make()`, computed once for a call and all its rounds."""
        ...

    async def detach(self) -> None:
        """Continue the call as a task, if the client supports tasks."""
        ...


class CallNotes(Struct):
    """The state of a call so far: answers by key, and remembered values."""

    answers: dict[str, Raw] = field(default_factory=dict[str, Raw])
    values: dict[str, Any] = field(default_factory=dict[str, Any])


async def call_and_await(make: Callable[[], Any | Awaitable[Any]]) -> Any:
    value: Any = make()
    return await value if inspect.isawaitable(value) else value


class LegacyRequester:
    """Sends questions on the stream of a legacy call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._values: dict[str, Any] = {}

    async def ask(self, questions: dict[str, InputRequestKind]) -> dict[str, Any]:
        for question in questions.values():
            try:
                question.require(self._call.caller)
            except MissingCapability as error:
                # Legacy clients do not know the code -32021.
                raise ToolError(error.message) from None
        tasks = [asyncio.create_task(self._send(key, question)) for key, question in questions.items()]
        try:
            return dict(zip(questions, await asyncio.gather(*tasks), strict=True))
        finally:
            # If one fails, the others are not needed.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, key: str, question: InputRequestKind) -> Any:
        request = question.request("legacy")
        raw = await self._call.channel.ask(request.method, request.params)
        try:
            return question.read(raw)
        except MismatchError as error:
            raise ToolError(
                said(
                    f"The client's answer to {key!r} cannot be used: {error}",
                    f"A resposta do cliente a {key!r} não pode ser usada: {error}",
                )
            ) from None

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        if key not in self._values:
            self._values[key] = await call_and_await(make)
        return self._values[key]

    async def detach(self) -> None:
        """A legacy client waits for its answer."""


_PURPOSE = "round"


class _RoundTripState(Struct, array_like=True):
    principal: str
    request: str
    expires: int
    notes: CallNotes


class InputRequired(BaseException):
    """Ends a run that needs answers. Not an Exception, so that a tool does not catch it by accident."""

    def __init__(self, result: InputRequiredResult, owner: "RoundTripRequester") -> None:
        super().__init__("input required")
        self.result = result
        self.owner = owner


class Detached(BaseException):
    """Ends an inline run that continues as a task, with its state so far."""

    def __init__(self, notes: CallNotes, owner: "RoundTripRequester") -> None:
        super().__init__("detached")
        self.notes = notes
        self.owner = owner


async def await_signals(running: Awaitable[T]) -> T:
    """Await an author's function; raise a signal from inside an exception group by itself.

    Several questions asked at the same time become one round.
    """
    try:
        return await running
    except BaseExceptionGroup as group:
        signals = list(signals_in(group))
        if not signals:
            raise
        pending = [signal for signal in signals if isinstance(signal, InputRequired)]
        if not pending:
            raise signals[0] from None
        for other in pending[:-1]:
            pending[-1].result.input_requests |= other.result.input_requests
        raise pending[-1] from None


def signals_in(error: BaseException) -> Iterator[InputRequired | Detached]:
    """The signals in an exception or exception group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast(BaseExceptionGroup[BaseException], error).exceptions:
            yield from signals_in(inner)
    elif isinstance(error, InputRequired | Detached):
        yield error


class RoundTripRequester:
    """Asks by ending a modern request as `input_required`."""

    def __init__(
        self, call: Call, trip: RoundTrip, what: bytes, sealer: Sealer, ttl: float, may_detach: bool
    ) -> None:
        self._call = call
        self._sealer = sealer
        self._ttl = ttl
        self._fingerprint = digest(call.method.encode(), what)
        self._responses = {} if trip.input_responses is UNSET else trip.input_responses
        self._notes = CallNotes() if trip.request_state is UNSET else self._open(trip.request_state)
        self._may_detach = may_detach

    def _open(self, token: str) -> CallNotes:
        try:
            state = msgspec.json.decode(self._sealer.open(token, _PURPOSE), type=_RoundTripState)
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams("requestState was not issued by this server, or was altered") from None
        if state.principal != self._call.caller.principal.binding or state.request != self._fingerprint:
            raise InvalidParams("requestState belongs to another request")
        if state.expires < time.time():
            raise InvalidParams("requestState has expired; start again without it")
        return state.notes

    def _seal(self) -> str:
        state = _RoundTripState(
            self._call.caller.principal.binding, self._fingerprint, int(time.time() + self._ttl), self._notes
        )
        return self._sealer.seal(msgspec.json.encode(state), _PURPOSE)

    async def ask(self, questions: dict[str, InputRequestKind]) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        missing: dict[str, InputRequestKind] = {}
        for key, question in questions.items():
            question.require(self._call.caller)
            raw = self._notes.answers.get(key) or self._responses.get(key)
            if raw is None:
                missing[key] = question
                continue
            try:
                answers[key] = question.read(raw)
            except MismatchError as error:
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
            self._notes.values[key] = await call_and_await(make)
        return self._notes.values[key]

    async def detach(self) -> None:
        if self._may_detach:
            raise Detached(self._notes, self)


def fingerprint(name: str, arguments: Raw) -> bytes:
    """Name and arguments of a request in canonical form, whatever the order of keys."""
    try:
        plain = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidParams("'arguments' must be a JSON object") from None
    return name.encode() + b"\0" + msgspec.json.encode(plain, order="sorted")
