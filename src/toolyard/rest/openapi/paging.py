"""Guessing how an API's lists come in parts, by the names that everybody uses.

A guess that lacks something is not used; it becomes a comment.
"""

from msgspec import Struct

from .document import Node, node
from .replies import at, lists_in
from .schemas import types

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


_OF_SIZE = ("size", "default", "most", "total")


class Guess(Struct, frozen=True):
    paging: Node
    """A `[paging]` table; without what is missing."""
    parameters: tuple[str, ...]
    """Of the tool: what the paging takes care of."""
    items: str = ""
    missing: str = ""
    """Why it cannot be used as it is."""


def guess(parameters: dict[str, Node], reply: Node | None, linked: bool) -> Guess | None:
    query = {
        (node(item).get("as") or name).lower(): name
        for name, item in parameters.items()
        if node(item).get("in", "query") == "query"
    }
    size = next((query[name] for name in _SIZES if name in query), "")
    for kind, names in (("cursor", _CURSORS), ("page", _PAGES), ("offset", _OFFSETS)):
        position = next((query[name] for name in names if name in query), "")
        # "after" and "start" may be dates; a number of a part is a number.
        if position and position != size and _suits(kind, parameters[position]):
            return _made(kind, position, size, parameters, reply, linked)
    return None


def _suits(kind: str, parameter: Node) -> bool:
    kinds = types(parameter) if "type" in parameter else ["string"]
    if str(node(parameter.get("schema")).get("format", "")).startswith("date"):
        return False
    return bool({"integer", "number"} & {*kinds}) if kind != "cursor" else "string" in kinds


def _made(
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
            paging = {"kind": "link", **{key: value for key, value in paging.items() if key in _OF_SIZE}}
        elif not following:
            return Guess(paging, taken, missing="the reply does not say where the next cursor is: 'next'")
        else:
            paging["next"] = following
    if len(lists) != 1:
        missing = "the reply has several lists" if lists else "the reply is not described as a list"
        return Guess(paging, taken, missing=f"{missing}: 'result.items' of the tool")
    return Guess(paging, taken, items=lists[0])


def _number(parameter: Node, key: str, otherwise: int) -> int:
    found = parameter.get(key, node(parameter.get("schema")).get(key))
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else otherwise


def _path_of(reply: Node | None, names: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """Where the reply has one of these, itself or one level below, as `meta.total`."""
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
