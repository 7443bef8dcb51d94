"""What a caller may ask of any result: `_fields`, only these parts of it, and `_max_bytes`, as much as this.

They are taken out of the arguments before the call goes to its server.
"""

from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode

MOST_BYTES = 2**20
MOST_FIELDS = 50
FIELDS, MAX_BYTES = OPTIONS = "_fields", "_max_bytes"
_MARKS = (b'"_fields"', b'"_max_bytes"')


class Options(Struct, frozen=True):
    fields: tuple[str, ...] = ()
    max_bytes: int | None = None


NONE = Options()


def taken_from(params: Raw) -> tuple[Raw, Options]:
    """The parameters without them, and what they say; InvalidParams when they make no sense."""
    body = bytes(params)
    if not any(mark in body for mark in _MARKS):
        return params, NONE
    members = decode_params(params, dict[str, Raw])
    try:
        arguments = msgspec.json.decode(members.get("arguments", Raw(b"{}")), type=dict[str, Raw])
    except msgspec.DecodeError:
        return params, NONE  # not ours to complain of
    fields, most = arguments.pop(FIELDS, None), arguments.pop(MAX_BYTES, None)
    if fields is None and most is None:
        return params, NONE
    options = Options(
        () if fields is None else _fields(msgspec.json.decode(fields)),
        None if most is None else _most(msgspec.json.decode(most)),
    )
    return Raw(encode({**members, "arguments": arguments})), options


def _fields(value: Any) -> tuple[str, ...]:
    names: Any = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    right = isinstance(names, list) and 0 < len(cast(list[Any], names)) <= MOST_FIELDS
    if not right or not all(isinstance(name, str) and name for name in cast(list[Any], names)):
        example = 'as in ["id", "user.login"]'
        raise InvalidParams(f"{FIELDS} is a list of 1 to {MOST_FIELDS} names, {example}")
    return tuple(cast(list[str], names))


def _most(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BYTES:
        raise InvalidParams(f"{MAX_BYTES} is a number of bytes from 1 to {MOST_BYTES}")
    return value


def projected(value: Any, fields: tuple[str, ...]) -> Any:
    """Only these fields of an object, or of every object of a list, wherever an envelope has that list."""
    if isinstance(value, list):
        return [projected(item, fields) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    members = cast(dict[str, Any], value)
    found: dict[str, Any] = {}
    for field in fields:
        _pick(members, field.split("."), found)
    if found:
        return found
    # None of them is here: it may be an envelope around what has them.
    inner = {name: projected(item, fields) for name, item in members.items() if isinstance(item, list | dict)}
    return {name: item for name, item in inner.items() if item not in ({}, [])}


def _pick(members: dict[str, Any], path: list[str], found: dict[str, Any]) -> None:
    name, rest = path[0], path[1:]
    if name not in members:
        return
    value = members[name]
    if not rest:
        found[name] = value
    elif isinstance(value, dict):
        inner: Any = found.setdefault(name, {})
        _pick(cast(dict[str, Any], value), rest, cast(dict[str, Any], inner) if inner is not value else {})
    elif isinstance(value, list):
        found[name] = projected(cast(list[Any], value), (".".join(rest),))
