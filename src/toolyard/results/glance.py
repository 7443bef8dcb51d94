"""Whether a result surely fits, found out with as little work as that takes: nearly all of them do.

False means that it has to be measured, not that it is big.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .envelopes import seen_through
from .json_parts import items_of, members_of
from .limits import Limits

_NOTHING = Raw(b'""')


class _Block(Struct):
    type: str
    text: Raw = _NOTHING


class _Result(Struct, rename="camel"):
    content: list[_Block] = []
    structured_content: Raw | UnsetType = UNSET
    is_error: bool = False


_decode = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def surely_fits(body: bytes, limits: Limits) -> bool:
    if len(body) > limits.max_bytes:
        return False
    if body.count(b",") < limits.max_items:
        few = min(limits.max_lines, limits.max_items)
        if body.count(b"\\n") < few and b"\\u000" not in body:
            return True
    try:
        return _looked_into(_decode(body), limits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _looked_into(result: _Result, limits: Limits) -> bool:
    """It has few enough bytes; what counts are items, keys and lines."""
    if result.is_error:
        return True
    said = _NOTHING
    for block in result.content:
        if block.type == "text" and said is _NOTHING:
            said = block.text
        elif block.type not in ("image", "audio"):
            return False
    if said is not _NOTHING and not _text_fits(_decode_text(said), limits):
        return False
    structured = result.structured_content
    return structured is UNSET or _value_fits(structured, said, limits)


def _value_fits(value: Raw, said: Raw, limits: Limits) -> bool:
    """`said`: the text beside it, which fits."""
    body = bytes(value)
    if body[:1] == b"{":
        members = _decode_members(body)
        if len(members) == 1:
            (inner,) = map(bytes, members.values())
            if inner[:1] == b'"':
                return inner == bytes(said) or _text_fits(_decode_text(inner), limits)
    return _json_fits(body, limits)


def _text_fits(text: str, limits: Limits) -> bool:
    first = text[:1]
    if first == "[":
        return len(_decode_items(text)) <= limits.max_items
    if first == "{":
        return _json_fits(text.encode(), limits)
    # What begins with white space may be JSON too.
    return not first.isspace() and text.count("\n") < limits.max_lines


def _json_fits(body: bytes, limits: Limits) -> bool:
    inner = seen_through(body).inner
    items = items_of(inner)
    count = items.count if items is not None else len(members_of(inner) or ())
    return 0 < count <= limits.max_items
