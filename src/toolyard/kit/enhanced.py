"""Tools as records, like the Claude Agent SDK's `@tool`.

The record and its handler have the same form as there, with an output schema and structured content added.
`enhanced_server` makes an ordinary kit `Server` of them, for every transport:

    @enhanced_tool("add", "Add two numbers", {"a": int, "b": int}, output_schema={…})
    async def add(args):
        return {"content": [], "structuredContent": {"sum": args["a"] + args["b"]}}

    create_sdk_server(enhanced_server("sums", "1.0.0", [add]))
"""

import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Struct

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
    Wire,
)
from .calls.content import ToolResult
from .calls.context import Context
from .schema.pydantic_types import JsonSchema
from .schema.validation import MismatchError, explain
from .server import Server

Handler = Callable[..., Awaitable[Mapping[str, Any]]]
"""`async def handler(args)` or `async def handler(args, ctx)`; returns `{"content": […], …}`."""


class EnhancedTool(Struct, frozen=True):
    """A tool's definition and its handler."""

    name: str
    description: str
    input_schema: type | JsonSchema
    handler: Handler
    annotations: Any = None
    output_schema: JsonSchema | None = None


EnhancedMcpTool = EnhancedTool


def enhanced_tool(
    name: str,
    description: str,
    input_schema: type | JsonSchema,
    annotations: Any = None,
    output_schema: JsonSchema | None = None,
) -> Callable[[Handler], EnhancedTool]:
    """Make a record of a handler.

    `input_schema` is `{name: type}` with every name required, a TypedDict, or a JSON Schema. `annotations`
    is a ToolAnnotations of `mcp` or of the SDK, or a dict. The handler takes the arguments as one dict, and
    optionally a `Context`. It returns `content`, and optionally `structuredContent` and `is_error`; raise
    ToolError for a failure that the model should read.
    """

    def record(handler: Handler) -> EnhancedTool:
        return EnhancedTool(name, description, input_schema, handler, annotations, output_schema)

    return record


def enhanced_server(
    name: str, version: str = "1.0.0", tools: Iterable[EnhancedTool] = (), *, lenient_output: bool = False
) -> Server:
    """A server with the tools of these records.

    `lenient_output` sends results that do not fit their output schema, and logs them: for production, where
    a handler's slip must not cost the answer.
    """
    server = Server(name, version=version)
    for tool in tools:
        server.add_tool(
            _function(tool.handler),
            name=tool.name,
            description=tool.description,
            input_schema=_input_schema(tool),
            output_schema=tool.output_schema,
            lenient_output=lenient_output,
            **_hints(tool.annotations),
        )
    return server


def _function(handler: Handler) -> Callable[..., Awaitable[ToolResult]]:
    """The handler as a function for the kit."""

    async def plain(args: dict[str, Any]) -> ToolResult:
        return _result(await handler(args))

    async def with_context(args: dict[str, Any], ctx: Context) -> ToolResult:
        return _result(await handler(args, ctx))

    return plain if len(inspect.signature(handler).parameters) == 1 else with_context


def _result(returned: Mapping[str, Any]) -> ToolResult:
    content: list[Any] = [_block(item) for item in returned.get("content") or ()]
    structured = returned.get("structuredContent")
    failed = bool(returned.get("is_error", False))
    if not any(isinstance(block, Text) for block in content):
        if structured is not None:
            content.append(structured)  # the kit writes it as JSON text
        elif failed:
            content.append("The tool failed and gave no reason")
    if failed or structured is None:
        return ToolResult(content=content, is_error=failed)
    return ToolResult(content=content, structured=structured)


class _Resource(Wire, tag_field="type", tag="resource"):
    resource: dict[str, Any]
    annotations: Annotations | None = None


def _block(item: Mapping[str, Any]) -> Block:
    try:
        block = msgspec.convert(item, Text | Image | Audio | ResourceLink | _Resource)
        if not isinstance(block, _Resource):
            return block
        kind = TextContents if "text" in block.resource else BlobContents
        return EmbeddedResource(msgspec.convert(block.resource, kind), block.annotations)
    except msgspec.ValidationError as error:
        raise MismatchError(f"content block {dict(item)!r:.80}: {explain(error)}") from None


# Snake case first: a class with both spellings may warn about the other.
_HINTS = {
    "title": ("title",),
    "read_only": ("read_only_hint", "readOnlyHint"),
    "destructive": ("destructive_hint", "destructiveHint"),
    "idempotent": ("idempotent_hint", "idempotentHint"),
    "open_world": ("open_world_hint", "openWorldHint"),
}
_SIZE = ("max_result_size_chars", "maxResultSizeChars")


def _hints(annotations: Any) -> dict[str, Any]:
    """The kit's options for annotations of either major version of `mcp`, as an object or a dict."""
    options = {option: _first(annotations, spellings) for option, spellings in _HINTS.items()}
    size = _first(annotations, _SIZE)
    if size is not None:  # an extension of Claude Code, which the SDK sends this way
        options["meta"] = {"anthropic/maxResultSizeChars": size}
    return options


def _first(annotations: Any, spellings: Iterable[str]) -> Any:
    if isinstance(annotations, Mapping):
        members = cast(Mapping[str, Any], annotations)
        return next((members[name] for name in spellings if name in members), None)
    return next((getattr(annotations, name) for name in spellings if hasattr(annotations, name)), None)


_SIMPLE: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


def _input_schema(tool: EnhancedTool) -> JsonSchema:
    declared = tool.input_schema
    if not isinstance(declared, dict):
        if not _is_typed_dict(declared):
            raise TypeError(f"tool {tool.name!r}: input_schema must be a dict or TypedDict, not {declared!r}")
        return _typed_dict_schema(declared)
    if isinstance(declared.get("type"), str):
        return {"properties": {}, **declared}
    for name, kind in declared.items():
        if isinstance(kind, str | dict):
            raise TypeError(f"tool {tool.name!r}: input_schema[{name!r}] must be a type, not {kind!r}")
    properties = {name: _schema(kind) for name, kind in declared.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _is_typed_dict(kind: Any) -> bool:
    # Not `typing.is_typeddict`, which does not recognize those of typing_extensions.
    return isinstance(kind, type) and hasattr(cast(Any, kind), "__required_keys__")


def _typed_dict_schema(kind: Any) -> JsonSchema:
    hints = typing.get_type_hints(kind, include_extras=True)
    properties = {name: _schema(hint) for name, hint in hints.items()}
    schema: JsonSchema = {"type": "object", "properties": properties}
    if kind.__required_keys__:
        schema["required"] = sorted(kind.__required_keys__)
    return schema


def _schema(kind: Any) -> JsonSchema:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if getattr(origin, "_name", None) in ("NotRequired", "Required", "ReadOnly"):
        return _schema(arguments[0])
    if origin is Annotated:
        texts = [extra for extra in arguments[1:] if isinstance(extra, str)]
        return _schema(arguments[0]) | ({"description": texts[0]} if texts else {})
    if origin in (typing.Union, types.UnionType):
        choices = [_schema(choice) for choice in arguments if choice is not types.NoneType]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    if origin is list and arguments:
        return {"type": "array", "items": _schema(arguments[0])}
    if _is_typed_dict(kind):
        return _typed_dict_schema(kind)
    return {"type": _SIMPLE.get(origin or kind, "string")}
