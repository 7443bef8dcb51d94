"""Parameters of an operation: of its path, its query and its headers."""

from ..table import WITH_BODY
from ..words import HEADER_NAME, OUR_HEADERS
from .document import Document, Node, node, nodes, text, texts
from .drawing import Drawing, Undrawable
from .schemas import Schemas, types
from .security import Keys

_NOT_PARAMETERS = ("accept", "content-type")  # says OpenAPI itself
_PLACES = {"header": "header", "query": "query parameter", "cookie": "cookie"}
_SEPARATORS = {"form": "commas", "simple": "commas", "spaceDelimited": "spaces", "pipeDelimited": "|"}


def listed(document: Document, shared: object, own: object) -> list[Node]:
    """Those of the path with those of the operation over them."""
    found: dict[tuple[str, str], Node] = {}
    for item in (*nodes(shared), *nodes(own)):
        parameter = document.resolved(item)
        name, place = text(parameter.get("name")), text(parameter.get("in"))
        if name and place:
            found[place, name] = parameter
    return sorted(found.values(), key=lambda parameter: parameter["in"] != "path")


def draw(drawing: Drawing, parameter: Node, schemas: Schemas, keys: Keys) -> None:
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
            raise Undrawable(f"it needs the cookie {name!r}")
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
        _add(drawing, parameter, {"type": "string"}, said)
        return
    plain = schemas.plain(parameter.get("schema"))
    if types(plain) == ["object"] and place == "query":
        _draw_object(drawing, parameter, plain)
    elif "array" in types(plain) and not _repeated(parameter):
        _draw_joined(drawing, parameter)
    elif {"array", "object"} & {*types(plain)} and place != "query":
        _add(drawing, parameter, {"type": "string"}, text(parameter.get("description")))
    else:
        _add(drawing, parameter, plain, text(parameter.get("description")))


def _add(drawing: Drawing, parameter: Node, plain: Node, description: str) -> None:
    place = parameter["in"]
    required = bool(parameter.get("required")) or place == "path"
    needs_saying = place == "header" or (place == "query" and drawing.method in WITH_BODY)
    said = place if needs_saying or place == "path" else ""
    drawing.add(parameter["name"], plain, place=said, required=required, description=description)


def _repeated(parameter: Node) -> bool:
    style = parameter.get("style", "form" if parameter["in"] == "query" else "simple")
    return style == "form" and bool(parameter.get("explode", True))


def _draw_joined(drawing: Drawing, parameter: Node) -> None:
    style = text(parameter.get("style")) or ("form" if parameter["in"] == "query" else "simple")
    how = f"several with {_SEPARATORS.get(style, 'commas')} between"
    said = f"{text(parameter.get('description')).rstrip('. ')} ({how})".strip()
    _add(drawing, parameter, {"type": "string"}, said)


def _draw_object(drawing: Drawing, parameter: Node, plain: Node) -> None:
    """`filter[status]=open`: every property is a parameter of its own."""
    properties = node(plain.get("properties"))
    deep = parameter.get("style") == "deepObject"
    if not properties or not (deep or parameter.get("explode", True)):
        if parameter.get("required"):
            raise Undrawable(f"it needs the query parameter {parameter['name']!r}, an object")
        drawing.notes.append(f"the query parameter {parameter['name']!r}, an object, is left out")
        return
    required = texts(plain.get("required")) if parameter.get("required") else []
    for key, schema in properties.items():
        called = f"{parameter['name']}[{key}]" if deep else key
        inner = {**parameter, "name": called, "required": key in required}
        _add(drawing, inner, node(schema), text(node(schema).get("description")))
