"""The inputs of one tool: names that models accept, and the parameters and the body of an operation.

Everything a document requires to be sent is sent, or the operation is left out: a tool that posts nothing
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

LONGEST = 64
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_TOOL = re.compile(r"[^A-Za-z0-9_-]+")
_PARAMETER = re.compile(r"[^A-Za-z0-9_.-]+")


def tool_name(operation_id: str, method: str, path: str, taken: Container[str]) -> str:
    """The operationId where it can be a name; else what the operation does, by its method and path."""
    name = _TOOL.sub("_", operation_id).strip("_-")
    if not name:
        spoken = re.sub(r"\{([^{}]*)\}", r"by_\1", path)
        name = f"{method}_{_WORDS.sub('_', spoken).strip('_')}".strip("_").lower()
    return unique(name[:LONGEST].rstrip("_-"), taken)


def parameter_name(name: str, taken: Container[str]) -> str:
    """As the API calls it, where a model may call it so: `filter[status]` becomes `filter_status`."""
    said = _PARAMETER.sub("_", name).strip("_.-") or "value"
    return unique(said[:LONGEST].rstrip("_.-"), taken)


def server_name(title: str) -> str:
    name = _WORDS.sub("_", title).strip("_").lower()
    return name.removesuffix("_api")[:30].rstrip("_") or "api"


def unique(name: str, taken: Container[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        end = f"_{number}"
        found = name[: LONGEST - len(end)] + end
    return found


class UnsupportedOperationError(Exception):
    """There is no way to say this operation in a table; the message says why."""


class ToolInputs:
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
    rest, sound = _valid_schema(rest)
    if not sound:
        rest = {
            key: value for key, value in rest.items() if key in ("enum", "items", "properties", "required")
        }
        rest, sound = _valid_schema(rest)
    if "default" in plain and sound and _fits({"type": kinds, **rest}, plain["default"]):
        found["default"] = plain["default"]
    if rest and sound:
        found["schema"] = rest
    return found


def _valid_schema(schema: Node) -> tuple[Node, bool]:
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


_NOT_PARAMETERS = ("accept", "content-type")  # says OpenAPI itself
_PLACES = {"header": "header", "query": "query parameter", "cookie": "cookie"}
_SEPARATORS = {"form": "commas", "simple": "commas", "spaceDelimited": "spaces", "pipeDelimited": "|"}


def listed(document: OpenApiDocument, shared: object, own: object) -> list[Node]:
    """Those of the path with those of the operation over them."""
    found: dict[tuple[str, str], Node] = {}
    for item in (*nodes(shared), *nodes(own)):
        parameter = document.resolved(item)
        name, place = text(parameter.get("name")), text(parameter.get("in"))
        if name and place:
            found[place, name] = parameter
    return sorted(found.values(), key=lambda parameter: parameter["in"] != "path")


def add_parameter(
    drawing: ToolInputs, parameter: Node, schemas: SchemaResolver, keys: CredentialLocations
) -> None:
    name, place = parameter["name"], parameter["in"]
    if place == "header" and name.lower() in _NOT_PARAMETERS:
        return
    if keys.are_in(place, name):
        # No model is asked for a key: [auth] sends it.
        if not keys.sent_in(place, name):
            drawing.notes.append(f"the {_PLACES[place]} {name!r}, which carries a key, is left out")
        return
    if place == "header" and (name.lower() in OUR_HEADERS or not HEADER_NAME.fullmatch(name)):
        drawing.notes.append(f"the header {name!r} is left out")
        return
    if place == "cookie":
        if parameter.get("required"):
            raise UnsupportedOperationError(f"it needs the cookie {name!r}")
        drawing.notes.append(f"the cookie {name!r} is left out")
        return
    if place not in ("path", "query", "header"):
        drawing.notes.append(f"the parameter {name!r} in {place!r} is left out")
        return
    if place == "path" and f"{{{name}}}" not in drawing.path:
        drawing.notes.append(f"the path parameter {name!r}, which the path does not have, is left out")
        return
    content = node(parameter.get("content"))
    if content:
        said = f"{text(parameter.get('description'))} (as JSON text)".strip()
        _add_plain(drawing, parameter, {"type": "string"}, said)
        return
    plain = schemas.plain(parameter.get("schema"))
    if types(plain) == ["object"] and place == "query":
        _add_object(drawing, parameter, plain)
    elif "array" in types(plain) and not _repeated(parameter):
        _add_joined(drawing, parameter)
    elif {"array", "object"} & {*types(plain)} and place != "query":
        _add_plain(drawing, parameter, {"type": "string"}, text(parameter.get("description")))
    else:
        _add_plain(drawing, parameter, plain, text(parameter.get("description")))


def _add_plain(drawing: ToolInputs, parameter: Node, plain: Node, description: str) -> None:
    place = parameter["in"]
    required = bool(parameter.get("required")) or place == "path"
    needs_saying = place == "header" or (place == "query" and drawing.method in WITH_BODY)
    said = place if needs_saying or place == "path" else ""
    drawing.add(parameter["name"], plain, place=said, required=required, description=description)


def _repeated(parameter: Node) -> bool:
    style = parameter.get("style", "form" if parameter["in"] == "query" else "simple")
    return style == "form" and bool(parameter.get("explode", True))


def _add_joined(drawing: ToolInputs, parameter: Node) -> None:
    style = text(parameter.get("style")) or ("form" if parameter["in"] == "query" else "simple")
    how = f"several with {_SEPARATORS.get(style, 'commas')} between"
    said = f"{text(parameter.get('description')).rstrip('. ')} ({how})".strip()
    _add_plain(drawing, parameter, {"type": "string"}, said)


def _add_object(drawing: ToolInputs, parameter: Node, plain: Node) -> None:
    """`filter[status]=open`: every property is a parameter of its own."""
    properties = node(plain.get("properties"))
    deep = parameter.get("style") == "deepObject"
    if not properties or not (deep or parameter.get("explode", True)):
        if parameter.get("required"):
            raise UnsupportedOperationError(f"it needs the query parameter {parameter['name']!r}, an object")
        drawing.notes.append(f"the query parameter {parameter['name']!r}, an object, is left out")
        return
    required = texts(plain.get("required")) if parameter.get("required") else []
    for key, schema in properties.items():
        called = f"{parameter['name']}[{key}]" if deep else key
        inner = {**parameter, "name": called, "required": key in required}
        _add_plain(drawing, inner, node(schema), text(node(schema).get("description")))


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


def add_body(drawing: ToolInputs, document: OpenApiDocument, body: Any, schemas: SchemaResolver) -> None:
    found = document.resolved(body)
    contents = {
        kind.split(";")[0].strip().lower(): node(item) for kind, item in node(found.get("content")).items()
    }
    if not contents:
        return
    if drawing.method == "GET":
        if found.get("required"):
            raise UnsupportedOperationError("it needs a body, and GET has none")
        drawing.notes.append("the body is left out, since GET has none")
        return
    # Seldom is it written down that the body as a whole is required; only that it is not is sure.
    required = found.get("required") is not False
    said = text(found.get("description"))
    for form in _FORMS:
        kind = next((kind for kind in contents if _form(kind) == form), None)
        if kind == "*/*" and _is_binary(schemas.effective(contents[kind].get("schema"), "readOnly")):
            contents["application/octet-stream"] = contents.pop(kind)
        elif kind is not None:
            drawing.body = form
            drawing.content_type = kind if kind.endswith("+json") else ""
            _add_members(drawing, contents[kind].get("schema"), required, said, schemas)
            return
    raw = [kind for kind in contents if MEDIA_TYPE.fullmatch(kind) and not kind.startswith("multipart/")]
    kinds = sorted(raw, key=_is_text, reverse=True)
    if not kinds:
        raise UnsupportedOperationError(f"its body is {', '.join(contents)}")
    _add_raw(drawing, kinds, contents, required, said, schemas)


def _add_members(
    drawing: ToolInputs, schema: Any, required: bool, said: str, schemas: SchemaResolver
) -> None:
    whole = _united(schemas.effective(schema, "readOnly"), schemas, drawing)
    properties = node(whole.get("properties"))
    # Whether the body as a whole is required is rarely written down; its members say it better.
    needed = texts(whole.get("required"))
    if drawing.body == "json" and (not properties or any("." in name for name in needed)):
        plain = schemas.plain(schema)
        described = said or text(plain.get("description")) or "The whole body of the request"
        drawing.add("body", plain, place="body", required=required, description=described)
        return
    if not properties:
        kind = " or ".join(types(whole)) if whole.get("type") else "anything"
        raise UnsupportedOperationError(f"its body is a {drawing.body} form of {kind} without named members")
    if whole.get("additionalProperties"):
        drawing.notes.append("the body may have more members than those that are named, which are here")
    for name, item in properties.items():
        _add_member(drawing, name, item, name in needed, schemas)


def _add_raw(
    drawing: ToolInputs,
    kinds: list[str],
    contents: dict[str, Node],
    required: bool,
    said: str,
    schemas: SchemaResolver,
) -> None:
    """A body that is sent as it is: a text, or the bytes of a file."""
    drawing.body, kind = "raw", kinds[0]
    plain = schemas.plain(contents[kind].get("schema"))
    said = said or text(plain.get("description"))
    if _is_text(kind) and not _is_binary(schemas.effective(contents[kind].get("schema"), "readOnly")):
        drawing.content_type = "" if kind in ("text/plain", "text/*") else kind
        limits = {key: plain[key] for key in ("minLength", "maxLength", "pattern", "enum") if key in plain}
        described = f"{said.rstrip('. ')} (as {kind})".strip() if said else f"The body, as {kind}"
        drawing.add(
            "body", {"type": "string", **limits}, place="body", required=required, description=described
        )
    else:
        drawing.content_type = kind if len(kinds) == 1 else _common(kinds)
        drawing.add_file("file", many=False, required=required, description=said or f"One file, {kind}")
    if len(kinds) > 1:
        drawing.notes.append(f"the body may be {', '.join(kinds)}")


def _common(kinds: list[str]) -> str:
    """What the name of a file decides within: `image/*` of several images."""
    mains = {kind.partition("/")[0] for kind in kinds}
    return f"{mains.pop()}/*" if len(mains) == 1 and mains != {"application"} else ""


def _united(whole: Node, schemas: SchemaResolver, drawing: ToolInputs) -> Node:
    """A body of several forms: the members of all of them, required where all of them require it."""
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
            drawing.notes.append(f"the body has {len(branches)} forms; the members of all of them are here")
        return {
            "type": "object",
            "properties": {**members, **node(whole.get("properties"))},
            "required": [*texts(whole.get("required")), *sorted(needed)],
        }
    return whole


def _add_member(drawing: ToolInputs, name: str, schema: Any, required: bool, schemas: SchemaResolver) -> None:
    plain = schemas.plain(schema)
    described = text(plain.get("description"))
    raw = schemas.effective(schema, "readOnly")
    items = schemas.effective(raw["items"], "readOnly") if isinstance(raw.get("items"), dict) else {}
    if drawing.body == "multipart" and (_is_binary(raw) or _is_binary(items)):
        drawing.add_file(name, many=_is_binary(items), required=required, description=described)
        return
    if "." in name and drawing.body == "json":  # and not required, or the body would be in one piece
        drawing.notes.append(f"the member {name!r} is left out: dots would make nested JSON of it")
        return
    explicit = drawing.method == "DELETE"
    place = ("json" if drawing.body == "json" else "form") if explicit else ""
    drawing.add(name, plain, place=place, required=required, description=described)


def _is_binary(schema: Node) -> bool:
    return schema.get("format") == "binary" or (
        "contentMediaType" in schema
        and "contentEncoding" not in schema
        and schema.get("type", "string") == "string"
    )
