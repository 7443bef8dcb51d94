"""Tools in the forms that models' APIs take: names, schemas, arguments and ids."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from ..messages import ChatMessage, ToolUsePart
from .base import ModelRequest

JsonObject = dict[str, Any]

NAME_LENGTH = 64
MAX_DEPTH = 100
"""Of arguments. What is read near Python's limit of recursion cannot be written further down its stack."""
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_COMBINED = ("anyOf", "oneOf", "allOf")


class ToolNames:
    """Maps names to `[a-zA-Z0-9_-]{1,64}`, all that the APIs take, and back."""

    def __init__(self, request: ModelRequest) -> None:
        used = (part.name for message in request.messages for part in tool_uses(message))
        names = dict.fromkeys([*(tool.name for tool in request.tools), *used])
        self._original = {fit_name(name): name for name in names}

    def original(self, name: str) -> str:
        """Unchanged if the model made it up; the loop answers that there is no such tool."""
        return self._original.get(name, name)


def fit_name(name: str, length: int = NAME_LENGTH) -> str:
    """Depends on the name alone, so that it is the same in every turn and prompt caches hold."""
    fit = _UNFIT.sub("_", name)
    if fit == name and 0 < len(name) <= length:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{fit[: length - 9]}_{digest}"


def tool_uses(message: ChatMessage) -> Iterable[ToolUsePart]:
    return (part for part in message.parts if isinstance(part, ToolUsePart))


def fit_schema(schema: JsonObject) -> JsonObject:
    """An object at the top without alternatives, which the APIs refuse there; their properties are kept."""
    combined = [key for key in _COMBINED if key in schema]
    if not combined and schema.get("type") == "object" and "properties" in schema:
        return schema
    properties: JsonObject = {}
    for key in combined:
        for branch in schema[key] if isinstance(schema[key], list) else ():
            found: Any = cast(JsonObject, branch).get("properties") if isinstance(branch, dict) else None
            properties |= cast(JsonObject, found) if isinstance(found, dict) else {}
    own: Any = schema.get("properties")
    properties |= cast(JsonObject, own) if isinstance(own, dict) else {}
    rest = {key: value for key, value in schema.items() if key not in combined}
    return {**rest, "type": "object", "properties": properties}


def read_arguments(text: str) -> tuple[JsonObject, str]:
    """The arguments, and their text if they are no object or nested too deeply.

    Some models encode them twice or omit them.
    """
    if not text.strip():
        return {}, ""
    found: Any = text
    for _ in range(2):
        try:
            found = msgspec.json.decode(found)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {}, text
        if isinstance(found, dict):
            arguments = cast(JsonObject, found)
            return ({}, text) if _is_deeper(arguments, MAX_DEPTH) else (arguments, "")
        if found is None:
            return {}, ""
        if not isinstance(found, str):
            break
    return {}, text


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = cast("JsonObject", value).values() if isinstance(value, dict) else cast("list[object]", value)
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)


def sent_arguments(use: ToolUsePart) -> JsonObject:
    """What goes back to the API, which takes objects only."""
    return {"malformed_arguments": use.malformed} if use.malformed else use.arguments


class ToolUseIds:
    """Makes ids where the API leaves them out or repeats them; the same ones for the same conversation."""

    def __init__(self, request: ModelRequest) -> None:
        self._taken = {part.id for message in request.messages for part in tool_uses(message)}
        self._count = len(self._taken)

    def claim(self, id: str) -> str:
        while not id or id in self._taken:
            self._count += 1
            id = f"call_{self._count}"
        self._taken.add(id)
        return id
