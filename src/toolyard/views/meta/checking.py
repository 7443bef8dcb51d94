"""Arguments against a tool's input schema, before anything leaves.

Owns what a caller is told about arguments that do not fit. A schema that cannot be used, or would take
too long, checks nothing: the tool's own server has the last word anyway.
"""

import logging
from collections import OrderedDict
from typing import Any, Protocol, cast

import msgspec

from ...results.options import OPTIONS
from ...wire.text import clean
from .weight import Node, Weight, extent, referred

logger = logging.getLogger("toolyard.views")

MAX_KEPT = 512
MAX_KEPT_BYTES = 16 << 20
MAX_STEPS = 1_000_000
"""About 0.5 s, for what is worked out to be the worst."""
MAX_TOLD = 200_000
"""As long, when all that does not fit is collected: of each alternative, with a copy of the value."""
MAX_BACKTRACKS = 100_000
MAX_FAULTS = 5
MAX_SHOWN = 400
UNTOLD = "they are too many to say where; compare them with the tool's input schema"
_HEAVY = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"', b'"unevaluated', b'"pattern')


class _Error(Protocol):
    @property
    def message(self) -> str: ...

    @property
    def instance_path(self) -> list[str | int]: ...

    @property
    def kind(self) -> Any: ...


class Check:
    """One tool's."""

    def __init__(self, schema: dict[str, Any], least: int) -> None:
        """`least`: steps that no part of a value takes more of; 0 when that has to be worked out."""
        import jsonschema_rs  # 4 to 23 ms of CPU, needed with the first call through a meta tool

        self._schema = schema
        self._least = least
        self._weight = Weight(schema)
        self.unusable: str | None = None
        """Why nothing is checked."""
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
        # What a caller may ask of any result is no argument of the tool, and is taken out on the way.
        arguments = {name: value for name, value in arguments.items() if name not in OPTIONS}
        if self._validator is None:
            return []
        steps, depth = self._work(arguments)
        if steps > MAX_STEPS or self._validator.is_valid(arguments):
            return []
        if steps * depth > MAX_TOLD:
            # A pattern that was given up does not fit either, and nothing is known of it.
            return [] if self._weight.has_patterns else [UNTOLD]
        return self._found(arguments)

    def _work(self, arguments: dict[str, Any]) -> tuple[int, int]:
        """The most steps that these can take, and how deep they go."""
        parts, depth = extent(arguments)
        if self._least and parts * self._least * depth <= MAX_TOLD:
            return parts * self._least, depth
        return parts * self._weight.of(depth), depth

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
            return f"{_within(where, name)!r} is missing{self._expected([*error.instance_path, name])}"
        if kind.name == "additionalProperties":
            names = ", ".join(repr(_within(where, name)) for name in kind.unexpected[:MAX_FAULTS])
            return f"{names} not known; there are {self._names(error.instance_path)}"
        told = clean(error.message)[:MAX_SHOWN]
        return f"{where!r}: {told}{self._expected(error.instance_path)}" if where else told

    def _expected(self, path: list[str | int]) -> str:
        found = self._part(path)
        if not found:
            return ""
        shown = msgspec.json.encode(found).decode()
        return f"; expected {shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + '…'}"

    def _names(self, path: list[str | int]) -> str:
        return ", ".join(map(repr, list(_members(self._part(path).get("properties")))[:40])) or "none"

    def _part(self, path: list[str | int]) -> Node:
        """What the schema says of the value at a path, as far as it can be followed simply."""
        part = self._schema
        for step in path:
            part = self._plain(part)
            part = _members(part.get("items") if isinstance(step, int) else part.get("properties"))
            part = part if isinstance(step, int) else _members(part.get(step))
        return self._plain(part)

    def _plain(self, part: Node) -> Node:
        """With a reference followed, though not one to a further reference."""
        try:
            return _members(referred(self._schema, part["$ref"])) if "$ref" in part else part
        except (LookupError, TypeError, ValueError):
            return {}


class Checks:
    """Those used last; compiling one takes longer than using it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Check] = OrderedDict()
        self._bytes = 0

    def of(self, tool: str, definition: bytes) -> Check:
        """`definition`: the tool's JSON, without its opening bracket and name."""
        found = self._kept.get(definition)
        if found is not None:
            self._kept.move_to_end(definition)
            return found
        check = Check(_input_schema(definition), _least(definition))
        if check.unusable is not None:
            logger.warning("arguments of %r are not checked: %s", tool, check.unusable)
        self._kept[definition] = check
        self._bytes += len(definition)
        while len(self._kept) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
            leaving, _ = self._kept.popitem(last=False)
            self._bytes -= len(leaving)
        return check


def _least(definition: bytes) -> int:
    """Where nothing is looked at twice: as many as there can be schemas in it."""
    if any(word in definition for word in _HEAVY):
        return 0
    return definition.count(b"{") + definition.count(b",")


def _input_schema(definition: bytes) -> Node:
    decoded: Any = msgspec.json.decode(b"{" + definition)
    schema = _members(decoded.get("inputSchema"))
    # Which dialect it is in is said by some in words of their own; then it is taken for today's.
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
