"""A conversation with a model, in one form for every API: messages, their parts, and what a reply cost."""

from typing import Any, Literal

from msgspec import Struct


class TextPart(Struct, frozen=True, tag="text"):
    text: str


class ImagePart(Struct, frozen=True, tag="image"):
    mime_type: str
    data: str
    """Base64."""


class ToolUsePart(Struct, frozen=True, tag="tool_use"):
    """A tool that the model calls. `malformed` is set and `arguments` empty if they are not an object."""

    id: str
    name: str
    arguments: dict[str, Any]
    malformed: str = ""
    """The arguments as the model sent them, if they could not be read."""


class ToolResultPart(Struct, frozen=True, tag="tool_result"):
    id: str
    parts: tuple[TextPart | ImagePart, ...]
    is_error: bool = False


class ReasoningPart(Struct, frozen=True, tag="reasoning"):
    """What the model thought; `signature` must go back unchanged to APIs that sign it."""

    text: str
    signature: str = ""


Part = TextPart | ImagePart | ToolUsePart | ToolResultPart | ReasoningPart


class ChatMessage(Struct, frozen=True):
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class TokenUsage(Struct, frozen=True):
    """Tokens of one reply or of many. `input` includes those read from and written to the prompt cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )
