"""Calls that a model writes into its text: some small models know a call's form, and not where it goes.

A reply counts as calls if it is nothing else: JSON objects with the name of a tool that was offered and
arguments that fit its schema, bare, in fenced blocks or in `<tool_call>` tags. What quotes one is a text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import structs

from ..messages import ChatMessage, TextPart, ToolUsePart
from .base import Model, ModelReply, ModelRequest, ToolSpec
from .tools import JsonObject, ToolUseIds, fit_name, read_arguments, tool_uses

_KNOWN = ("qwen25coder",)
_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.S)
_FENCED = re.compile(r"```\w*[ \t]*\n(.*?)\n?[ \t]*```", re.S)
_KEYS = frozenset({"id", "type", "name", "tool", "function", "arguments", "parameters"})
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def writes_calls(model: str) -> bool:
    """Whether a model of this name is known for it."""
    plain = re.sub(r"[^a-z0-9]", "", model.lower())
    return any(name in plain for name in _KNOWN)


class TextCallsModel:
    """A model whose text may be calls."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def context_tokens(self) -> int:
        return self._model.context_tokens

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        """Shows the text when it is whole: before, nobody knows what it is."""
        reply = await self._model.respond(request)
        text = "".join(part.text for part in reply.message.parts if isinstance(part, TextPart))
        calls = [] if any(tool_uses(reply.message)) else calls_in(text, request.tools)
        if not calls:
            if on_text is not None and text:
                on_text(text)
            return reply
        ids = ToolUseIds(request)
        others = [part for part in reply.message.parts if not isinstance(part, TextPart)]
        uses = [ToolUsePart(ids.claim(""), name, arguments) for name, arguments in calls]
        message = ChatMessage(reply.message.role, (*others, *uses))
        return structs.replace(reply, message=message, stop="tool_use")

    async def close(self) -> None:
        await self._model.close()


def calls_in(text: str, tools: tuple[ToolSpec, ...]) -> list[tuple[str, JsonObject]]:
    """The calls that a text is, by the names of the tools; empty if it is a text."""
    known = {name: tool for tool in tools for name in (tool.name, fit_name(tool.name))}
    found: list[tuple[str, JsonObject]] = []
    for piece in _pieces(text.strip()):
        objects = _objects(piece.strip())
        calls = [call for one in objects if (call := _call(one, known)) is not None]
        if not objects or len(calls) < len(objects):
            return []
        found += calls
    return found


def _pieces(text: str) -> Iterator[str]:
    """The parts that may be calls, if there is nothing besides; before tags there may be lines of text."""
    if (at := text.find("<tool_call>")) >= 0:
        tagged = text[at:]
        if text.count("<tool_call>") > text.count("</tool_call>"):  # the last one ends with the reply
            tagged += "</tool_call>"
        if (not at or text[at - 1] == "\n") and not _TAGGED.sub("", tagged).strip():
            yield from _TAGGED.findall(tagged)
    elif text.startswith("```"):
        if not _FENCED.sub("", text).strip():
            yield from _FENCED.findall(text)
    else:
        yield text


def _objects(text: str) -> list[JsonObject]:
    """One object, or a list of them. Some models double the braces, as in a template."""
    if not text.startswith(("{", "[")):
        return []
    for form in (text, text[1:-1], text.replace("{{", "{").replace("}}", "}")):
        try:
            value: Any = msgspec.json.decode(form)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        return (
            [cast(JsonObject, one) for one in values] if all(isinstance(one, dict) for one in values) else []
        )
    return []


def _call(value: JsonObject, known: Mapping[str, ToolSpec]) -> tuple[str, JsonObject] | None:
    """`{"name": …, "arguments": {…}}`, or as OpenAI writes a call."""
    if not _KEYS.issuperset(value):
        return None
    function: Any = value.get("function")
    inner = cast(JsonObject, function) if isinstance(function, dict) else value
    name: Any = inner.get("name") or inner.get("tool") or inner.get("function")
    given: Any = inner.get("arguments", inner.get("parameters"))
    if not isinstance(name, str) or name not in known:
        return None
    arguments, malformed = read_arguments(
        given if isinstance(given, str) else msgspec.json.encode(given).decode()
    )
    tool = known[name]
    return None if malformed or not _fits(arguments, tool.input_schema) else (tool.name, arguments)


def _fits(arguments: JsonObject, schema: JsonObject) -> bool:
    """By names and by the types of members; whatever else is wrong, the tool says itself."""
    properties: Any = schema.get("properties")
    members = cast(JsonObject, properties) if isinstance(properties, dict) else {}
    required: Any = schema.get("required")
    if not set(cast("list[str]", required) if isinstance(required, list) else ()).issubset(arguments):
        return False
    if members and not set(members).issuperset(arguments):
        return False
    return all(_is_of(value, members.get(name)) for name, value in arguments.items())


def _is_of(value: object, schema: object) -> bool:
    kinds: Any = cast(JsonObject, schema).get("type") if isinstance(schema, dict) else None
    names = [kinds] if isinstance(kinds, str) else cast("list[Any]", kinds) if isinstance(kinds, list) else []
    if not names:
        return True
    if isinstance(value, bool):  # a number, to Python
        return "boolean" in names
    return any(isinstance(value, _TYPES.get(str(name), object)) for name in names)
