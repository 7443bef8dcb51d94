"""Checks arguments against a tool's input schema before the call leaves.

With a schema that is unusable or too slow, nothing is checked: the tool's server decides anyway. The cost of
a schema is estimated first, because references can double the work with every step.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol, cast
from urllib.parse import unquote

import msgspec

from ...kit.schema.validation import reason_here
from ...languages import said
from ...results.limits import OPTION_NAMES
from ...wire.text import clean

ENDLESS = 1 << 62
AGAIN = 4
"""How often the keywords beside an `unevaluated…` are evaluated at most. (Measured: three times.)"""
MAX_KNOWN = 50_000
PATTERN, BACKTRACKING = 4, 4_000
"""Steps to match a text with a pattern, without and with backtracking up to the limit."""
PIECE = 256
"""Characters of a text that count as one part of a value."""

_SAME_PLACE = ("not", "if", "then", "else")
_SAME_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_TABLES = ("dependentSchemas", "dependencies")
_TRIES = re.compile(r"\(\?[=!<]|\\[1-9k]")
_FOREIGN = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor")

Node = dict[str, Any]
Shape = Literal["object", "list"]


class SchemaCost:
    """Estimates the steps that a schema takes for each part of a value, by the value's depth."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._by_depth: dict[int, int] = {}
        self._known: dict[tuple[int, int, Shape], int] = {}
        self._open: set[tuple[int, int, Shape]] = set()
        self.has_patterns = False
        """Whether the part of the schema seen so far has patterns."""

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
        """Returns the larger cost of objects and lists: a value is never both."""
        return max(self._at(node, depth, "object"), self._at(node, depth, "list"))

    def _at(self, node: Any, depth: int, shape: Shape) -> int:
        if not isinstance(node, dict):
            return 1
        part = cast(Node, node)
        key = (id(part), depth, shape)
        if key in self._open:  # it refers to itself without going deeper
            return ENDLESS
        if key not in self._known:
            if len(self._known) > MAX_KNOWN:
                raise LookupError("the schema is too large to estimate")
            self._open.add(key)
            here = sum(self._at(other, depth, shape) for other in self._same_place(part))
            again = AGAIN if "unevaluatedProperties" in part or "unevaluatedItems" in part else 1
            below = self._below(part, depth - 1, shape) if depth > 0 else 0
            self._known[key] = min(1 + self._matching(part) + here * again + below, ENDLESS)
            self._open.discard(key)
        return self._known[key]

    def _matching(self, node: Node) -> int:
        """Returns the cost of patterns: each is matched with each member's name."""
        patterns = [node["pattern"]] if "pattern" in node else []
        if isinstance(node.get("patternProperties"), dict):
            patterns += list(cast(Node, node["patternProperties"]))
        self.has_patterns = self.has_patterns or bool(patterns)
        return sum(BACKTRACKING if _TRIES.search(str(pattern)) else PATTERN for pattern in patterns)

    def _same_place(self, node: Node) -> Iterator[Any]:
        if any(key in node for key in _FOREIGN):
            raise LookupError("the reference cannot be resolved")
        if "$ref" in node:
            yield resolve_reference(self._root, node["$ref"])
        for key in _SAME_PLACE:
            yield node.get(key)
        for key in _SAME_PLACE_LISTS:
            yield from _list(node.get(key))
        for key in _SAME_PLACE_TABLES:
            yield from _table(node.get(key))

    def _below(self, node: Node, depth: int, shape: Shape) -> int:
        """Returns the cost inside a value. A part has one schema of its own; other keywords see all parts."""
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


def resolve_reference(root: Node, reference: Any) -> Any:
    """Resolves a reference within a schema. Raises LookupError if that is not simple."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise LookupError("the reference leads to another document")
    place: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = cast(list[Any], place)[int(name)] if isinstance(place, list) else cast(Node, place)[name]
    return place


def size_and_depth(value: Any) -> tuple[int, int]:
    """Returns the number of parts of a value, and its depth."""
    parts, depth, level = 0, 0, [value]
    while level:
        below: list[Any] = []
        for item in level:
            parts += 1
            if isinstance(item, str):
                parts += len(item) // PIECE
            elif isinstance(item, dict):
                below += cast(Node, item).values()
            elif isinstance(item, list):
                below += cast(list[Any], item)
        level = below
        depth += 1
    return parts, depth


def _list(value: Any) -> Iterable[Any]:
    return cast(list[Any], value) if isinstance(value, list) else ()


def _table(value: Any) -> Iterable[Any]:
    return cast(Node, value).values() if isinstance(value, dict) else ()


logger = logging.getLogger("toolyard.views")

MAX_KEPT = 512
MAX_KEPT_BYTES = 16 << 20
MAX_STEPS = 1_000_000
"""About 0.5 s in the worst case."""
MAX_TOLD = 200_000
"""About 0.5 s if all faults are collected: for each alternative, with a copy of the value."""
MAX_BACKTRACKS = 100_000
MAX_FAULTS = 5
MAX_SHOWN = 400
_OPTIONS = frozenset(OPTION_NAMES)
_HEAVY = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"', b'"unevaluated', b'"pattern')


class _Error(Protocol):
    @property
    def message(self) -> str: ...

    @property
    def instance_path(self) -> list[str | int]: ...

    @property
    def kind(self) -> Any: ...


class ArgumentCheck:
    """The check of one tool's arguments."""

    def __init__(self, schema: dict[str, Any], least: int) -> None:
        """`least`: an upper bound of the steps for each part of a value; 0 to estimate it."""
        import jsonschema_rs  # 4 to 23 ms of CPU, needed with the first call through a meta tool

        self._schema = schema
        self._least = least
        self._weight = SchemaCost(schema)
        self.unusable: str | None = None
        """Why nothing is checked; None if arguments are checked."""
        try:
            self._validator: Any = jsonschema_rs.validator_for(
                schema,
                validate_formats=False,
                retriever=_refuse,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS),
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            first = str(error).partition("\n")[0]
            self._validator, self.unusable = None, f"its input schema cannot be used: {clean(first)[:200]}"

    def faults(self, arguments: dict[str, Any]) -> list[str]:
        # Result options are not arguments of the tool; they are removed before it is called.
        if not _OPTIONS.isdisjoint(arguments):
            arguments = {name: value for name, value in arguments.items() if name not in _OPTIONS}
        if self._validator is None:
            return []
        parts, depth = size_and_depth(arguments)
        steps = parts * self._least
        if not steps or steps * depth > MAX_TOLD:
            steps = parts * self._weight.of(depth)
        if steps > MAX_STEPS or self._validator.is_valid(arguments):
            return []
        if steps * depth > MAX_TOLD:
            # A pattern that hit the backtracking limit also counts as not matching, so nothing is certain.
            return [] if self._weight.has_patterns else [_too_many()]
        return self._found(arguments)

    def _found(self, arguments: dict[str, Any]) -> list[str]:
        found: list[str] = []
        for error in self._validator.iter_errors(arguments):
            if error.kind.name in ("backtrackLimitExceeded", "regexEngineFailure"):
                continue
            found.append(self._told(error))
            if len(found) == MAX_FAULTS:
                break
        return found

    def _told(self, error: _Error) -> str:
        where = _path(error.instance_path)
        kind = error.kind
        if kind.name == "required":
            name = str(kind.property)
            missing, expected = _within(where, name), self._expected([*error.instance_path, name])
            return said(f"{missing!r} is missing{expected}", f"falta {missing!r}{expected}")
        if kind.name == "additionalProperties":
            names = ", ".join(repr(_within(where, name)) for name in kind.unexpected[:MAX_FAULTS])
            known = self._names(error.instance_path)
            return said(
                f"{names} not known; the tool takes {known}",
                f"desconhecido: {names}; a ferramenta aceita {known}",
            )
        told = reason_here(clean(error.message))[:MAX_SHOWN]
        return f"{where!r}: {told}{self._expected(error.instance_path)}" if where else told

    def _expected(self, path: list[str | int]) -> str:
        found = self._part(path)
        if not found:
            return ""
        shown = msgspec.json.encode(found).decode()
        shown = shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…"
        return said(f"; expected {shown}", f"; esperado {shown}")

    def _names(self, path: list[str | int]) -> str:
        return ", ".join(map(repr, list(_members(self._part(path).get("properties")))[:40])) or said(
            "none", "nenhum"
        )

    def _part(self, path: list[str | int]) -> Node:
        """Returns the schema of the value at a path, as far as that is simple."""
        part = self._schema
        for step in path:
            part = self._plain(part)
            part = _members(part.get("items") if isinstance(step, int) else part.get("properties"))
            part = part if isinstance(step, int) else _members(part.get(step))
        return self._plain(part)

    def _plain(self, part: Node) -> Node:
        """Resolves a reference, but no chain of references."""
        try:
            return _members(resolve_reference(self._schema, part["$ref"])) if "$ref" in part else part
        except (LookupError, TypeError, ValueError):
            return {}


def _too_many() -> str:
    return said(
        "there are too many faults to list; compare the arguments with the tool's input schema",
        "há erros demais para listar; compare os argumentos com o esquema de entrada da ferramenta",
    )


class ArgumentChecks:
    """Caches the checks used last; compiling one takes longer than using it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, ArgumentCheck] = OrderedDict()
        self._bytes = 0

    def faults(self, tool: str, definition: bytes, arguments: dict[str, Any]) -> list[str]:
        """Returns the faults of arguments. `definition`: the tool's JSON, without first brace and name."""
        check = self._kept.get(definition)
        if check is None:
            check = self._add(tool, definition)
        else:
            self._kept.move_to_end(definition)
        return check.faults(arguments)

    def _add(self, tool: str, definition: bytes) -> ArgumentCheck:
        check = ArgumentCheck(_input_schema(definition), _least(definition))
        if check.unusable is not None:
            logger.warning("arguments of %r are not checked: %s", tool, check.unusable)
        self._kept[definition] = check
        self._bytes += len(definition)
        while len(self._kept) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
            leaving, _ = self._kept.popitem(last=False)
            self._bytes -= len(leaving)
        return check


def _least(definition: bytes) -> int:
    """Returns the most schemas that a definition can have, if it evaluates none twice; else 0."""
    if any(word in definition for word in _HEAVY):
        return 0
    return definition.count(b"{") + definition.count(b",")


def _input_schema(definition: bytes) -> Node:
    decoded: Any = msgspec.json.decode(b"{" + definition)
    schema = _members(decoded.get("inputSchema"))
    # Some schemas name an unknown dialect; treat those as the current one.
    own = "json-schema.org" not in str(schema.get("$schema", ""))
    return {key: value for key, value in schema.items() if key != "$schema"} if own else schema


def _members(value: Any) -> Node:
    return cast(Node, value) if isinstance(value, dict) else {}


def _refuse(uri: str) -> Any:
    raise ValueError(f"schemas may not refer to other documents ({uri[:80]!r})")


def _path(steps: list[str | int]) -> str:
    return ".".join(str(step) for step in steps)


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
