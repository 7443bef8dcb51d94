"""How much work a schema can make of a value.

A schema is a stranger's. References can double the work with every step, and so does what depends on
"everything not evaluated yet"; a few hundred bytes are enough to keep a validator busy for years. What is
worked out here is never less than what a validator would do, and takes no longer than reading the schema.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast
from urllib.parse import unquote

ENDLESS = 1 << 62
AGAIN = 4
"""How often what stands beside an `unevaluated…` is looked at, at most. (Measured: three times.)"""
MAX_KNOWN = 50_000
PATTERN, BACKTRACKING = 4, 4_000
"""Steps that matching a text takes, where it is read once, and where it can be tried until it is given up."""
PIECE = 256
"""Characters of a text that are a part of a value."""

_SAME_PLACE = ("not", "if", "then", "else")
_SAME_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_TABLES = ("dependentSchemas", "dependencies")
_TRIES = re.compile(r"\(\?[=!<]|\\[1-9k]")
_FOREIGN = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor")

Node = dict[str, Any]
Shape = Literal["object", "list"]


class Weight:
    """Of one schema, for values of some depth: steps at each of the value's parts."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._by_depth: dict[int, int] = {}
        self._known: dict[tuple[int, int, Shape], int] = {}
        self._open: set[tuple[int, int, Shape]] = set()
        self.has_patterns = False
        """As far as was looked."""

    def of(self, depth: int) -> int:
        if depth not in self._by_depth:
            try:
                self._by_depth[depth] = self._worst(self._root, depth)
            except (RecursionError, LookupError, TypeError, ValueError):
                self._by_depth[depth] = ENDLESS
            self._known.clear()
            self._open.clear()
        return self._by_depth[depth]

    def _worst(self, node: Any, depth: int) -> int:
        """A value is an object or a list, never both."""
        return max(self._at(node, depth, "object"), self._at(node, depth, "list"))

    def _at(self, node: Any, depth: int, shape: Shape) -> int:
        if not isinstance(node, dict):
            return 1
        part = cast(Node, node)
        key = (id(part), depth, shape)
        if key in self._open:  # it refers to itself and comes no further
            return ENDLESS
        if key not in self._known:
            if len(self._known) > MAX_KNOWN:
                raise LookupError("it would take too long to find out")
            self._open.add(key)
            here = sum(self._at(other, depth, shape) for other in self._same_place(part))
            again = AGAIN if "unevaluatedProperties" in part or "unevaluatedItems" in part else 1
            below = self._below(part, depth - 1, shape) if depth > 0 else 0
            self._known[key] = min(1 + self._matching(part) + here * again + below, ENDLESS)
            self._open.discard(key)
        return self._known[key]

    def _matching(self, node: Node) -> int:
        """Every member's name is held against every pattern."""
        patterns = [node["pattern"]] if "pattern" in node else []
        if isinstance(node.get("patternProperties"), dict):
            patterns += list(cast(Node, node["patternProperties"]))
        self.has_patterns = self.has_patterns or bool(patterns)
        return sum(BACKTRACKING if _TRIES.search(str(pattern)) else PATTERN for pattern in patterns)

    def _same_place(self, node: Node) -> Iterator[Any]:
        if any(key in node for key in _FOREIGN):
            raise LookupError("where it leads cannot be told")
        if "$ref" in node:
            yield referred(self._root, node["$ref"])
        for key in _SAME_PLACE:
            yield node.get(key)
        for key in _SAME_PLACE_LISTS:
            yield from _list(node.get(key))
        for key in _SAME_PLACE_TABLES:
            yield from _table(node.get(key))

    def _below(self, node: Node, depth: int, shape: Shape) -> int:
        """Each part of a value is one of those named or one of the rest; the others look at all of them."""
        if shape == "object":
            one_of = [*_table(node.get("properties")), node.get("additionalProperties")]
            every = [*_table(node.get("patternProperties")), node.get("propertyNames")]
            every.append(node.get("unevaluatedProperties"))
        else:
            one_of = [*_list(node.get("prefixItems")), *_list(node.get("items"))]
            one_of += [node.get("items"), node.get("additionalItems")]
            every = [node.get("contains"), node.get("unevaluatedItems")]
        most = max((self._worst(child, depth) for child in one_of), default=0)
        return most + sum(self._worst(child, depth) for child in every)


def referred(root: Node, reference: Any) -> Any:
    """The part of a schema that a reference inside it leads to; LookupError when it leads nowhere simple."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise LookupError("it leads elsewhere")
    place: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = cast(list[Any], place)[int(name)] if isinstance(place, list) else cast(Node, place)[name]
    return place


def extent(value: Any) -> tuple[int, int]:
    """How many parts a value has, and how deep it goes."""
    parts, depth, level = 0, 0, [value]
    while level:
        parts += len(level) + sum(len(item) // PIECE for item in level if isinstance(item, str))
        level = [inner for item in level for inner in (*_table(item), *_list(item))]
        depth += 1
    return parts, depth


def _list(value: Any) -> Iterable[Any]:
    return cast(list[Any], value) if isinstance(value, list) else ()


def _table(value: Any) -> Iterable[Any]:
    return cast(Node, value).values() if isinstance(value, dict) else ()
