"""What a caller may ask of any result: `_fields`, only these parts of it, and `_max_bytes`, as much as this.

They are taken out of the arguments before the call goes to its server, unless its tool has a parameter of
that name itself.
"""

from collections.abc import Collection
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode

MOST_BYTES = 2**20
MOST_FIELDS = 50
FIELDS, MAX_BYTES = OPTIONS = "_fields", "_max_bytes"


class Options(Struct, frozen=True):
    fields: tuple[str, ...] = ()
    max_bytes: int | None = None


NONE = Options()


def may_have_options(params: bytes) -> bool:
    return b'"_fields"' in params or b'"_max_bytes"' in params


def taken_from(params: Raw, own: Collection[str] = ()) -> tuple[Raw, Options]:
    """The parameters without them, and what they say; InvalidParams when they make no sense.

    `own`: parameters of the tool's own, which are left alone.
    """
    members = decode_params(params, dict[str, Raw])
    try:
        arguments = msgspec.json.decode(members.get("arguments", Raw(b"{}")), type=dict[str, Raw])
    except msgspec.DecodeError:
        return params, NONE  # not ours to complain of
    found = {name: arguments.pop(name) for name in OPTIONS if name in arguments and name not in own}
    if not found:
        return params, NONE
    fields, most = (msgspec.json.decode(found.get(name, Raw(b"null"))) for name in OPTIONS)
    # Models write `null` for what they do not want.
    options = Options(() if fields is None else _fields(fields), None if most is None else _most(most))
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
