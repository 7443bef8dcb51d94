"""The JSON Schemas of a tool, written from its row of the table."""

from typing import Any

from msgspec import UNSET

from .plan import Plan
from .table import Paging, Parameter

Schema = dict[str, Any]
LINK_POSITION = "cursor"
"""What the model passes for the next part where the API gives links."""

_FILE: Schema = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "The file's bytes as base64"},
        "filename": {"type": "string", "description": "Its name with extension, without folders"},
    },
    "required": ["content", "filename"],
}


def input_schema(plan: Plan) -> Schema:
    properties = {name: _property(parameter) for name, parameter in plan.parameters.items()}
    if plan.paging is not None and not plan.tool.all_pages:
        # A tool may describe them itself, under another name where no client takes the API's.
        own = {parameter.name or name for name, parameter in plan.parameters.items()}
        properties |= {name: schema for name, schema in _paging(plan.paging).items() if name not in own}
    required = [name for name, parameter in plan.parameters.items() if parameter.required]
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _property(parameter: Parameter) -> Schema:
    kind = list(parameter.type) if isinstance(parameter.type, tuple) else parameter.type
    schema: Schema = {"type": kind}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.place == "file" and kind in ("string", "array"):
        schema |= {"type": "array", "items": _FILE, "maxItems": parameter.max_files}
    if parameter.default is not UNSET:
        schema["default"] = parameter.default
    return schema | parameter.schema


def position_name(paging: Paging) -> str:
    return LINK_POSITION if paging.kind == "link" else paging.position


def _paging(paging: Paging) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    name = position_name(paging)
    if paging.kind in ("cursor", "link"):
        found[name] = {
            "type": "string",
            "description": "The `next` of the part before; leave out for the first",
        }
    else:
        what = "Page number" if paging.kind == "page" else "Items to skip"
        found[name] = {
            "type": "integer",
            "minimum": paging.first,
            "default": paging.first,
            "description": what,
        }
    if paging.size:
        limits = {"minimum": 1, "maximum": paging.most, "default": paging.default}
        found[paging.size] = {"type": "integer", **limits, "description": "Items in one part"}
    return found


def output_schema(plan: Plan) -> Schema:
    """As the table says; else what every result without one looks like (`results`)."""
    if plan.tool.output:
        return plan.tool.output
    if plan.tool.also:
        names = ["current", *plan.tool.also]
        return {
            "type": "object",
            "properties": {name: {"type": "object"} for name in names},
            "required": ["current"],
        }
    return part_schema(plan)


def part_schema(plan: Plan) -> Schema:
    properties: Schema = {}
    if plan.paging is not None or plan.tool.result.items:
        properties |= {"items": {"type": "array"}}
    if plan.paging is not None:
        properties["total"] = {"type": "integer", "description": "How many there are in all"}
        if plan.tool.all_pages:
            properties["truncated"] = {"type": "boolean", "description": "There are more than were read"}
        else:
            name = position_name(plan.paging)
            properties["next"] = {"type": ["integer", "string"], "description": f"Pass as `{name}` for more"}
    properties |= {"data": {}, "message": {"type": "string"}}
    properties.setdefault("items", {"type": "array"})
    return {"type": "object", "properties": properties}
