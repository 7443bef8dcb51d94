"""The body of an operation, taken apart: every member of it is a parameter."""

from typing import Any, Literal

from .document import Document, Node, node, nodes, text, texts
from .drawing import Drawing
from .schemas import Schemas, types

BodyForm = Literal["json", "multipart", "form"]
_FORMS: tuple[BodyForm, ...] = ("json", "multipart", "form")
_KINDS = {"multipart/form-data": "multipart", "application/x-www-form-urlencoded": "form", "*/*": "json"}


def _form(kind: str) -> str | None:
    is_json = kind == "application/json" or kind.endswith("+json")
    return "json" if is_json else _KINDS.get(kind)


class Undrawable(Exception):
    """There is no way to say this operation in a table; the message says why."""


def draw(drawing: Drawing, document: Document, body: Any, schemas: Schemas) -> None:
    found = document.resolved(body)
    contents = {
        kind.split(";")[0].strip().lower(): node(item) for kind, item in node(found.get("content")).items()
    }
    if not contents:
        return
    if drawing.method == "GET":
        drawing.notes.append("the body is left out, since GET has none")
        return
    for form in _FORMS:
        kind = next((kind for kind in contents if _form(kind) == form), None)
        if kind is not None:
            drawing.body = form
            _draw(drawing, contents[kind].get("schema"), bool(found.get("required")), schemas)
            return
    if found.get("required"):
        raise Undrawable(f"its body is {', '.join(contents)}")
    drawing.notes.append(f"the body is left out, since it is {', '.join(contents)}")


def _draw(drawing: Drawing, schema: Any, required: bool, schemas: Schemas) -> None:
    whole = _united(schemas.effective(schema, "readOnly"), schemas, drawing)
    properties = node(whole.get("properties"))
    if not properties:
        kind = " or ".join(types(whole)) if whole.get("type") else "anything"
        if required:
            raise Undrawable(f"its body is {kind} without named members")
        drawing.notes.append(f"the body is left out, since it is {kind} without named members")
        return
    # Whether the body as a whole is required is rarely written down; its members say it better.
    needed = texts(whole.get("required"))
    for name, item in properties.items():
        _draw_member(drawing, name, item, name in needed, schemas)


def _united(whole: Node, schemas: Schemas, drawing: Drawing) -> Node:
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


def _draw_member(drawing: Drawing, name: str, schema: Any, required: bool, schemas: Schemas) -> None:
    plain = schemas.plain(schema)
    described = text(plain.get("description"))
    raw = schemas.effective(schema, "readOnly")
    items = schemas.effective(raw["items"], "readOnly") if isinstance(raw.get("items"), dict) else {}
    if drawing.body == "multipart" and (_is_binary(raw) or _is_binary(items)):
        drawing.add_file(name, many=_is_binary(items), required=required, description=described)
        return
    if "." in name and drawing.body == "json":
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
