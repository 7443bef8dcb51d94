"""What a client is given and gives back: results, pages, and the questions that a server puts.

Definitions, content and messages are those of `toolyard.wire.types`. What a server sends is read generously:
an item that cannot be understood is left out of its list, and every result keeps its own words in `raw`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from ..upstream.connection import UpstreamConnection
from ..wire.types import (
    Annotations,
    Audio,
    BlobContents,
    Block,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    TextContents,
)
from ..wire.versions import Era

T = TypeVar("T")
Json = dict[str, Any]
Timeout = float | None | EllipsisType
"""Seconds; None: no limit; `...`: that of the client."""


class Requester(Protocol):
    """What tasks and subscriptions need of a client."""

    @property
    def era(self) -> Era: ...

    @property
    def connection(self) -> UpstreamConnection: ...

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        tasks: bool = False,
        on_message: Callable[[str, Json], None] | None = None,
    ) -> Json: ...

    async def answer(self, result: Json) -> Json: ...


class Other(Struct, frozen=True):
    """A piece of content of a kind that we do not know."""

    raw: Json

    @property
    def type(self) -> str:
        return str(self.raw.get("type", ""))


Content = Block | Other


class ListPage(Struct, Generic[T], frozen=True):
    """One page of a list; `next_cursor` asks for the one after it, and is None on the last."""

    items: list[T]
    next_cursor: str | None = None


class ServerInfo(Struct, frozen=True, rename="camel"):
    """What the server says of itself."""

    name: str = ""
    version: str = ""
    title: str | None = None
    description: str | None = None
    website_url: str | None = None


class CallResult(Struct, frozen=True):
    """What a tool returned."""

    content: list[Content]
    structured: Any = None
    """`structuredContent`, where the tool has any."""
    is_error: bool = False
    meta: Json = {}
    raw: Json = {}

    @property
    def text(self) -> str:
        """The text of all its blocks, one after the other."""
        return "\n".join(block.text for block in self.content if hasattr(block, "text"))  # type: ignore[union-attr]

    @property
    def structured_content(self) -> Any:
        """The same as `structured`, as the protocol spells it."""
        return self.structured

    @property
    def data(self) -> Any:
        """The value that the tool returned: structured content without its wrapper, else the text."""
        if self.structured is None:
            return self.text if self.content else None
        whole = object_of(self.structured)
        return whole["result"] if whole.keys() == {"result"} else self.structured


class ResourceResult(Struct, frozen=True):
    """What a resource holds."""

    contents: list[TextContents | BlobContents]
    meta: Json = {}
    raw: Json = {}

    @property
    def text(self) -> str:
        """The text of all its parts, one after the other."""
        return "\n".join(part.text for part in self.contents if isinstance(part, TextContents))


class PromptMessage(Struct, frozen=True):
    role: str
    content: Content


class PromptResult(Struct, frozen=True):
    messages: list[PromptMessage]
    description: str | None = None
    meta: Json = {}
    raw: Json = {}


class Completions(Struct, frozen=True):
    """Values that an argument may have; `total` is how many there are, where the server counts them."""

    values: list[str]
    total: int | None = None
    has_more: bool = False


class Progress(Struct, frozen=True):
    """How far a call has come."""

    progress: float
    total: float | None = None
    message: str | None = None


class LogMessage(Struct, frozen=True):
    """A line of the server's log."""

    level: str
    data: Any = None
    logger: str | None = None


class Change(Struct, frozen=True):
    """Something is not what it was: a list, a resource, or a task."""

    kind: Literal["tools", "prompts", "resources", "resource", "task"]
    uri: str | None = None
    """Of the resource that was updated."""
    task: Json | None = None
    """The task as it stands now."""


# Questions of the server


class ElicitResult(Struct, frozen=True, omit_defaults=True):
    action: Literal["accept", "decline", "cancel"]
    content: Json | None = None


class Elicitation(Struct, frozen=True):
    """A form to fill (`schema`) or a page to open (`url`). Return what one of its three methods makes."""

    message: str
    schema: Json | None = None
    url: str | None = None
    id: str | None = None
    """A legacy link's name, which `notifications/elicitation/complete` refers to."""
    raw: Json = {}

    def accept(self, content: Mapping[str, Any] | None = None, **fields: Any) -> ElicitResult:
        """What the user filled in; fields that are left out get the form's defaults."""
        if self.schema is None:
            return ElicitResult("accept")
        return ElicitResult("accept", {**self.defaults, **(content or {}), **fields})

    def decline(self) -> ElicitResult:
        """The user said no."""
        return ElicitResult("decline")

    def cancel(self) -> ElicitResult:
        """The user did not answer."""
        return ElicitResult("cancel")

    @property
    def defaults(self) -> Json:
        properties: Any = (self.schema or {}).get("properties")
        if not isinstance(properties, dict):
            return {}
        known = {name: object_of(prop) for name, prop in cast(Json, properties).items()}
        return {name: prop["default"] for name, prop in known.items() if "default" in prop}


class SampleResult(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a model said: a text, or content blocks in their wire form."""

    content: Any
    model: str
    stop_reason: str | None = "endTurn"

    def to_wire(self) -> Json:
        content: Any = (
            {"type": "text", "text": self.content} if isinstance(self.content, str) else self.content
        )
        found = {"role": "assistant", "content": content, "model": self.model}
        return found if self.stop_reason is None else {**found, "stopReason": self.stop_reason}


class SampleRequest(Struct, frozen=True):
    """What a server asks the client's model."""

    messages: list[Json]
    max_tokens: int = 1000
    system: str | None = None
    raw: Json = {}
    """All of it: temperature, stop sequences, model preferences, tools."""


Root = str | Path


def root_of(root: Root) -> Json:
    """A folder in its wire form: a path becomes a file URI with its name."""
    if isinstance(root, Path):
        folder = root.expanduser().absolute()
        return {"uri": folder.as_uri(), "name": folder.name or str(folder)}
    return {"uri": root}


# Reading


def object_of(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def read_as(kind: type[T], value: Any) -> T | None:
    """None when it is none."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError, ValueError):
        return None


_BLOCKS: dict[Any, type[Any]] = {"text": Text, "image": Image, "audio": Audio, "resource_link": ResourceLink}


def content_of(value: Any) -> Content:
    raw = object_of(value)
    kind = raw.get("type")
    block: Block | None = None
    if kind == "resource":
        held = contents_of(raw.get("resource"))
        if held is not None:
            meta = read_as(dict[str, Any], raw.get("_meta"))
            block = EmbeddedResource(held, read_as(Annotations, raw.get("annotations")), meta)
    elif isinstance(kind, str) and kind in _BLOCKS:
        block = read_as(_BLOCKS[kind], raw)
    return Other(raw) if block is None else block


def contents_of(value: Any) -> TextContents | BlobContents | None:
    """What a resource holds: text, or bytes."""
    return read_as(BlobContents if "blob" in object_of(value) else TextContents, value)


def tool_result(raw: Json) -> CallResult:
    content = [content_of(block) for block in list_of(raw.get("content"))]
    return CallResult(
        content, raw.get("structuredContent"), raw.get("isError") is True, object_of(raw.get("_meta")), raw
    )


def elicitation(params: Json) -> Elicitation:
    by_link = params.get("mode") == "url"
    return Elicitation(
        str(params.get("message", "")),
        None if by_link else object_of(params.get("requestedSchema")),
        str(params.get("url", "")) if by_link else None,
        read_as(str, params.get("elicitationId")),
        params,
    )


def sample_request(params: Json) -> SampleRequest:
    return SampleRequest(
        [object_of(message) for message in list_of(params.get("messages"))],
        read_as(int, params.get("maxTokens")) or 1000,
        read_as(str, params.get("systemPrompt")),
        params,
    )


def number(value: Any) -> float | None:
    """A number as a float; None when it is none, or none that a float can hold."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def resource_result(raw: Json) -> ResourceResult:
    parts = [contents_of(part) for part in list_of(raw.get("contents"))]
    return ResourceResult([part for part in parts if part is not None], object_of(raw.get("_meta")), raw)


def prompt_result(raw: Json) -> PromptResult:
    found = [object_of(message) for message in list_of(raw.get("messages"))]
    messages = [PromptMessage(str(one.get("role", "user")), content_of(one.get("content"))) for one in found]
    return PromptResult(messages, read_as(str, raw.get("description")), object_of(raw.get("_meta")), raw)


def read_item(kind: type[T], item: Json) -> T | None:
    """A definition, without the optional members that are not of the right form; None when it is none."""
    read = read_as(kind, item)
    if read is not None:
        return read
    fields = msgspec.structs.fields(cast(Any, kind))
    usable = {field.encode_name: item.get(field.encode_name) for field in fields if field.required}
    for name in item.keys() - usable.keys():
        if read_as(kind, {**usable, name: item[name]}) is not None:
            usable[name] = item[name]
    return read_as(kind, usable)
