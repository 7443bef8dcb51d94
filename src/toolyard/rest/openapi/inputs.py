"""The inputs of one tool: names that models accept, and the parameters and the body of an operation.

A tool sends everything that the document requires, or the operation is left out: a tool that sends nothing
and reports success is worse than none.
"""

import json
import re
from collections.abc import Container
from typing import Any, Literal, cast

from ..definition.model import WITH_BODY
from ..definition.rules import HEADER_NAME, MEDIA_TYPE, OUR_HEADERS
from .access import CredentialLocations
from .document import Node, OpenApiDocument, SchemaResolver, node, nodes, short, text, texts, types

MAX_NAME = 64
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_TOOL = re.compile(r"[^A-Za-z0-9_-]+")
_PARAMETER = re.compile(r"[^A-Za-z0-9_.-]+")


def tool_name(operation_id: str, method: str, path: str, taken: Container[str]) -> str:
    """The operationId, if it can be a name; else made of method and path."""
    name = _TOOL.sub("_", operation_id).strip("_-")
    if not name:
        spoken = re.sub(r"\{([^{}]*)\}", r"by_\1", path)
        name = f"{method}_{_WORDS.sub('_', spoken).strip('_')}".strip("_").lower()
    return unique(name[:MAX_NAME].rstrip("_-"), taken)


def parameter_name(name: str, taken: Container[str]) -> str:
    """The API's name in a form that models accept: `filter[status]` becomes `filter_status`."""
    accepted = _PARAMETER.sub("_", name).strip("_.-") or "value"
    return unique(accepted[:MAX_NAME].rstrip("_.-"), taken)


def server_name(title: str) -> str:
    name = _WORDS.sub("_", title).strip("_").lower()
    return name.removesuffix("_api")[:30].rstrip("_") or "api"


def group_name(tag: str) -> str:
    """The group of a tag; empty if nothing of it can be in a name."""
    return _WORDS.sub("-", tag).strip("-").lower()[:64]


def unique(name: str, taken: Container[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        end = f"_{number}"
        found = name[: MAX_NAME - len(end)] + end
    return found


class UnsupportedOperationError(Exception):
    """A definition cannot express this operation; the message says why."""


class ToolInputs:
    def __init__(self, method: str, path: str) -> None:
        self.method = method
        self.path = path
        self.body = ""
        self.content_type = ""
        self.parameters: dict[str, Node] = {}
        self.notes: list[str] = []

    def add(self, called: str, plain: Node, *, place: str, required: bool, description: str = "") -> None:
        """Add a parameter; `place` is empty for the default location."""
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
            self.notes.append(
                f"the pattern of {called!r} is left out: it is not a valid regular expression here"
            )
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
    if place == "body":  # the whole body has no name
        return found
    return found | ({"as": called} if called != name and f"{{{name}}}" not in path else {})


def _parameter(plain: Node, description: str) -> Node:
    """A parameter of a definition: type, description and default, and the rest of the schema inside."""
    kinds = types(plain)
    found: Node = {} if kinds == ["string"] else {"type": kinds[0] if len(kinds) == 1 else kinds}
    shortened = short(description, 600) or plain.get("description", "")
    if shortened:
        found["description"] = shortened
    rest = {key: value for key, value in plain.items() if key not in ("type", "description", "default")}
    rest, valid = _valid_schema(rest)
    if not valid:
        rest = {
            key: value for key, value in rest.items() if key in ("enum", "items", "properties", "required")
        }
        rest, valid = _valid_schema(rest)
    if "default" in plain and valid and _fits({"type": kinds, **rest}, plain["default"]):
        found["default"] = plain["default"]
    if rest and valid:
        found["schema"] = rest
    return found


def _valid_schema(schema: Node) -> tuple[Node, bool]:
    """The schema, without its patterns if they are invalid, and whether it is a JSON Schema."""
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


_NOT_PARAMETERS = ("accept", "content-type")  # by the rules of OpenAPI
_PLACES = {"header": "header", "query": "query parameter", "cookie": "cookie"}
_SEPARATORS = {"form": "commas", "simple": "commas", "spaceDelimited": "spaces", "pipeDelimited": "|"}


def listed(document: OpenApiDocument, shared: object, own: object) -> list[Node]:
    """The parameters of the path, overridden by those of the operation."""
    found: dict[tuple[str, str], Node] = {}
    for item in (*nodes(shared), *nodes(own)):
        parameter = document.resolved(item)
        name, place = text(parameter.get("name")), text(parameter.get("in"))
        if name and place:
            found[place, name] = parameter
    return sorted(found.values(), key=lambda parameter: parameter["in"] != "path")


def add_parameter(
    tool_inputs: ToolInputs, parameter: Node, schemas: SchemaResolver, keys: CredentialLocations
) -> None:
    name, place = parameter["name"], parameter["in"]
    if place == "header" and name.lower() in _NOT_PARAMETERS:
        return
    if keys.are_in(place, name):
        # Not an argument: [auth] sends the key.
        if not keys.sent_in(place, name):
            tool_inputs.notes.append(f"the {_PLACES[place]} {name!r}, which carries a key, is left out")
        return
    if place == "header" and (name.lower() in OUR_HEADERS or not HEADER_NAME.fullmatch(name)):
        tool_inputs.notes.append(f"the header {name!r} is left out")
        return
    if place == "cookie":
        if parameter.get("required"):
            raise UnsupportedOperationError(f"it needs the cookie {name!r}")
        tool_inputs.notes.append(f"the cookie {name!r} is left out")
        return
    if place not in ("path", "query", "header"):
        tool_inputs.notes.append(f"the parameter {name!r} in {place!r} is left out")
        return
    if place == "path" and f"{{{name}}}" not in tool_inputs.path:
        tool_inputs.notes.append(f"the path parameter {name!r}, which the path does not have, is left out")
        return
    content = node(parameter.get("content"))
    if content:
        described = f"{text(parameter.get('description'))} (as JSON text)".strip()
        _add_plain(tool_inputs, parameter, {"type": "string"}, described)
        return
    plain = schemas.plain(parameter.get("schema"))
    if types(plain) == ["object"] and place == "query":
        _add_object(tool_inputs, parameter, plain)
    elif "array" in types(plain) and not _repeated(parameter):
        _add_joined(tool_inputs, parameter)
    elif {"array", "object"} & {*types(plain)} and place != "query":
        _add_plain(tool_inputs, parameter, {"type": "string"}, text(parameter.get("description")))
    else:
        _add_plain(tool_inputs, parameter, plain, text(parameter.get("description")))


def _add_plain(tool_inputs: ToolInputs, parameter: Node, plain: Node, description: str) -> None:
    place = parameter["in"]
    required = bool(parameter.get("required")) or place == "path"
    is_explicit = place == "header" or (place == "query" and tool_inputs.method in WITH_BODY)
    written = place if is_explicit or place == "path" else ""
    tool_inputs.add(parameter["name"], plain, place=written, required=required, description=description)


def _repeated(parameter: Node) -> bool:
    style = parameter.get("style", "form" if parameter["in"] == "query" else "simple")
    return style == "form" and bool(parameter.get("explode", True))


def _add_joined(tool_inputs: ToolInputs, parameter: Node) -> None:
    style = text(parameter.get("style")) or ("form" if parameter["in"] == "query" else "simple")
    how = f"several with {_SEPARATORS.get(style, 'commas')} between"
    described = f"{text(parameter.get('description')).rstrip('. ')} ({how})".strip()
    _add_plain(tool_inputs, parameter, {"type": "string"}, described)


def _add_object(tool_inputs: ToolInputs, parameter: Node, plain: Node) -> None:
    """`filter[status]=open`: every property becomes a parameter."""
    properties = node(plain.get("properties"))
    deep = parameter.get("style") == "deepObject"
    if not properties or not (deep or parameter.get("explode", True)):
        if parameter.get("required"):
            raise UnsupportedOperationError(f"it needs the query parameter {parameter['name']!r}, an object")
        tool_inputs.notes.append(f"the query parameter {parameter['name']!r}, an object, is left out")
        return
    required = texts(plain.get("required")) if parameter.get("required") else []
    for key, schema in properties.items():
        called = f"{parameter['name']}[{key}]" if deep else key
        inner = {**parameter, "name": called, "required": key in required}
        _add_plain(tool_inputs, inner, node(schema), text(node(schema).get("description")))


BodyForm = Literal["json", "multipart", "form"]
_FORMS: tuple[BodyForm, ...] = ("json", "multipart", "form")
_KINDS = {"multipart/form-data": "multipart", "application/x-www-form-urlencoded": "form", "*/*": "json"}
_TEXTS = ("xml", "yaml", "x-yaml", "csv", "graphql", "sql", "javascript", "x-ndjson", "jsonl", "toml")


def _form(kind: str) -> str | None:
    is_json = kind == "application/json" or kind.endswith("+json")
    return "json" if is_json else _KINDS.get(kind)


def _is_text(kind: str) -> bool:
    main, _, sub = kind.partition("/")
    return main == "text" or sub in _TEXTS or sub.endswith(("+xml", "+yaml"))


def add_body(tool_inputs: ToolInputs, document: OpenApiDocument, body: Any, schemas: SchemaResolver) -> None:
    found = document.resolved(body)
    contents = {
        kind.split(";")[0].strip().lower(): node(item) for kind, item in node(found.get("content")).items()
    }
    if not contents:
        return
    if tool_inputs.method == "GET":
        if found.get("required"):
            raise UnsupportedOperationError("it needs a body, and GET has none")
        tool_inputs.notes.append("the body is left out, since GET has none")
        return
    # Documents seldom state that the whole body is required; only `false` is certain.
    required = found.get("required") is not False
    described = text(found.get("description"))
    for form in _FORMS:
        kind = next((kind for kind in contents if _form(kind) == form), None)
        if kind == "*/*" and _is_binary(schemas.effective(contents[kind].get("schema"), "readOnly")):
            contents["application/octet-stream"] = contents.pop(kind)
        elif kind is not None:
            tool_inputs.body = form
            tool_inputs.content_type = kind if kind.endswith("+json") else ""
            _add_members(tool_inputs, contents[kind].get("schema"), required, described, schemas)
            return
    raw = [kind for kind in contents if MEDIA_TYPE.fullmatch(kind) and not kind.startswith("multipart/")]
    kinds = sorted(raw, key=_is_text, reverse=True)
    if not kinds:
        raise UnsupportedOperationError(f"its body is {', '.join(contents)}")
    _add_raw(tool_inputs, kinds, contents, required, described, schemas)


def _add_members(
    tool_inputs: ToolInputs, schema: Any, required: bool, described: str, schemas: SchemaResolver
) -> None:
    whole = _united(schemas.effective(schema, "readOnly"), schemas, tool_inputs)
    properties = node(whole.get("properties"))
    # The members are more reliable than `required` of the whole body.
    needed = texts(whole.get("required"))
    if tool_inputs.body == "json" and (not properties or any("." in name for name in needed)):
        plain = schemas.plain(schema)
        described = described or text(plain.get("description")) or "The whole body of the request"
        tool_inputs.add("body", plain, place="body", required=required, description=described)
        return
    if not properties:
        kind = " or ".join(types(whole)) if whole.get("type") else "anything"
        raise UnsupportedOperationError(
            f"its body is a {tool_inputs.body} form of {kind} without named members"
        )
    if whole.get("additionalProperties"):
        tool_inputs.notes.append("the body may have more members than the parameters here")
    for name, item in properties.items():
        _add_member(tool_inputs, name, item, name in needed, schemas)


def _add_raw(
    tool_inputs: ToolInputs,
    kinds: list[str],
    contents: dict[str, Node],
    required: bool,
    described: str,
    schemas: SchemaResolver,
) -> None:
    """Add a body that is sent unchanged: a text, or the bytes of a file."""
    tool_inputs.body, kind = "raw", kinds[0]
    plain = schemas.plain(contents[kind].get("schema"))
    described = described or text(plain.get("description"))
    if _is_text(kind) and not _is_binary(schemas.effective(contents[kind].get("schema"), "readOnly")):
        tool_inputs.content_type = "" if kind in ("text/plain", "text/*") else kind
        limits = {key: plain[key] for key in ("minLength", "maxLength", "pattern", "enum") if key in plain}
        described = f"{described.rstrip('. ')} (as {kind})".strip() if described else f"The body, as {kind}"
        tool_inputs.add(
            "body", {"type": "string", **limits}, place="body", required=required, description=described
        )
    else:
        tool_inputs.content_type = kind if len(kinds) == 1 else _common(kinds)
        tool_inputs.add_file(
            "file", many=False, required=required, description=described or f"One file, {kind}"
        )
    if len(kinds) > 1:
        tool_inputs.notes.append(f"the body may be {', '.join(kinds)}")


def _common(kinds: list[str]) -> str:
    """The common type, such as `image/*` for several image types."""
    mains = {kind.partition("/")[0] for kind in kinds}
    return f"{mains.pop()}/*" if len(mains) == 1 and mains != {"application"} else ""


def _united(whole: Node, schemas: SchemaResolver, tool_inputs: ToolInputs) -> Node:
    """Merge the forms of a body: members of all forms, required if all forms require them."""
    for key in ("oneOf", "anyOf"):
        branches = [schemas.effective(item, "readOnly") for item in nodes(whole.get(key))]
        branches = [branch for branch in branches if node(branch.get("properties"))]
        if not branches:
            continue
        members: Node = {}
        for branch in branches:
            members = {**node(branch["properties"]), **members}
        needed = set(texts(branches[0].get("required"))).intersection(
            *(texts(branch.get("required")) for branch in branches[1:])
        )
        if len(branches) > 1:
            tool_inputs.notes.append(
                f"the body has {len(branches)} forms; the members of all of them are here"
            )
        return {
            "type": "object",
            "properties": {**members, **node(whole.get("properties"))},
            "required": [*texts(whole.get("required")), *sorted(needed)],
        }
    return whole


def _add_member(
    tool_inputs: ToolInputs, name: str, schema: Any, required: bool, schemas: SchemaResolver
) -> None:
    plain = schemas.plain(schema)
    described = text(plain.get("description"))
    raw = schemas.effective(schema, "readOnly")
    items = schemas.effective(raw["items"], "readOnly") if isinstance(raw.get("items"), dict) else {}
    if tool_inputs.body == "multipart" and (_is_binary(raw) or _is_binary(items)):
        tool_inputs.add_file(name, many=_is_binary(items), required=required, description=described)
        return
    if "." in name and tool_inputs.body == "json":  # not required; otherwise the whole body is one parameter
        tool_inputs.notes.append(f"the member {name!r} is left out: its dots would make nested JSON")
        return
    explicit = tool_inputs.method == "DELETE"
    place = ("json" if tool_inputs.body == "json" else "form") if explicit else ""
    tool_inputs.add(name, plain, place=place, required=required, description=described)


def _is_binary(schema: Node) -> bool:
    return schema.get("format") == "binary" or (
        "contentMediaType" in schema
        and "contentEncoding" not in schema
        and schema.get("type", "string") == "string"
    )
