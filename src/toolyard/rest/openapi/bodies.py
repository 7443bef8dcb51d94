"""The body of an operation: its members are parameters, or one parameter is all of it.

Whatever a document asks to be sent is either sent or the operation is left out; a tool that posts nothing and
reports success is worse than none.
"""

from typing import Any, Literal

from ..words import MEDIA_TYPE
from .document import Document, Node, node, nodes, text, texts
from .drawing import Drawing, Undrawable
from .schemas import Schemas, types

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


def draw(drawing: Drawing, document: Document, body: Any, schemas: Schemas) -> None:
    found = document.resolved(body)
    contents = {
        kind.split(";")[0].strip().lower(): node(item) for kind, item in node(found.get("content")).items()
    }
    if not contents:
        return
    if drawing.method == "GET":
        if found.get("required"):
            raise Undrawable("it needs a body, and GET has none")
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
            _draw(drawing, contents[kind].get("schema"), required, said, schemas)
            return
    raw = [kind for kind in contents if MEDIA_TYPE.fullmatch(kind) and not kind.startswith("multipart/")]
    kinds = sorted(raw, key=_is_text, reverse=True)
    if not kinds:
        raise Undrawable(f"its body is {', '.join(contents)}")
    _draw_raw(drawing, kinds, contents, required, said, schemas)


def _draw(drawing: Drawing, schema: Any, required: bool, said: str, schemas: Schemas) -> None:
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
        raise Undrawable(f"its body is a {drawing.body} form of {kind} without named members")
    if whole.get("additionalProperties"):
        drawing.notes.append("the body may have more members than those that are named, which are here")
    for name, item in properties.items():
        _draw_member(drawing, name, item, name in needed, schemas)


def _draw_raw(
    drawing: Drawing,
    kinds: list[str],
    contents: dict[str, Node],
    required: bool,
    said: str,
    schemas: Schemas,
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
