"""Output schemas as they are listed: each tool's own, or what may take the place of a big result.

A client that validates holds every result against the listed schema, so the schema has to say the truth.
"""

from typing import Any, cast

import msgspec

from .shaping import SHAPED_SCHEMA

_MARK = b'"outputSchema"'
_DATA = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose values are data, whatever they look like."""
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Keywords whose values are schemas under names that somebody chose."""
_UNMOVABLE = frozenset(("$recursiveRef", "$dynamicRef"))


class _CannotMove(Exception):
    """It refers to its root in a way that no other place can stand for."""


def widened(rest: bytes) -> bytes:
    """A listed tool's JSON, its first brace and name missing, with its output schema made wider."""
    if _MARK not in rest:
        return rest
    try:
        members = msgspec.json.decode(b"{" + rest, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return rest
    schema = members.get("outputSchema")
    if not isinstance(schema, dict):
        return rest
    members["outputSchema"] = either(cast(dict[str, Any], schema))
    return msgspec.json.encode(members)[1:]


def either(schema: dict[str, Any]) -> dict[str, Any]:
    """Valid for what was valid, and for what takes its place."""
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    around = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    # Legacy clients refuse a schema that does not say at once that it is of an object.
    kind = {"type": "object"} if inner.get("type") == "object" else {}
    try:
        return {**around, **kind, "anyOf": [_moved(inner), SHAPED_SCHEMA]}
    except _CannotMove:
        return {**around, **kind}


def _moved(schema: Any) -> Any:
    """With its references beginning at a root that is now another."""
    if isinstance(schema, list):
        return [_moved(item) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    members = cast(dict[str, Any], schema)
    if not str(members.get("$id", "#")).startswith("#"):
        return members  # references inside it begin at itself
    return {key: _moved_member(key, value) for key, value in members.items()}


def _moved_member(key: str, value: Any) -> Any:
    if key in _UNMOVABLE:
        raise _CannotMove
    if key == "$ref" and isinstance(value, str):
        return f"#/anyOf/0{value[1:]}" if value == "#" or value.startswith("#/") else value
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, dict):
        return {name: _moved(item) for name, item in cast(dict[str, Any], value).items()}
    return _moved(value)
