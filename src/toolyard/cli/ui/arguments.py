"""Reads typed text as JSON values by a JSON Schema: one value, `KEY=VALUE` pairs, a tool's arguments."""

from collections.abc import Callable
from typing import Any

import msgspec

from ..json_values import JsonMapping, as_list, as_object
from .messages import CommandError


class InvalidValueError(ValueError):
    """A text does not fit its schema; the message says what was expected."""


def read_value(text: str, schema: JsonMapping, root: JsonMapping) -> Any:
    """Read `text` as a value of `schema`; InvalidValueError if it is not one."""
    kinds = json_types(schema, root)
    for kind, read in _READERS.items():
        if kind in kinds:
            try:
                return read(text)
            except (ValueError, RecursionError):
                continue
    raise InvalidValueError(
        " or ".join(name for kind, name in _TYPE_NAMES.items() if kind in kinds) or "nothing"
    )


def json_types(schema: JsonMapping, root: JsonMapping) -> set[str]:
    """The JSON types that a schema admits; all of them if it does not say."""
    try:
        return _json_types(schema, root, set()) or set(_READERS)
    except RecursionError:  # a thousand references in a row
        return set(_READERS)


def _json_types(schema: JsonMapping, root: JsonMapping, seen: set[str]) -> set[str]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in seen:
            return set()
        seen.add(reference)
        return _json_types(_resolve(reference, root), root, seen)
    declared = schema.get("type")
    if declared is not None:
        return {
            kind for kind in (as_list(declared) or [declared]) if isinstance(kind, str) and kind in _READERS
        }
    options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    if options:
        return set[str]().union(*(_json_types(as_object(option), root, seen) for option in options))
    values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    return {_kind_of(value) for value in values}


def follow_reference(schema: JsonMapping, root: JsonMapping) -> JsonMapping:
    """Resolve a schema's `$ref`, if it has one; an unknown reference gives an empty schema."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        schema = _resolve(reference, root)
    return schema


def _resolve(reference: str, root: JsonMapping) -> JsonMapping:
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


# In the order they are tried: a text that fits nothing else is a string, if the schema admits one.
_READERS: dict[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _json_of(int, float),
    "boolean": _json_of(bool),
    "array": _json_of(list),
    "object": _json_of(dict),
    "string": str,
    "null": _json_of(type(None)),
}
_TYPE_NAMES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
    "string": "a string",
    "null": "null",
}


def format_types(schema: JsonMapping, root: JsonMapping) -> str:
    """`integer|string`, or `any`."""
    kinds = json_types(schema, root)
    return "any" if len(kinds) == len(_READERS) else "|".join(kind for kind in _READERS if kind in kinds)


def read_arguments(pairs: tuple[str, ...], whole: str | bytes | None, tool: JsonMapping) -> dict[str, Any]:
    """Merge `--args` with the `KEY=VALUE` pairs, which win, and check them by the tool's schema."""
    schema = as_object(tool.get("inputSchema"))
    arguments = _read_object(whole) if whole is not None else {}
    for key, text in read_pairs(pairs, usage(tool), "a list is written as JSON: key='[1, 2]'").items():
        try:
            arguments[key] = read_value(text, _property(key, schema, tool), schema)
        except InvalidValueError as error:
            raise CommandError(f"argument {key!r} must be {error}, not {text!r}", usage(tool)) from None
    return arguments


def read_pairs(pairs: tuple[str, ...], form_hint: str = "", twice_hint: str = "") -> dict[str, str]:
    """The `KEY=VALUE` pairs of a command, each key once."""
    found: dict[str, str] = {}
    for pair in pairs:
        if not is_utf8(pair):
            raise CommandError(f"{pair!r} is not UTF-8", "JSON cannot carry other bytes")
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise CommandError(f"{pair!r} is not KEY=VALUE", *filter(None, [form_hint]))
        if key in found:
            raise CommandError(f"argument {key!r} was given twice", *filter(None, [twice_hint]))
        found[key] = value
    return found


def read_setting(option: str) -> tuple[str, str]:
    """The NAME and VALUE of one `--option`."""
    name, equals, value = option.partition("=")
    if not equals or not name:
        raise CommandError(f"--option {option!r} is not NAME=VALUE", "such as --option locale=pt")
    return name.replace("-", "_"), value


def is_utf8(argument: str) -> bool:
    """Whether it could be decoded: Python keeps the other bytes of an argument as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _read_object(text: str | bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--args is not a JSON object: {error}", """as in --args '{"a": 1}'""") from None


def _property(key: str, schema: JsonMapping, tool: JsonMapping) -> JsonMapping:
    properties = as_object(schema.get("properties"))
    if key in properties:
        return as_object(properties[key])
    rest = schema.get("additionalProperties")
    if rest is False:
        from difflib import get_close_matches  # 5 ms, and only a mistake needs it

        near = get_close_matches(key, list(properties), 1)
        advice = f"did you mean {near[0]!r}?" if near else usage(tool)
        raise CommandError(f"tool {tool['name']!r} takes no argument {key!r}", advice)
    return as_object(rest)


def usage(tool: JsonMapping) -> str:
    """The arguments of a tool in one line: `add takes a: number, b: number`."""
    return f"{tool['name']} takes {signature(tool) or 'no arguments'}"


def signature(tool: JsonMapping) -> str:
    """`a: number, b: string?`; a question mark means optional."""
    schema = as_object(tool.get("inputSchema"))
    required = as_list(schema.get("required"))
    return ", ".join(
        f"{name}: {format_types(as_object(prop), schema)}{'' if name in required else '?'}"
        for name, prop in as_object(schema.get("properties")).items()
    )
