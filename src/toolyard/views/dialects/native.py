"""Our own dialect: `search_tools`, `describe_tools`, `call_tool`, `call_tools`, `manage_connections`.

Their definitions are all that a model reads before it begins, so they are short: a test counts their
tokens.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Raw, Struct

from ...kit.calls.content import ToolError
from ...kit.schema.validation import explain
from ...search.documents import ToolQuery
from ...wire.call import Call
from ...wire.types import CallToolResult, Text
from ..meta.search import MAX_LIMIT
from ..meta.service import MAX_ITEMS, MAX_QUERIES, MAX_USE_CASE, MetaToolService
from ..meta.tools import BatchItem, BatchResult, MetaTool

_SESSION = {"type": "string", "description": "session.id of an earlier answer, to go on with it"}
_TOOL = {"type": "string", "description": "Full name, as search_tools gave it"}
_ARGUMENTS = {"type": "object", "description": "As in the tool's input_schema"}
_FOUND = {
    "type": "object",
    "properties": {
        "tool": {"type": "string"},
        "server": {"type": "string"},
        "description": {"type": "string"},
        "score": {"type": "number"},
        "recommended": {"type": "boolean"},
        "connected": {"type": "boolean"},
        "auth": {"type": "string"},
        "input_schema": {"type": "object"},
    },
    "required": ["tool", "server", "score"],
}
_READS = {"readOnlyHint": True, "openWorldHint": False}


def native_definitions(queries: int, items: int, limit: int) -> dict[str, dict[str, Any]]:
    """By name: description, schemas and hints. The numbers are the most that may be given."""
    return {
        "search_tools": {
            "description": (
                "Find tools for what you want to do, among all that are available. Begin here. One query for "
                "each step of the task, in plain words. A result without input_schema: describe_tools; one "
                "that is not connected: manage_connections. Then call_tool with its full name."
            ),
            "input_schema": _object(
                {
                    "queries": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": queries,
                        "items": _object(
                            {
                                "use_case": {
                                    "type": "string",
                                    "description": 'What is to be done, e.g. "send an email to a customer"',
                                },
                                "known_fields": {
                                    "type": "string",
                                    "description": 'What you know already: "name:value, …"',
                                },
                                "category": {"type": "string"},
                                "server": {"type": "string", "description": "Only tools of this server"},
                                "limit": {"type": "integer", "minimum": 1, "maximum": limit},
                            },
                            "use_case",
                        ),
                    },
                    "session": _SESSION,
                },
                "queries",
            ),
            "output_schema": _object(
                {
                    "results": {
                        "type": "array",
                        "items": _object(
                            {
                                "query": {"type": "object"},
                                "results": {"type": "array", "items": _FOUND},
                                "total_results": {"type": "integer"},
                            },
                            "query",
                            "results",
                            "total_results",
                        ),
                    },
                    "session": {"type": "object"},
                    "source": {"enum": ["composio", "local", "composio+local", "fallback"]},
                    "missing": {"type": "array", "items": {"type": "object"}},
                },
                "results",
                "session",
                "source",
                "missing",
            ),
            "annotations": _READS,
        },
        "describe_tools": {
            "description": "What tools do in full and the schemas of their arguments, before you call them.",
            "input_schema": _object(
                {
                    "tools": {"type": "array", "minItems": 1, "maxItems": items, "items": _TOOL},
                    "session": _SESSION,
                },
                "tools",
            ),
            "annotations": _READS,
        },
        "call_tool": {
            "description": "Call one tool. The arguments are checked first; the result is the tool's own.",
            "input_schema": _object({"tool": _TOOL, "arguments": _ARGUMENTS, "session": _SESSION}, "tool"),
        },
        "call_tools": {
            "description": (
                "Call several tools at once, when none needs another's result. Results come in the same "
                "order; one that fails harms no other. A tool that asks the user is called by itself."
            ),
            "input_schema": _object(
                {
                    "calls": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": items,
                        "items": _object({"tool": _TOOL, "arguments": _ARGUMENTS}, "tool"),
                    },
                    "parallel": {"type": "integer", "minimum": 1, "description": "At most so many at a time"},
                    "seconds": {"type": "number", "description": "What is not done by then is cancelled"},
                    "session": _SESSION,
                },
                "calls",
            ),
        },
        "manage_connections": {
            "description": (
                "Whether servers and apps are connected. For an app that is not: link gives an address for "
                "the user to authorise it at, wait returns when they have."
            ),
            "input_schema": _object(
                {
                    "action": {"enum": ["status", "link", "wait"], "default": "status"},
                    "names": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Servers or apps; all without it",
                    },
                    "seconds": {
                        "type": "number",
                        "default": 60,
                        "description": "How long to wait, up to 600",
                    },
                    "session": _SESSION,
                }
            ),
        },
    }


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return found


T = TypeVar("T")
MAX_WORD = 200
ToolName = Annotated[str, Meta(min_length=1, max_length=512)]


class _Query(Struct):
    use_case: Annotated[str, Meta(pattern=r"\S", max_length=MAX_USE_CASE)]
    # The answer repeats them.
    known_fields: Annotated[str, Meta(max_length=MAX_USE_CASE)] = ""
    category: Annotated[str, Meta(max_length=MAX_WORD)] = ""
    server: Annotated[str, Meta(max_length=MAX_WORD)] = ""
    limit: Annotated[int, Meta(ge=1)] | None = None


class _Search(Struct):
    queries: Annotated[list[_Query], Meta(min_length=1, max_length=MAX_QUERIES)]
    session: str | None = None


class _Describe(Struct):
    tools: Annotated[list[ToolName], Meta(min_length=1, max_length=MAX_ITEMS)]
    session: str | None = None


class _Call(Struct):
    tool: ToolName
    arguments: dict[str, Any] = {}
    session: str | None = None


class _Calls(Struct):
    calls: Annotated[list[BatchItem], Meta(min_length=1, max_length=MAX_ITEMS)]
    parallel: Annotated[int, Meta(ge=1)] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    session: str | None = None


class _Connections(Struct):
    action: Literal["status", "link", "wait"] = "status"
    names: Annotated[list[ToolName], Meta(max_length=MAX_ITEMS)] = []
    seconds: Annotated[float, Meta(ge=0)] = 60.0
    session: str | None = None


async def _search(desk: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    given = _read(arguments, _Search, {"queries": [{"use_case": "send an email to a customer"}]})
    queries = [
        ToolQuery(one.use_case, one.known_fields, one.category, one.server, one.limit)
        for one in given.queries
    ]
    return _structured((await desk.search(call, queries, given.session)).shown())


async def _describe(desk: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    given = _read(arguments, _Describe, {"tools": ["mcp__mail__send_email"]})
    described = await desk.describe(call, given.tools, given.session)
    result = _structured(described.shown())
    result.is_error = not described.found
    return result


async def _call(desk: MetaToolService, call: Call, arguments: dict[str, Any]) -> Any:
    try:
        given = msgspec.convert(arguments, _Call)
    except (msgspec.ValidationError, RecursionError):
        example = {"tool": "mcp__mail__send_email", "arguments": {"to": "ann@example.org"}}
        given = _read(arguments, _Call, example)
    return await desk.call_tool(call, given.tool, given.arguments, given.session)


async def _call_many(desk: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    example = {"calls": [{"tool": "mcp__mail__send_email", "arguments": {"to": "ann@example.org"}}]}
    given = _read(arguments, _Calls, example)
    done = await desk.call_tools(
        call, given.calls, parallel=given.parallel, seconds=given.seconds, session=given.session
    )
    return _together(done)


async def _connections(desk: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    given = _read(arguments, _Connections, {"action": "link", "names": ["gmail"]})
    if given.action == "link" and not given.names:
        raise ToolError('"names" is missing: say which app is to be linked')
    found = await desk.connections(
        call, given.names, given.action, seconds=given.seconds, session=given.session
    )
    shown = [
        {
            "server": one.server,
            "status": one.status,
            **{
                key: value
                for key, value in (
                    ("toolkit", one.toolkit),
                    ("link", one.link),
                    ("account", one.account),
                    ("message", one.message),
                    ("required", list(one.required)),
                )
                if value
            },
        }
        for one in found
    ]
    return _structured({"connections": shown})


class NativeDialect:
    name = "native"

    def tools(self) -> Sequence[MetaTool]:
        answers = {
            "search_tools": _search,
            "describe_tools": _describe,
            "call_tool": _call,
            "call_tools": _call_many,
            "manage_connections": _connections,
        }
        words = native_definitions(MAX_QUERIES, MAX_ITEMS, MAX_LIMIT)
        return [MetaTool(name=name, answer=answer, **words[name]) for name, answer in answers.items()]


def _read(arguments: dict[str, Any], kind: type[T], example: dict[str, Any]) -> T:
    """Arguments as they are meant, or an error that shows right ones."""
    try:
        return msgspec.convert(_unwrapped(arguments), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        right = msgspec.json.encode(example).decode()
        raise ToolError(f"{explain(error)}. A right one: {right}") from None


def _unwrapped(arguments: dict[str, Any]) -> dict[str, Any]:
    """Models sometimes write the inner arguments as JSON in a string."""
    inner = arguments.get("arguments")
    if not isinstance(inner, str):
        return arguments
    try:
        return {**arguments, "arguments": msgspec.json.decode(inner, type=dict[str, Any])}
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _structured(value: dict[str, Any], media: Sequence[Any] = ()) -> CallToolResult:
    """Twice: for clients that know structured content, and as the same JSON in a text."""
    raw = msgspec.json.encode(value)
    return CallToolResult(content=[Text(raw.decode()), *media], structured_content=Raw(raw))


def _together(done: Sequence[BatchResult]) -> CallToolResult:
    """Pictures and sounds stay content of their own, behind the text; in the text they would be noise."""
    results: list[dict[str, Any]] = []
    media: list[Any] = []
    for at, one in enumerate(done):
        shown: dict[str, Any] = {"tool": one.tool, "ok": one.ok}
        if one.result is not None and one.ok:
            shown["result"] = _slim(one.result, at, media)
        if one.error is not None:
            shown["error"] = one.error
        if one.late:
            shown["late"] = True
        results.append(shown)
    succeeded = sum(one.ok for one in done)
    value = {"results": results, "succeeded": succeeded, "failed": len(done) - succeeded}
    result = _structured(value, media)
    result.is_error = succeeded == 0
    return result


def _slim(result: dict[str, Any], at: int, media: list[Any]) -> dict[str, Any]:
    """A result without what is said elsewhere: the twin of its structured part, and pictures."""
    slim = dict(result)
    kept: list[dict[str, Any]] = []
    for block in cast(list[dict[str, Any]], result.get("content") or []):
        if _is_media(block):
            media += [Text(f"results[{at}]:"), Raw(msgspec.json.encode(block))]
            kept.append({"type": block["type"], "mimeType": block["mimeType"], "text": "below"})
        elif not _repeats_structured(block, result.get("structuredContent")):
            kept.append(block)
    slim["content"] = kept
    if not kept and "structuredContent" in slim:
        del slim["content"]
    return slim


def _is_media(block: dict[str, Any]) -> bool:
    """A whole one: a client that cannot read one block may refuse all of them."""
    whole = isinstance(block.get("data"), str) and isinstance(block.get("mimeType"), str)
    return whole and block.get("type") in ("image", "audio")


def _repeats_structured(block: dict[str, Any], structured: Any) -> bool:
    if structured is None or block.get("type") != "text":
        return False
    try:
        return msgspec.json.decode(str(block.get("text"))) == structured
    except (msgspec.DecodeError, RecursionError):
        return False
