"""The JSON Schemas of a tool, made from its definition."""

from typing import Any

from msgspec import UNSET

from ..texts import RestTexts
from .model import Paging, ParameterDefinition
from .plan import ToolPlan

Schema = dict[str, Any]
LINK_POSITION = "cursor"
"""The parameter for the next page if the API gives links."""


def input_schema(plan: ToolPlan, texts: RestTexts) -> Schema:
    properties = {name: _property(parameter, texts) for name, parameter in plan.parameters.items()}
    if plan.paging is not None and not plan.tool.all_pages:
        # A tool may declare them itself, under a name that clients accept.
        own = {parameter.name or name for name, parameter in plan.parameters.items()}
        properties |= {
            name: schema for name, schema in _paging(plan.paging, texts).items() if name not in own
        }
    required = [name for name, parameter in plan.parameters.items() if parameter.required]
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _property(parameter: ParameterDefinition, texts: RestTexts) -> Schema:
    kind = list(parameter.type) if isinstance(parameter.type, tuple) else parameter.type
    schema: Schema = {"type": kind}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.place == "file" and kind in ("string", "array"):
        schema |= {"type": "array", "items": _file(texts), "maxItems": parameter.max_files}
        if parameter.required:
            schema["minItems"] = 1
    if parameter.default is not UNSET:
        schema["default"] = parameter.default
    return schema | parameter.schema


def _file(texts: RestTexts) -> Schema:
    members = {"content": texts.file_content, "filename": texts.file_filename}
    properties = {name: {"type": "string", "description": text} for name, text in members.items()}
    return {"type": "object", "properties": properties, "required": list(members)}


def position_name(paging: Paging) -> str:
    """The API's name of the position."""
    return LINK_POSITION if paging.kind == "link" else paging.position


def shown_name(plan: ToolPlan, wire_name: str) -> str:
    """The tool's name of a parameter of the API."""
    named = (name for name, parameter in plan.parameters.items() if (parameter.name or name) == wire_name)
    return next(named, wire_name)


def _paging(paging: Paging, texts: RestTexts) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    name = position_name(paging)
    if paging.kind in ("cursor", "link"):
        found[name] = {"type": "string", "description": texts.next_part}
    else:
        what = texts.page_number if paging.kind == "page" else texts.items_skipped
        first = {"minimum": paging.first, "default": paging.first}
        found[name] = {"type": "integer", **first, "description": what}
    if paging.size:
        limits = {"minimum": 1, "maximum": paging.most, "default": paging.default}
        found[paging.size] = {"type": "integer", **limits, "description": texts.part_size}
    return found


def output_schema(plan: ToolPlan, texts: RestTexts) -> Schema:
    """The schema of results of tools without their own schema (see `response.result`)."""
    if plan.tool.also:
        names = ["current", *plan.tool.also]
        return {
            "type": "object",
            "properties": {name: {"type": "object"} for name in names},
            "required": ["current"],
        }
    return _part_schema(plan, texts)


def _part_schema(plan: ToolPlan, texts: RestTexts) -> Schema:
    properties: Schema = {}
    if plan.paging is not None or plan.tool.result.items:
        properties |= {"items": {"type": "array"}}
    if plan.paging is not None:
        properties["total"] = {"type": "integer", "description": texts.all_count}
        if plan.tool.all_pages:
            properties["truncated"] = {"type": "boolean", "description": texts.more_exist}
        else:
            text = texts.pass_as.format(name=shown_name(plan, position_name(plan.paging)))
            properties["next"] = {"type": ["integer", "string"], "description": text}
    properties |= {"data": {}, "message": {"type": "string"}}
    properties.setdefault("items", {"type": "array"})
    return {"type": "object", "properties": properties}
