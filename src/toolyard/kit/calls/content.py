"""Turns the value that a tool returns into an MCP result: content blocks, structured content, errors."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ...languages import said
from ...wire.text import clean
from ...wire.types import BLOCKS, Block, CallToolResult, Meta, Text
from ..schema import pydantic_types
from ..schema.validation import MismatchError, Output, is_foreign, to_json
from .files import FileResult


class ToolError(Exception):
    """A failure for the model to read: it becomes the text of an `isError` result."""


class ToolResult(Struct):
    """An explicit result: content beside structured data, or `_meta`.

    `content` is one value, or a list of what a tool may return; `structured_content` is another name for
    `structured`.
    """

    content: Any = None
    structured_content: Any = None
    meta: Meta | None = None
    is_error: bool = False
    structured: Any = UNSET

    def __post_init__(self) -> None:
        if self.structured is UNSET and self.structured_content is not None:
            self.structured = self.structured_content


COUNTS = "toolyard/counts"
"""The key in `_meta` of a result whose numbers may be shown where its content may not: in a trace."""


def counts_meta(**counts: int) -> Meta:
    return {COUNTS: counts}


UNWRAPPABLE: Meta = {"fastmcp": {"wrap_result": True}}
"""Tells clients of FastMCP that the value is under `result`."""


def _is_content(item: Any) -> bool:
    return isinstance(item, (*BLOCKS, FileResult)) or is_foreign(item)


def _foreign(value: Any) -> CallToolResult:
    if type(value).__name__ == "CallToolResult":
        return to_wire(value, CallToolResult, "a result")
    return CallToolResult(content=[_block(value)])


def to_wire(value: Any, kind: Any, what: str) -> Any:
    """A value of the protocol, whether it is ours, the SDK's or a dict in the protocol's own spelling."""
    dump = getattr(value, "model_dump", None)
    members = value if dump is None else dump(mode="json", by_alias=True, exclude_none=True)
    try:
        return msgspec.convert(members, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"{value!r} is not {what}: {error}") from None


def error_result(text: str) -> CallToolResult:
    return CallToolResult(content=[Text(clean(text))], is_error=True)


def to_result(value: Any, output: Output) -> CallToolResult:
    """Make a result; raises MismatchError if the value does not fit the output schema."""
    if isinstance(value, ToolResult):
        return _explicit(value, output)
    if output.validator is not None:
        return _structured(value, output, [])
    if pydantic_types.can_encode(value):
        if is_foreign(value):
            return _foreign(value)
        value = pydantic_types.encode(value)
    if isinstance(value, str):
        return CallToolResult(content=[Text(clean(value))])
    if value is None:
        return CallToolResult(content=[])
    if isinstance(value, (*BLOCKS, FileResult)):
        return CallToolResult(content=[_block(value)])
    if isinstance(value, list | tuple):
        items = cast(Iterable[Any], value)
        if output.bare and not any(_is_content(item) for item in items):
            return CallToolResult(content=[Text(_json(value).decode())])
        return CallToolResult(content=[_block(item) for item in items])
    if _is_object(value):
        return _structured(value, output, [])
    return CallToolResult(content=[Text(_json(value).decode())])


def _explicit(value: ToolResult, output: Output) -> CallToolResult:
    given: Any = value.content
    items = cast(list[Any], given) if isinstance(given, list | tuple) else [] if given is None else [given]
    content = [_block(item) for item in items]
    if value.is_error or value.structured is UNSET:
        if output.validator is not None and not value.is_error:
            raise MismatchError("a ToolResult without `structured`, though the tool has an output schema")
        result = CallToolResult(content=content, is_error=value.is_error)
    else:
        result = _structured(value.structured, output, content)
    if value.meta is not None:
        result.meta = value.meta
    return result


def _structured(value: Any, output: Output, content: list[Block]) -> CallToolResult:
    raw = _json(value, output.encode)
    if output.validator is not None:
        output.validator(raw)
    if not any(isinstance(block, Text) for block in content):
        # The same JSON as text, for clients without structured content.
        text = clean(value) if output.bare and isinstance(value, str) else output.text(raw)
        content = [*content, Text(text)] if text is not None else content
    return CallToolResult(
        content=content,
        structured_content=Raw(raw),
        meta=UNWRAPPABLE if output.bare and output.wrapped else UNSET,
    )


def _block(item: Any) -> Block:
    if isinstance(item, Text):
        item.text = clean(item.text)
    if isinstance(item, BLOCKS):
        return item
    if isinstance(item, FileResult):
        return item.block()
    if pydantic_types.can_encode(item) and is_foreign(item):
        return to_wire(item, Block, "content")
    return Text(clean(item) if isinstance(item, str) else _json(item).decode())


def _is_object(value: Any) -> bool:
    return isinstance(value, dict | Struct) or hasattr(value, "__dataclass_fields__")


def _json(value: Any, encode: Callable[[Any], bytes] = to_json) -> bytes:
    try:
        if isinstance(value, Raw):  # JSON from the author: decoding checks it and puts it in one line
            value = msgspec.json.decode(value)
        return encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise MismatchError(f"the value cannot be written as JSON: {error}") from None


def plain_result(result: Any) -> Any:
    """What a tool's result says, as plain data; raises ToolError if it says that the tool failed.

    `result` is decoded JSON. Structured content goes first; a text that is JSON is decoded.
    """
    members = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    blocks: list[dict[str, Any]] = members.get("content") or []
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    if members.get("isError"):
        raise ToolError("\n".join(texts) or said("the tool failed", "a ferramenta falhou"))
    if members.get("structuredContent") is not None:
        return members["structuredContent"]
    if len(texts) < len(blocks):
        return blocks
    text = "\n".join(texts)
    if text[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return text
