"""What the runner needs of a model, and what a model needs of the network.

`Model` answers one request; our own loop (`agents/loop.py`) calls it turn by turn. A backend with a loop of
its own, such as the Claude Agent SDK, is a `Backend` instead.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from ..messages import ChatMessage, TokenUsage

StopReason = Literal["end", "tool_use", "max_tokens", "refusal"]


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ModelRequest(Struct, frozen=True):
    system: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int


class ModelReply(Struct, frozen=True):
    message: ChatMessage
    stop: StopReason
    usage: TokenUsage
    usage_is_estimated: bool = False
    """The API did not say, or said something impossible, so it was estimated from the texts."""
    model: str = ""
    """The model that answered, in the API's words."""
    cost: float | None = None
    """In US dollars; None if no price is known."""


class ModelError(Exception):
    """The model did not answer. `kind` is one of `ModelErrorKind`; `hint` says what to do."""

    def __init__(
        self,
        kind: "ModelErrorKind",
        message: str,
        hint: str = "",
        status: int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.message = message
        self.hint = hint
        self.status = status
        self.retry_after = retry_after
        """Seconds after which the API wants to be asked again, if it said so."""


ModelErrorKind = Literal[
    "unreachable",
    "overloaded",
    "rate_limited",
    "unauthorized",
    "refused",
    "invalid",
    "cut",
    "too_long",
    "empty",
]


class Model(Protocol):
    """One model of one API. `respond` retries what can be retried, and raises ModelError."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str:
        """`gen_ai.provider.name` of the semantic conventions: "openai", "anthropic" and so on."""
        ...

    @property
    def context_tokens(self) -> int:
        """How much fits into one request."""
        ...

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        """`on_text` is given the text as it arrives."""
        ...

    async def close(self) -> None: ...


class ModelHttpRequest(Struct, frozen=True):
    url: str
    headers: Mapping[str, str]
    body: bytes


class ModelHttpResponse(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class ModelTransport(Protocol):
    """POSTs one request to a model's API. Recordings and replays stand in its place."""

    def post(self, request: ModelHttpRequest) -> AbstractAsyncContextManager[ModelHttpResponse]:
        """Raises ModelError: "unreachable" and "cut" are tried again, anything else is not.

        `chunks` of the response may raise the same.
        """
        ...

    async def close(self) -> None: ...
