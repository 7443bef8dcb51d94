"""Whether what a file says has the form of its struct: every key that is unknown, missing or of a wrong type.

Owns the form only. msgspec stops at the first mistake, and says neither what would have been right; so tables
are walked here, and msgspec judges one value at a time. What values mean is for `checking`.
"""

import re
import typing
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, cast

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType

from ..config.errors import nearest, nearest_or_all
from .mistakes import Keys, Mistake

_AT = re.compile(r"(.*) - at `\$(.*)`$", re.S)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_PLAIN = {
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list: […]",
    "object": "a table",
}


def mistakes(raw: Any, kind: type[Struct], keys: Keys = ()) -> Iterator[Mistake]:
    if not isinstance(raw, dict):
        yield Mistake(keys, f"must be a table, not {_name(raw)}")
        return
    values = cast("dict[str, Any]", raw)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    hints = typing.get_type_hints(kind)
    for key, value in values.items():
        if key not in fields:
            yield Mistake((*keys, key), f"there is no key {key!r} here", _known(key, fields))
        else:
            yield from _of_value(value, hints[fields[key].name], (*keys, key))
    for key, field in fields.items():
        if field.default is NODEFAULT and field.default_factory is NODEFAULT and key not in values:
            yield Mistake(keys, f"the key {key!r} is missing")


def _known(key: str, fields: Mapping[str, Any]) -> str:
    return nearest(key, fields) or f"known are {', '.join(fields)}"


def _of_value(value: Any, kind: Any, keys: Keys) -> Iterator[Mistake]:
    struct = _struct_of(kind)
    if struct is not None:
        yield from mistakes(value, struct, keys)
        return
    inner = _struct_in_dict(kind)
    if inner is not None and isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from mistakes(item, inner, (*keys, name))
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        yield _explained(str(error), value, kind, keys)


def _struct_of(kind: Any) -> type[Struct] | None:
    """A struct, or a struct that may be left out."""
    if typing.get_origin(kind) in (Union, UnionType):
        kinds = [item for item in typing.get_args(kind) if item not in (type(None), UnsetType)]
        kind = kinds[0] if len(kinds) == 1 else None
    return kind if isinstance(kind, type) and issubclass(kind, Struct) else None


def _struct_in_dict(kind: Any) -> type[Struct] | None:
    return _struct_of(typing.get_args(kind)[1]) if typing.get_origin(kind) is dict else None


def _explained(message: str, value: Any, kind: Any, keys: Keys) -> Mistake:
    at = _AT.match(message)
    message, inside = (at[1], _steps(at[2])) if at else (message, ())
    if typing.get_origin(kind) is Literal and isinstance(value, str):
        choices = [choice for choice in typing.get_args(kind) if choice]
        return Mistake(keys, f"{value!r} is not possible here", nearest_or_all(value, choices))
    expected = re.match(r"Expected `([^`]*)`, got `([^`]*)`", message)
    if expected:
        wanted = " or ".join(_PLAIN.get(name.strip(), name.strip()) for name in expected[1].split("|"))
        return Mistake((*keys, *inside), f"must be {wanted}, not {_name(_at(value, inside))}")
    return Mistake((*keys, *inside), message[:1].lower() + message[1:])


def _steps(path: str) -> Keys:
    return tuple(name if name else int(number) for name, number in _STEP.findall(path))


def _at(value: Any, keys: Keys) -> Any:
    """Values of dictionaries are `[...]` in msgspec's paths, without their names: then the nearest known."""
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _name(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"
