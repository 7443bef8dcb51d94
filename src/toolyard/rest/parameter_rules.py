"""What must hold for one parameter wherever it is used, of a tool or shared."""

from collections.abc import Iterator
from datetime import date, datetime, time
from math import isfinite
from typing import Any, cast

from ..config.errors import nearest_or_all
from .mistakes import Keys, Mistake
from .table import Parameter
from .words import HEADER_NAME, OUR_HEADERS, PARAMETER_NAME

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_BESIDE = ("type", "description", "default")


def rules_of_parameter(parameter: Parameter, keys: Keys, name: str) -> Iterator[Mistake]:
    if not PARAMETER_NAME.fullmatch(name):
        hint = "letters, digits, '_', '-' and '.', 64 at most; 'as' says what the API calls it"
        yield Mistake(keys, f"{name!r} is no name that models take", hint)
    yield from _type(parameter, keys)
    yield from _files_and_ids(parameter, keys)
    yield from _lookup(parameter, keys)
    if parameter.setting and not parameter.setting.isidentifier():
        yield Mistake((*keys, "setting"), f"{parameter.setting!r} is no name of a setting")
    if parameter.required and (parameter.setting or not _unset(parameter)):
        yield Mistake(
            (*keys, "required"), "what has a default or a setting is never required", "leave one of them out"
        )
    if parameter.place == "header":
        wire = parameter.name or name
        if not HEADER_NAME.fullmatch(wire) or wire.lower() in OUR_HEADERS:
            yield Mistake((*keys, "as"), f"{wire!r} is no header that a parameter can be")


def _unset(parameter: Parameter) -> bool:
    from msgspec import UNSET

    return parameter.default is UNSET


def types_of(parameter: Parameter) -> tuple[str, ...]:
    return (parameter.type,) if isinstance(parameter.type, str) else parameter.type


def schema_of(parameter: Parameter) -> dict[str, Any]:
    named = {"type": parameter.type} if isinstance(parameter.type, str) else {"type": list(parameter.type)}
    return {**named, **parameter.schema}


def _type(parameter: Parameter, keys: Keys) -> Iterator[Mistake]:
    for kind in types_of(parameter) or ("",):
        if kind not in TYPES:
            yield Mistake((*keys, "type"), f"{kind!r} is no type of JSON", nearest_or_all(kind, TYPES))
            return
    for key in _BESIDE:
        if key in parameter.schema:
            yield Mistake((*keys, "schema", key), f"{key!r} is said beside 'schema', not in it")
            return
    yield from (found := list(wrong_schema(parameter.schema, (*keys, "schema"))))
    if not found and not _unset(parameter):
        yield from _default(parameter, (*keys, "default"))


def _default(parameter: Parameter, keys: Keys) -> Iterator[Mistake]:
    found = list(no_json(parameter.default, keys))
    yield from found
    if found or parameter.ids or parameter.place == "file":
        return
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema_of(parameter)).validate(parameter.default)
    except jsonschema_rs.ValidationError as error:
        yield Mistake(keys, f"does not fit its own schema: {error.message[:200]}")


def wrong_schema(schema: dict[str, Any], keys: Keys) -> Iterator[Mistake]:
    """What is no JSON Schema, as far as its own rules go; a schema's `$ref` stays inside it."""
    found = list(no_json(schema, keys))
    yield from found
    if found:
        return
    import jsonschema_rs  # checks of files only; 3 ms of CPU

    outside = [reference for reference in _references(schema) if not reference.startswith("#")]
    if outside:
        yield Mistake(keys, f"refers to {outside[0]!r}, which is outside of it")
        return
    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        message = getattr(error, "message", None) or str(error).splitlines()[0]
        yield Mistake(keys, f"is no JSON Schema: {message[:200]}")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if isinstance(found.get("$ref"), str):
            yield found["$ref"]
        for item in found.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _references(item)


def no_json(value: Any, keys: Keys) -> Iterator[Mistake]:
    """TOML has dates, and numbers that are none; JSON has neither, and nobody reads longer whole numbers."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from no_json(item, (*keys, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from no_json(item, (*keys, number))
    elif isinstance(value, date | datetime | time):
        yield Mistake(keys, "JSON has no dates", "put it in quotes")
    elif isinstance(value, float) and not isfinite(value):
        yield Mistake(keys, f"JSON has no {value}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield Mistake(keys, "is too big a number")


def _files_and_ids(parameter: Parameter, keys: Keys) -> Iterator[Mistake]:
    kinds = types_of(parameter)
    if parameter.place == "file":
        if "array" not in kinds:
            yield Mistake((*keys, "type"), "files come as an array", "set type to 'array'")
        for key in ("max_files", "max_bytes"):
            if getattr(parameter, key) < 1:
                yield Mistake((*keys, key), "must be 1 at least")
    else:
        for key in ("max_files", "max_bytes"):
            if getattr(parameter, key) != getattr(Parameter(), key):
                yield Mistake((*keys, key), "is for files", "set 'in' to 'file'")
    if parameter.ids < 0:
        yield Mistake((*keys, "ids"), "must not be below 0")
    if parameter.ids and not {"string", "array"} & {*kinds}:
        yield Mistake((*keys, "type"), "a list of ids is a string or an array")


def _lookup(parameter: Parameter, keys: Keys) -> Iterator[Mistake]:
    if parameter.lookup and not parameter.gives:
        yield Mistake(keys, "the key 'gives' is missing: the parameter that gets the id")
    if parameter.gives and not parameter.lookup:
        yield Mistake((*keys, "gives"), "nothing is looked up", "name a lookup in 'lookup'")
    if parameter.lookup and "string" not in types_of(parameter):
        yield Mistake((*keys, "type"), "a name that is looked up is a string")
