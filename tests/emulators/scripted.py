"""What a scripted model does in one turn, in words that every emulated API of models understands.

    script = [ToolUse("add", {"a": 1}), Failing(529, {"retry-after": "7"}), Cut("The"), "The sum is 3."]

A script is a list of turns, or a function of the request that returns one: so two agents that share an API
are told apart by their system prompts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class ToolUse:
    """The model asks for one tool call. Arguments that are a text are sent as they are: models err."""

    name: str
    input: JsonObject | str = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Thinking:
    text: str
    signature: str = "c2lnbmVk"


Block = str | ToolUse | Thinking
Blocks = Block | Sequence[Block]


@dataclass(frozen=True)
class Said:
    """Blocks with a reason for their end, and a usage other than the true one."""

    blocks: Blocks = ()
    reason: str = ""
    usage: JsonObject | None = None
    """In the API's own words; an empty one is left out of the reply."""


@dataclass(frozen=True)
class Failing:
    """The API answers with a status that is not 200."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    message: str = "no"
    kind: str = ""


@dataclass(frozen=True)
class Hanging:
    """The API takes the request and says nothing, until its client is gone."""


@dataclass(frozen=True)
class Garbage:
    """A body that is not what the API promises."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True)
class Refusing:
    """The model declines, in the field that there is for it."""

    words: str = "I cannot help with that."


@dataclass(frozen=True)
class Cut:
    """The connection is closed after these blocks, before the reply's end."""

    blocks: Blocks = ()


@dataclass(frozen=True)
class Silent:
    """Nothing comes after these blocks, until the client is gone."""

    blocks: Blocks = ()


@dataclass(frozen=True)
class Erring:
    """An error takes the place of the rest of the stream."""

    blocks: Blocks = ()
    kind: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class Events:
    """The events of a stream as they are, for servers that deviate."""

    events: Sequence[JsonObject]
    is_done: bool = True


Turn = Blocks | Said | Failing | Hanging | Garbage | Refusing | Cut | Silent | Erring | Events


def listed(blocks: Blocks) -> list[Block]:
    return [blocks] if isinstance(blocks, str | ToolUse | Thinking) else list(blocks)


def arguments_text(use: ToolUse, dump: Any) -> str:
    return use.input if isinstance(use.input, str) else dump(use.input)


def halves(text: str) -> list[str]:
    """Two pieces, as a stream brings them."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def tokens_of(data: bytes | str) -> int:
    """Four bytes a token: not exact, and the same for everybody who is compared."""
    size = len(data.encode() if isinstance(data, str) else data)
    return max(1, -(-size // 4))
