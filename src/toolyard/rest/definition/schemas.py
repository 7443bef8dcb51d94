"""The JSON Schemas of a tool, written from its row of the table."""

from typing import Any

from msgspec import UNSET

from ..texts import RestTexts
from .model import Paging, ParameterDefinition
from .plan import ToolPlan

Schema = dict[str, Any]
LINK_POSITION = "cursor"
"""What the model passes for the next part where the API gives links."""


def input_schema(plan: ToolPlan, words: RestTexts) -> Schema:
    properties = {name: _property(parameter, words) for name, parameter in plan.parameters.items()}
    if plan.paging is not None and not plan.tool.all_pages:
        # A tool may describe them itself, under another name where no client takes the API's.
        own = {parameter.name or name for name, parameter in plan.parameters.items()}
        properties |= {
            name: schema for name, schema in _paging(plan.paging, words).items() if name not in own
        }
    required = [name for name, parameter in plan.parameters.items() if parameter.required]
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _property(parameter: ParameterDefinition, words: RestTexts) -> Schema:
    kind = list(parameter.type) if isinstance(parameter.type, tuple) else parameter.type
    schema: Schema = {"type": kind}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.place == "file" and kind in ("string", "array"):
        schema |= {"type": "array", "items": _file(words), "maxItems": parameter.max_files}
        if parameter.required:
            schema["minItems"] = 1
    if parameter.default is not UNSET:
        schema["default"] = parameter.default
    return schema | parameter.schema


def _file(words: RestTexts) -> Schema:
    members = {"content": words.file_content, "filename": words.file_filename}
    properties = {name: {"type": "string", "description": said} for name, said in members.items()}
    return {"type": "object", "properties": properties, "required": list(members)}


def position_name(paging: Paging) -> str:
    """What the API calls it."""
    return LINK_POSITION if paging.kind == "link" else paging.position


def shown_name(plan: ToolPlan, called: str) -> str:
    """What the tool calls a parameter of the API."""
    named = (name for name, parameter in plan.parameters.items() if (parameter.name or name) == called)
    return next(named, called)


def _paging(paging: Paging, words: RestTexts) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    name = position_name(paging)
    if paging.kind in ("cursor", "link"):
        found[name] = {"type": "string", "description": words.next_part}
    else:
        what = words.page_number if paging.kind == "page" else words.items_skipped
        first = {"minimum": paging.first, "default": paging.first}
        found[name] = {"type": "integer", **first, "description": what}
    if paging.size:
        limits = {"minimum": 1, "maximum": paging.most, "default": paging.default}
        found[paging.size] = {"type": "integer", **limits, "description": words.part_size}
    return found


def output_schema(plan: ToolPlan, words: RestTexts) -> Schema:
    """What every result looks like whose tool has no schema of its own (`results`)."""
    if plan.tool.also:
        names = ["current", *plan.tool.also]
        return {
            "type": "object",
            "properties": {name: {"type": "object"} for name in names},
            "required": ["current"],
        }
    return _part_schema(plan, words)


def _part_schema(plan: ToolPlan, words: RestTexts) -> Schema:
    properties: Schema = {}
    if plan.paging is not None or plan.tool.result.items:
        properties |= {"items": {"type": "array"}}
    if plan.paging is not None:
        properties["total"] = {"type": "integer", "description": words.all_count}
        if plan.tool.all_pages:
            properties["truncated"] = {"type": "boolean", "description": words.more_exist}
        else:
            said = words.pass_as.format(name=shown_name(plan, position_name(plan.paging)))
            properties["next"] = {"type": ["integer", "string"], "description": said}
    properties |= {"data": {}, "message": {"type": "string"}}
    properties.setdefault("items", {"type": "array"})
    return {"type": "object", "properties": properties}
