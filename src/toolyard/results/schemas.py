"""Output schemas as they are listed: each tool's own, or what may take the place of a big result.

A client that validates holds every result against the listed schema, so the schema has to say the truth.
"""

from typing import Any, cast

import msgspec

from .shaping import SHAPED_SCHEMA

_MARK = b'"outputSchema"'


def widened(rest: bytes) -> bytes:
    """A listed tool's JSON, its first brace and name missing, with its output schema made wider."""
    if _MARK not in rest:
        return rest
    try:
        members = msgspec.json.decode(b"{" + rest, type=dict[str, Any])
    except msgspec.DecodeError:
        return rest
    schema = members.get("outputSchema")
    if not isinstance(schema, dict):
        return rest
    members["outputSchema"] = either(cast(dict[str, Any], schema))
    return msgspec.json.encode(members)[1:]


def either(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    # With an id of its own its references stay inside it; else they begin at a root that is now another.
    own = inner if "$id" in inner else _moved(inner)
    found: dict[str, Any] = {"type": "object", "anyOf": [own, SHAPED_SCHEMA]}
    return {"$schema": schema["$schema"], **found} if "$schema" in schema else found


def _moved(value: Any) -> Any:
    if isinstance(value, list):
        return [_moved(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    members = cast(dict[str, Any], value)
    return {
        key: f"#/anyOf/0{item[1:]}"
        if key == "$ref" and isinstance(item, str) and (item == "#" or item.startswith("#/"))
        else _moved(item)
        for key, item in members.items()
    }
