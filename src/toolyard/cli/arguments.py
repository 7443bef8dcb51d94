"""A tool's arguments from the command line."""

from difflib import get_close_matches
from typing import Any

import msgspec

from .failure import Failure
from .shapes import Object, as_list, as_object
from .values import Unreadable, kinds_shown, read_value


def read_arguments(pairs: tuple[str, ...], whole: str | bytes | None, tool: Object) -> dict[str, Any]:
    """`--args` and then the `key=value` pairs, which win."""
    schema = as_object(tool.get("inputSchema"))
    arguments = _read_object(whole) if whole is not None else {}
    given: set[str] = set()
    for pair in pairs:
        if not _is_text(pair):
            raise Failure(f"{pair!r} is not UTF-8", "other bytes cannot be sent as JSON")
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise Failure(f"{pair!r} is not key=value", usage(tool))
        if key in given:
            raise Failure(f"argument {key!r} was given twice", "a list is written as JSON: key='[1, 2]'")
        given.add(key)
        try:
            arguments[key] = read_value(text, _property(key, schema, tool), schema)
        except Unreadable as error:
            raise Failure(f"argument {key!r} must be {error}, not {text!r}", usage(tool)) from None
    return arguments


def _is_text(argument: str) -> bool:
    """Python carries the bytes of an argument that it cannot decode as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _read_object(text: str | bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise Failure(f"--args is not a JSON object: {error}", """as in --args '{"a": 1}'""") from None


def _property(key: str, schema: Object, tool: Object) -> Object:
    properties = as_object(schema.get("properties"))
    if key in properties:
        return as_object(properties[key])
    rest = schema.get("additionalProperties")
    if rest is False:
        near = get_close_matches(key, list(properties), 1)
        advice = f"did you mean {near[0]!r}?" if near else usage(tool)
        raise Failure(f"tool {tool['name']!r} takes no argument {key!r}", advice)
    return as_object(rest)


def usage(tool: Object) -> str:
    """What a tool takes, in a line: `add takes a: number, b: number`."""
    return f"{tool['name']} takes {signature(tool) or 'no arguments'}"


def signature(tool: Object) -> str:
    """`a: number, b: string?`, where the question mark means it may be left out."""
    schema = as_object(tool.get("inputSchema"))
    required = as_list(schema.get("required"))
    return ", ".join(
        f"{name}: {kinds_shown(as_object(prop), schema)}{'' if name in required else '?'}"
        for name, prop in as_object(schema.get("properties")).items()
    )
