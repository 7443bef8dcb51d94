"""A value from its text, as a JSON Schema says it should be read."""

from collections.abc import Callable
from typing import Any

import msgspec

from .shapes import Object, as_list, as_object


class Unreadable(ValueError):
    """A text that is no value of its schema; the message says what was expected."""


def read_value(text: str, schema: Object, root: Object) -> Any:
    """The value that `text` stands for under `schema`; Unreadable when there is none."""
    kinds = kinds_of(schema, root)
    for kind, read in _READERS.items():
        if kind in kinds:
            try:
                return read(text)
            except (ValueError, RecursionError):
                continue
    raise Unreadable(" or ".join(name for kind, name in _NAMES.items() if kind in kinds) or "nothing")


def kinds_of(schema: Object, root: Object) -> set[str]:
    """The JSON types that a schema admits; all of them when it does not say."""
    try:
        return _kinds(schema, root, set()) or set(_READERS)
    except RecursionError:  # a thousand references in a row say nothing either
        return set(_READERS)


def _kinds(schema: Object, root: Object, seen: set[str]) -> set[str]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in seen:
            return set()
        seen.add(reference)
        return _kinds(_resolve(reference, root), root, seen)
    declared = schema.get("type")
    if declared is not None:
        return {
            kind for kind in (as_list(declared) or [declared]) if isinstance(kind, str) and kind in _READERS
        }
    options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    if options:
        return set[str]().union(*(_kinds(as_object(option), root, seen) for option in options))
    values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    return {_kind_of(value) for value in values}


def resolved(schema: Object, root: Object) -> Object:
    """The schema that a reference leads to, or the schema itself; what leads nowhere is empty."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        schema = _resolve(reference, root)
    return schema


def _resolve(reference: str, root: Object) -> Object:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = as_object(found).get(step.replace("~1", "/").replace("~0", "~"))
    return as_object(found)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = (("string", str), ("integer", int), ("number", float), ("array", list), ("object", dict))
    return next((name for name, kind in names if isinstance(value, kind)), "null")


def _json_of(*kinds: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = msgspec.json.decode(text)
        if type(value) not in kinds:
            raise ValueError(text)
        return value

    return read


def _integer(text: str) -> int:
    value = _json_of(int, float)(text)
    if value != int(value):
        raise ValueError(text)
    return int(value)


# In the order they are tried: where a string is admitted, what fits nothing before it is one.
_READERS: dict[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _json_of(int, float),
    "boolean": _json_of(bool),
    "array": _json_of(list),
    "object": _json_of(dict),
    "string": str,
    "null": _json_of(type(None)),
}
_NAMES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
    "string": "a string",
    "null": "null",
}


def kinds_shown(schema: Object, root: Object) -> str:
    """`integer|string`, or `any`."""
    kinds = kinds_of(schema, root)
    return "any" if len(kinds) == len(_READERS) else "|".join(kind for kind in _READERS if kind in kinds)
