"""Builds a dialect's meta tools: texts and schema as data, arguments decoded first, replies as JSON.

Owns what every dialect answers to invalid arguments: the fault, and a valid example.
"""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, field

from ...kit.calls.content import ToolError
from ...kit.schema.validation import explain
from ...sessions.profiles import ProfileError
from ...state.store import StateError
from ...wire.call import Call, thread_of
from ...wire.errors import McpError, MissingCapability
from ...wire.text import clean
from ...wire.types import CallToolResult, Text
from ..meta.service import MetaToolService
from ..meta.tools import MetaTool

T = TypeVar("T", bound=Struct)
DialectHandler = Callable[[MetaToolService, Call, T], Awaitable[Any]]

READS: dict[str, Any] = {"readOnlyHint": True}
WRITES: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": False}
DELETES: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True}
ACTS: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
"""It calls any tool at all."""


class MetaToolTexts(Struct, frozen=True, kw_only=True):
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


class BadCallError(ToolError):
    """The arguments of a meta tool are not what it takes."""

    def __init__(self, tool: str, fault: str, example: dict[str, Any]) -> None:
        right = msgspec.json.encode(example).decode()
        super().__init__(f"{tool}: {fault.rstrip('.')}. A right call: {tool}({right})")


def meta_tool(
    name: str,
    words: MetaToolTexts,
    takes: type[T],
    answer: DialectHandler[T],
    refuse: Callable[[str], Any],
) -> MetaTool:
    """`refuse` gives a failure the dialect's shape."""

    async def decoded(desk: MetaToolService, call: Call, arguments: dict[str, Any]) -> Any:
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


def decode(name: str, words: MetaToolTexts, takes: type[T], arguments: dict[str, Any]) -> T:
    """Members that nobody asked for are let be, and null means left out: models send both."""
    given = {
        key: _meant(words.properties.get(key), value) for key, value in arguments.items() if value is not None
    }
    try:
        return msgspec.convert(given, takes, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadCallError(name, explain(error), words.example) from None


def _meant(property: dict[str, Any] | None, value: Any) -> Any:
    """Models sometimes write a list or an object as JSON in a string."""
    if not isinstance(value, str) or property is None or property.get("type") not in ("array", "object"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def json_reply(data: Any, *, failed: bool = False) -> CallToolResult:
    """As text, which every client shows its model, and structured where it is an object."""
    body = msgspec.json.encode(data)
    result = CallToolResult(content=[Text(clean(body.decode()))], is_error=failed)
    if isinstance(data, dict):
        result.structured_content = Raw(body)
    return result


class ComposioReply(Struct, frozen=True):
    """What a tool said, in the three words that Composio uses for it."""

    data: dict[str, Any]
    error: str | None = None

    @property
    def successful(self) -> bool:
        return self.error is None

    def shown(self) -> dict[str, Any]:
        return {"data": self.data, "error": self.error, "successful": self.successful}


def outcome_of(result: dict[str, Any]) -> ComposioReply:
    """Of a CallToolResult, decoded."""
    data = _data(result)
    if not result.get("isError"):
        return ComposioReply(data)
    said = _texts(result)
    return ComposioReply(
        data if result.get("structuredContent") else {}, "\n".join(said) or "The tool failed"
    )


def is_plain(result: dict[str, Any]) -> bool:
    """Neither a question back nor a task: those are passed on as they are."""
    return result.get("resultType", "complete") == "complete"


def _data(result: dict[str, Any]) -> dict[str, Any]:
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return cast(dict[str, Any], structured)
    texts = _texts(result)
    blocks = _blocks(result)
    if len(blocks) != len(texts):  # images and the like: only they themselves can stand for them
        return {"content": blocks}
    if len(texts) == 1:
        try:
            value = msgspec.json.decode(texts[0])
        except msgspec.DecodeError:
            return {"text": texts[0]}
        return cast(dict[str, Any], value) if isinstance(value, dict) else {"result": value}
    return {"text": "\n".join(texts)} if texts else {}


def _texts(result: dict[str, Any]) -> list[str]:
    found = [cast(dict[str, Any], block) for block in _blocks(result) if isinstance(block, dict)]
    return [str(block.get("text", "")) for block in found if block.get("type") == "text"]


def _blocks(result: dict[str, Any]) -> list[Any]:
    """A stranger's words, which may be anything."""
    content = result.get("content")
    return cast(list[Any], content) if isinstance(content, list) else []


SESSION: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "generate_id": {"type": "boolean"}},
    "description": "{generate_id: true} to begin, {id} to go on",
}
SESSION_ID: dict[str, Any] = {"type": "string", "description": "The session id of the search"}


def session_named(call: Call, session: Any) -> str | None:
    """`{id}`, `{session_id}` or the id itself. None: the conversation's own.

    `{generate_id: true}` means that one too; only a caller whose conversation has no name is given a new one.
    """
    if isinstance(session, dict):
        members = cast(dict[str, Any], session)
        session = members.get("id") or members.get("session_id")
        if not session and members.get("generate_id") is True and not thread_of(call):
            return f"generated-{uuid.uuid4()}"
    return session if isinstance(session, str) and session else None
