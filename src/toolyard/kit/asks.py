"""Questions a tool puts to the client: forms, links, completions and roots.

Each question knows its wire form, which capability it needs, and how to read its answer. How it
travels (a request on a legacy stream, a round trip, an update of a task) is the business of whoever
implements `Asker`.
"""

import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, field

from ..wire.call import Caller
from ..wire.errors import MissingCapability
from ..wire.types import InputRequest, Wire
from .annotations import read_type
from .schema import JsonSchema, Mismatch, SchemaValidator, TypedValidator, Validator, explain, flat_schema_of

T = TypeVar("T")


class Answer(Struct, Generic[T], frozen=True):
    """What came back from a form or a link."""

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Sampled(Wire):
    """What the client's model said."""

    role: str
    content: Any
    model: str = ""
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of all its blocks."""
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


class Ask(Protocol):
    """One question."""

    kind: str

    def request(self, era: str) -> InputRequest: ...

    def require(self, caller: Caller) -> None:
        """Raise MissingCapability when the client did not declare what this needs."""
        ...

    def read(self, answer: Raw) -> Any:
        """The typed answer; Mismatch when it is not one."""
        ...


def _read(answer: Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Mismatch(explain(error)) from None


class Elicit:
    """A form: `schema` is a flat JSON Schema, or a struct, dataclass, TypedDict or model of primitives."""

    kind = "elicit"

    def __init__(self, message: str, schema: JsonSchema | type[Any]) -> None:
        self.message = message
        self._validate: Validator
        if isinstance(schema, dict):
            self.schema = schema
            self._validate = SchemaValidator(schema)
        else:
            kind = read_type(schema)
            self.schema = flat_schema_of(kind)
            self._validate = TypedValidator(kind, self.schema)

    def request(self, era: str) -> InputRequest:
        params = {"mode": "form", "message": self.message, "requestedSchema": self.schema}
        return InputRequest("elicitation/create", params)

    def require(self, caller: Caller) -> None:
        declared = caller.capabilities.get("elicitation")
        # An empty declaration means forms only; that is how it was before links existed.
        if not isinstance(declared, dict) or (declared and "form" not in declared):
            raise MissingCapability({"elicitation": {"form": {}} if declared else {}})

    def read(self, answer: Raw) -> Answer[Any]:
        elicited = _read(answer, _Elicited)
        if elicited.action != "accept":
            return Answer(elicited.action)
        return Answer("accept", self._validate(elicited.content))


class ElicitUrl:
    """A page the user should open: a payment, a sign-in. The answer says only whether they agreed."""

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


class Asker(Protocol):
    """Carries questions to the client and answers back, in the way of one era."""

    async def ask(self, questions: dict[str, Ask]) -> dict[str, Any]: ...

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        """The value of `make()`, computed once per call however many rounds it takes."""
        ...

    async def detach(self) -> None:
        """From here on the call is a task, where the client can follow one."""
        ...


class Notes(Struct):
    """What a call has learnt so far: answers by key, and remembered values."""

    answers: dict[str, Raw] = field(default_factory=dict[str, Raw])
    values: dict[str, Any] = field(default_factory=dict[str, Any])


async def made(make: Callable[[], Any | Awaitable[Any]]) -> Any:
    value: Any = make()
    return await value if inspect.isawaitable(value) else value
