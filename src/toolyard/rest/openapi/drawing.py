"""One tool in the making: parameters are added to it, and what could not be."""

import json
from typing import Any, cast

from .document import Node, node
from .names import parameter_name
from .schemas import short, types


class Undrawable(Exception):
    """There is no way to say this operation in a table; the message says why."""


class Drawing:
    def __init__(self, method: str, path: str) -> None:
        self.method = method
        self.path = path
        self.body = ""
        self.content_type = ""
        self.parameters: dict[str, Node] = {}
        self.notes: list[str] = []

    def add(self, called: str, plain: Node, *, place: str, required: bool, description: str = "") -> None:
        """One parameter; `place` is empty where it goes without saying."""
        name = parameter_name(called, self.parameters if place == "body" else ())
        if name in self.parameters:
            name = parameter_name(
                f"{place if place in ('query', 'header') else 'body'}_{name}", self.parameters
            )
        if place == "path":
            if called != name:
                self.path = self.path.replace(f"{{{called}}}", f"{{{name}}}")
            place = ""
        found = _parameter(plain, description)
        if "pattern" in plain and "pattern" not in node(found.get("schema")):
            self.notes.append(f"the pattern of {called!r} is left out: it is no regular expression here")
        if required:
            found.pop("default", None)
        schema = found.pop("schema", None)
        found |= _placed(place, called, name, self.path) | ({"required": True} if required else {})
        self.parameters[name] = found | ({"schema": schema} if schema else {})

    def add_file(self, called: str, *, many: bool, required: bool, description: str) -> None:
        name = parameter_name(called, self.parameters)
        found: Node = {"type": "array", "in": "file", "max_files": 10 if many else 1}
        found |= {"description": short(description, 300)} if description else {}
        found |= {"as": called} if called != name and self.body != "raw" else {}
        self.parameters[name] = found | ({"required": True} if required else {})


def _placed(place: str, called: str, name: str, path: str) -> Node:
    found: Node = {"in": place} if place else {}
    if place == "body":  # which has no name on the wire
        return found
    return found | ({"as": called} if called != name and f"{{{name}}}" not in path else {})


def _parameter(plain: Node, description: str) -> Node:
    """A schema in the words of a table: type, description and default beside it, the rest inside."""
    kinds = types(plain)
    found: Node = {} if kinds == ["string"] else {"type": kinds[0] if len(kinds) == 1 else kinds}
    said = short(description, 600) or plain.get("description", "")
    if said:
        found["description"] = said
    rest = {key: value for key, value in plain.items() if key not in ("type", "description", "default")}
    rest, sound = _sound(rest)
    if not sound:
        rest = {
            key: value for key, value in rest.items() if key in ("enum", "items", "properties", "required")
        }
        rest, sound = _sound(rest)
    if "default" in plain and sound and _fits({"type": kinds, **rest}, plain["default"]):
        found["default"] = plain["default"]
    if rest and sound:
        found["schema"] = rest
    return found


def _sound(schema: Node) -> tuple[Node, bool]:
    """Without patterns of a dialect that we do not know; and whether what is left is a JSON Schema at all."""
    if _compiles(schema):
        return schema, True
    bare = node(_without(schema, "pattern"))
    return bare, _compiles(bare)


def _compiles(schema: Node) -> bool:
    import jsonschema_rs  # 3 ms of CPU

    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return False
    return True


def _fits(schema: Node, value: Any) -> bool:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema).is_valid(json.loads(json.dumps(value)))
    except (TypeError, ValueError, jsonschema_rs.ValidationError):
        return False


def _without(value: Any, unwanted: str) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {
            key: _without(item, unwanted)
            for key, item in items
            if key != unwanted or not isinstance(item, str)
        }
    if isinstance(value, list):
        return [_without(item, unwanted) for item in cast(list[Any], value)]
    return value
