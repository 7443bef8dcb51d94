"""Meta tools and dialects, and helpers that build them: decoding of arguments, replies as JSON.

Owns the answer of every dialect to invalid arguments: the fault, and a valid example.
"""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import msgspec
from msgspec import Raw, Struct, field

from ...catalogue.catalogue import CatalogueEntry
from ...composio import failure, without_failure
from ...kit.calls.content import ToolError, error_result
from ...kit.schema.validation import explain
from ...languages import said
from ...sessions.profile_errors import ProfileError
from ...state.store import StateError
from ...wire.call import Call, thread_of
from ...wire.errors import McpError, MissingCapability
from ...wire.text import clean
from ...wire.types import CallToolResult, Text
from ..meta.service import MetaToolService

T = TypeVar("T", bound=Struct)
DialectHandler = Callable[[MetaToolService, Call, T], Awaitable[Any]]
MetaToolHandler = Callable[[MetaToolService, Call, dict[str, Any]], Awaitable[Any]]
"""Takes unchecked arguments; returns a CallToolResult, or an upstream's own result as it is.

`kit.content.ToolError` becomes an `isError` result, and so do UpstreamError and InvalidParams.
"""


class MetaTool(Struct, kw_only=True):
    name: str
    description: str
    input_schema: dict[str, Any]
    answer: MetaToolHandler
    title: str = ""
    is_counted: bool = False
    """Whether limits count it, because it searches or asks servers. Calls that it makes count anyway."""
    annotations: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    meta: dict[str, Any] = {}
    refuses_in_words: bool = False
    """Whether an error is words alone, without Composio's form of them."""
    is_listed: bool = True
    """Whether `tools/list` has it; one that is not listed is called by name, or through `call_tool`."""

    def shown(self) -> dict[str, Any]:
        """Return it in the form of `tools/list`."""
        shown: dict[str, Any] = {"name": self.name, "description": self.description}
        if self.title:
            shown["title"] = self.title
        shown["inputSchema"] = self.input_schema
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.annotations:
            shown["annotations"] = self.annotations
        if self.meta:
            shown["_meta"] = self.meta
        return shown


class Dialect(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def search_tool(self) -> str:
        """The name of the tool that finds others."""
        ...

    def tools(self) -> Sequence[MetaTool]: ...


@runtime_checkable
class RenamingDialect(Protocol):
    """A dialect that has its own names for some tools, besides their full names."""

    async def listed(self, service: MetaToolService, call: Call) -> Sequence[dict[str, Any]]:
        """Return those tools in the form of `tools/list`, under the dialect's names."""
        ...

    async def full_name(self, service: MetaToolService, call: Call, name: str) -> str | None:
        """Return the full name of a tool; None for an unknown name, ToolError for one not usable here."""
        ...


@runtime_checkable
class StrictDialect(Protocol):
    """A dialect whose tools are found or enabled before they are called by name."""

    async def check(self, service: MetaToolService, call: Call, tool: CatalogueEntry) -> None:
        """Raise ToolError if the conversation neither found the tool nor has it enabled."""
        ...


READS: dict[str, Any] = {"readOnlyHint": True}
WRITES: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": False}
DELETES: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True}
ACTS: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
"""For a tool that can call any other."""


class MetaToolTexts(Struct, frozen=True, kw_only=True):
    """The description and schema of a meta tool."""

    description: str
    properties: dict[str, Any]
    required: tuple[str, ...] = ()
    example: dict[str, Any]
    """Valid arguments."""
    hints: dict[str, Any] = field(default_factory=lambda: READS)

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = list(self.required)
        return schema


class BadCallError(ToolError):
    """The arguments of a meta tool are invalid."""

    def __init__(self, tool: str, fault: str, example: dict[str, Any]) -> None:
        valid = msgspec.json.encode(example).decode()
        fault = fault.rstrip(".")
        super().__init__(
            said(
                f"{tool}: {fault}. Valid example: {tool}({valid})",
                f"{tool}: {fault}. Exemplo válido: {tool}({valid})",
            )
        )


def meta_tool(
    name: str,
    texts: MetaToolTexts,
    takes: type[T],
    answer: DialectHandler[T],
    refuse: Callable[[str], Any],
) -> MetaTool:
    """Build a meta tool; `refuse` turns an error message into the dialect's reply."""

    async def handler(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> Any:
        try:
            return await answer(service, call, decode(name, texts, takes, arguments))
        except MissingCapability:  # meant for the client, not for the model
            raise
        except (ToolError, McpError, StateError, ProfileError) as error:
            return refuse(str(error))

    return MetaTool(
        name=name,
        description=texts.description,
        input_schema=texts.schema(),
        annotations=texts.hints,
        answer=handler,
        is_counted=texts.hints is not ACTS,
    )


def decode(name: str, texts: MetaToolTexts, takes: type[T], arguments: dict[str, Any]) -> T:
    """Decode arguments. Ignores unknown members and treats null as missing: models send both."""
    given = {
        key: _decode_text(texts.properties.get(key), value)
        for key, value in arguments.items()
        if value is not None
    }
    try:
        return msgspec.convert(given, takes, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadCallError(name, explain(error), texts.example) from None


def _decode_text(property: dict[str, Any] | None, value: Any) -> Any:
    """Decode a list or an object that a model wrote as JSON in a string."""
    if not isinstance(value, str) or property is None or property.get("type") not in ("array", "object"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def refusal(reason: str) -> CallToolResult:
    """Build the answer to a call that failed before a server had it: words, and Composio's form of them."""
    result = error_result(reason)
    result.structured_content = Raw(msgspec.json.encode(failure(clean(reason))))
    return result


def json_reply(data: Any, *, failed: bool = False) -> CallToolResult:
    """Build a result with the data as text, and as structured content if it is an object."""
    body = msgspec.json.encode(data)
    result = CallToolResult(content=[Text(clean(body.decode()))], is_error=failed)
    if isinstance(data, dict):
        result.structured_content = Raw(body)
    return result


class ComposioReply(Struct, frozen=True):
    """A tool's result in Composio's form: `data`, `error`, `successful`."""

    data: dict[str, Any]
    error: str | None = None

    @property
    def successful(self) -> bool:
        return self.error is None

    def shown(self) -> dict[str, Any]:
        return {"data": self.data, "error": self.error, "successful": self.successful}


def reply_of(result: dict[str, Any]) -> ComposioReply:
    """Convert a decoded CallToolResult."""
    data = _data(result)
    if not result.get("isError"):
        return ComposioReply(data)
    own = without_failure(data) if result.get("structuredContent") else {}
    return ComposioReply(own, "\n".join(_texts(result)) or said("The tool failed", "A ferramenta falhou"))


def _data(result: dict[str, Any]) -> dict[str, Any]:
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return cast(dict[str, Any], structured)
    texts = _texts(result)
    blocks = _blocks(result)
    if len(blocks) != len(texts):  # images and the like have no other form
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
    """Return the content blocks; an upstream may have sent anything in their place."""
    content = result.get("content")
    return cast(list[Any], content) if isinstance(content, list) else []


SESSION: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "generate_id": {"type": "boolean"}},
    "description": "{generate_id: true} to begin, {id} to go on",
}
SESSION_ID: dict[str, Any] = {"type": "string", "description": "The session id of the search"}


def session_named(call: Call, session: Any) -> str | None:
    """Read `{id}`, `{session_id}` or the id itself; None means the conversation's own session.

    `{generate_id: true}` means that one too, except for a caller without a conversation, who gets a new one.
    """
    if isinstance(session, dict):
        members = cast(dict[str, Any], session)
        session = members.get("id") or members.get("session_id")
        if not session and members.get("generate_id") is True and not thread_of(call):
            return f"generated-{uuid.uuid4()}"
    return session if isinstance(session, str) and session else None
