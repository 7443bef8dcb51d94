"""How a dialect's tool is put together: words and schema as data, arguments decoded before anything is done.

Owns what every dialect answers to arguments that do not fit: what is wrong, and a call that is right.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from ...kit.content import ToolError
from ...kit.schema import explain
from ...sessions.errors import ProfileError
from ...state.errors import StateError
from ...wire.call import Call
from ...wire.errors import McpError, MissingCapability
from ..meta.desk import Desk
from ..meta.tools import MetaTool

T = TypeVar("T", bound=Struct)
Does = Callable[[Desk, Call, T], Awaitable[Any]]

READS: dict[str, Any] = {"readOnlyHint": True}
WRITES: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": False}
DELETES: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True}
ACTS: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
"""It calls any tool at all."""


class Words(Struct, frozen=True, kw_only=True):
    """What a client is told of a tool."""

    description: str
    properties: dict[str, Any]
    required: tuple[str, ...] = ()
    example: dict[str, Any]
    """Arguments that are right."""
    hints: dict[str, Any] = field(default_factory=lambda: READS)

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = list(self.required)
        return schema


class BadCall(ToolError):
    """The arguments of a meta tool are not what it takes."""

    def __init__(self, tool: str, fault: str, example: dict[str, Any]) -> None:
        right = msgspec.json.encode(example).decode()
        super().__init__(f"{tool}: {fault.rstrip('.')}. A right call: {tool}({right})")


def meta_tool(
    name: str,
    words: Words,
    takes: type[T],
    answer: Does[T],
    refuse: Callable[[str], Any],
) -> MetaTool:
    """`refuse` gives a failure the dialect's shape."""

    async def decoded(desk: Desk, call: Call, arguments: dict[str, Any]) -> Any:
        try:
            return await answer(desk, call, decode(name, words, takes, arguments))
        except MissingCapability:  # for the client to read, not for the model
            raise
        except (ToolError, McpError, StateError, ProfileError) as error:
            return refuse(str(error))

    return MetaTool(
        name=name,
        description=words.description,
        input_schema=words.schema(),
        annotations=words.hints,
        answer=decoded,
    )


def decode(name: str, words: Words, takes: type[T], arguments: dict[str, Any]) -> T:
    """Members that nobody asked for are let be, and null means left out: models send both."""
    given = {
        key: _meant(words.properties.get(key), value) for key, value in arguments.items() if value is not None
    }
    try:
        return msgspec.convert(given, takes, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadCall(name, explain(error), words.example) from None


def _meant(property: dict[str, Any] | None, value: Any) -> Any:
    """Models sometimes write a list or an object as JSON in a string."""
    if not isinstance(value, str) or property is None or property.get("type") not in ("array", "object"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
