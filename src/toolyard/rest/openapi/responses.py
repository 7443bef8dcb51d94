"""The response of an operation: its schema, its list, a small output schema, and its paging.

Paging is guessed from usual names; an incomplete guess becomes a comment and is not used.
"""

import json
from typing import Any

from msgspec import Struct

from .document import Node, OpenApiDocument, SchemaResolver, node, types

MAX_OUTPUT_SCHEMA = 1500


def reply_schema(document: OpenApiDocument, responses: Any, schemas: SchemaResolver) -> Node | None:
    """The schema of the first successful JSON response."""
    found = node(responses)
    successful = [*sorted(status for status in found if status.startswith("2")), "default"]
    for status in successful:
        if status not in found:
            continue
        for kind, content in node(document.resolved(found[status]).get("content")).items():
            if "json" in kind.lower() or kind == "*/*":
                return schemas.plain(node(content).get("schema"), "writeOnly")
    return None


def lists_in(reply: Node | None) -> list[str]:
    """The paths of arrays in a response, up to one level below; empty: the response itself."""
    if reply is None:
        return []
    if types(reply) == ["array"]:
        return [""]
    found: list[str] = []
    for name, schema in node(reply.get("properties")).items():
        if "." in name:
            continue
        if types(node(schema)) == ["array"]:
            found.append(name)
        else:
            inner = node(node(schema).get("properties")).items()
            found += [
                f"{name}.{key}" for key, item in inner if types(node(item)) == ["array"] and "." not in key
            ]
    return found


def at(reply: Node | None, path: str) -> Node:
    found = node(reply)
    for step in path.split(".") if path else ():
        found = node(node(found.get("properties")).get(step))
    return found


def output(reply: Node | None, items: str | None) -> Node:
    """The output schema of the tool; empty if it is unknown or too long to be worth its tokens."""
    if reply is None:
        return {}
    if items is not None or types(reply) == ["array"]:
        inner = node(at(reply, items or "").get("items"))
        if not inner:
            return {}
        schema = {"type": "object", "properties": {"items": {"type": "array", "items": loosened(inner)}}}
    elif "data" in node(reply.get("properties")):
        schema = {**loosened(reply), "type": "object"}  # a response with `data` is not wrapped
    elif node(reply.get("properties")):
        schema = {"type": "object", "properties": {"data": loosened(reply)}}
    else:
        return {}
    return schema if len(json.dumps(schema)) <= MAX_OUTPUT_SCHEMA else {}


def loosened(schema: Node) -> Node:
    """Only names and types, and null everywhere, because few APIs match their document exactly."""
    kinds = types(schema) if "type" in schema or "properties" in schema or "items" in schema else []
    found: Node = {}
    if kinds:
        found["type"] = [*dict.fromkeys([*kinds, "null"])]
    if schema.get("description") and "properties" not in schema:
        found["description"] = str(schema["description"]).split("\n")[0][:120]
    if node(schema.get("properties")):
        found["properties"] = {
            name: loosened(node(item)) for name, item in node(schema["properties"]).items()
        }
    if node(schema.get("items")):
        found["items"] = loosened(node(schema["items"]))
    return found


def has_links(document: OpenApiDocument, responses: Any) -> bool:
    """Whether successful responses have a Link header, for the next page of a list."""
    successful = [
        document.resolved(item) for status, item in node(responses).items() if status.startswith("2")
    ]
    return any(name.lower() == "link" for item in successful for name in node(item.get("headers")))


_PAGES = ("page", "page_number", "pagenumber", "page[number]", "pageno", "p")
_OFFSETS = ("offset", "skip", "start", "page[offset]", "startat", "start_index", "startindex", "$skip")
_CURSORS = (
    "cursor",
    "after",
    "page_token",
    "pagetoken",
    "next_token",
    "nexttoken",
    "starting_after",
    "page[cursor]",
    "page[after]",
    "continuation_token",
    "marker",
)
_SIZES = (
    "limit",
    "per_page",
    "perpage",
    "page_size",
    "pagesize",
    "size",
    "count",
    "max_results",
    "maxresults",
    "page[size]",
    "page[limit]",
    "$top",
    "top",
    "take",
)
_NEXTS = (
    "next_cursor",
    "nextcursor",
    "next_page_token",
    "nextpagetoken",
    "next_token",
    "nexttoken",
    "next",
    "cursor",
    "end_cursor",
    "endcursor",
    "after",
    "next_marker",
    "continuation_token",
    "last_id",
)
_TOTALS = ("total", "total_count", "totalcount", "total_items", "totalitems", "total_results", "totalresults")


_SIZE_KEYS = ("size", "default", "most", "total")


class Guess(Struct, frozen=True):
    paging: Node
    """A `[paging]` table, perhaps incomplete."""
    parameters: tuple[str, ...]
    """The parameters of the tool that the paging replaces."""
    items: str = ""
    missing: str = ""
    """Why it cannot be used."""


def guess(parameters: dict[str, Node], reply: Node | None, linked: bool) -> Guess | None:
    query = {
        (node(item).get("as") or name).lower(): name
        for name, item in parameters.items()
        if node(item).get("in", "query") == "query"
    }
    size = next((query[name] for name in _SIZES if name in query), "")
    for kind, names in (("cursor", _CURSORS), ("page", _PAGES), ("offset", _OFFSETS)):
        position = next((query[name] for name in names if name in query), "")
        # "after" and "start" may be dates; a page number is a number.
        if position and position != size and _suits(kind, parameters[position]):
            return _complete(kind, position, size, parameters, reply, linked)
    return None


def _suits(kind: str, parameter: Node) -> bool:
    kinds = types(parameter) if "type" in parameter else ["string"]
    if str(node(parameter.get("schema")).get("format", "")).startswith("date"):
        return False
    return bool({"integer", "number"} & {*kinds}) if kind != "cursor" else "string" in kinds


def _complete(
    kind: str, position: str, size: str, parameters: dict[str, Node], reply: Node | None, linked: bool
) -> Guess:
    paging: Node = {"kind": kind, "position": parameters[position].get("as") or position}
    if kind == "page":
        paging["first"] = _number(
            parameters[position], "default", _number(parameters[position], "minimum", 1)
        )
    if size:
        most = _number(parameters[size], "maximum", 100)
        paging["size"] = parameters[size].get("as") or size
        paging["default"] = max(1, min(_number(parameters[size], "default", 20), most))
        paging["most"] = max(1, most)
    total = _path_of(reply, _TOTALS, ("integer", "number"))
    paging |= {"total": total} if total else {}
    taken = tuple(name for name in (position, size) if name)
    lists = lists_in(reply)
    if kind == "cursor":
        following = _path_of(reply, _NEXTS, ("string",))
        if not following and linked:
            paging = {"kind": "link", **{key: value for key, value in paging.items() if key in _SIZE_KEYS}}
        elif not following:
            return Guess(paging, taken, missing="the response has no known next cursor: set 'next'")
        else:
            paging["next"] = following
    if len(lists) != 1:
        missing = "the response has several lists" if lists else "the response is not described as a list"
        return Guess(paging, taken, missing=f"{missing}: set 'result.items' of the tool")
    return Guess(paging, taken, items=lists[0])


def _number(parameter: Node, key: str, otherwise: int) -> int:
    found = parameter.get(key, node(parameter.get("schema")).get(key))
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else otherwise


def _path_of(reply: Node | None, names: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """The path of one of these members, up to one level below, as `meta.total`."""
    whole = node(node(reply).get("properties"))
    paths = [(name, name) for name in whole]
    paths += [
        (inner, f"{name}.{inner}") for name in whole for inner in node(node(whole[name]).get("properties"))
    ]
    for wanted in names:
        for name, path in paths:
            if name.lower() == wanted and "." not in name and {*types(at(reply, path))} & {*kinds}:
                return path
    return ""
