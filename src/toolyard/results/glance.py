"""Whether a result surely fits, found out with as little work as that takes: nearly all of them do.

False means that it has to be measured, not that it is big.
"""

import msgspec
from msgspec import Raw, Struct

from .envelopes import DEEPEST
from .limits import Limits
from .payload import MEDIA, NOTHING

_WRAPPED = b'{"result":"'
"""A text as most SDKs send it once more, as structured content."""


class _Block(Struct, gc=False):
    type: str
    text: Raw = NOTHING


class _Result(Struct, rename="camel", gc=False):
    content: list[_Block] = []
    structured_content: Raw = NOTHING
    is_error: bool = False


_decode = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def surely_fits(body: bytes, limits: Limits) -> bool:
    if len(body) > limits.max_bytes:
        return False
    if body.count(b",") < limits.max_items:
        breaks = body.count(b"\\n")
        # Some write line breaks and commas by their numbers: those have to be read.
        if breaks < limits.max_lines and breaks < limits.max_items and b"\\u00" not in body:
            return True
    try:
        return _looked_into(_decode(body), limits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _looked_into(result: _Result, limits: Limits) -> bool:
    """It has few enough bytes; what counts are items, keys and lines."""
    if result.is_error:
        return True
    said = b""
    for block in result.content:
        if block.type == "text" and not said:
            said = bytes(block.text)
        elif block.type not in MEDIA:
            return False
    if said and not _text_fits(_decode_text(said), limits):
        return False
    structured = bytes(result.structured_content)
    if not structured:
        return True
    if not structured.startswith(_WRAPPED):
        return _value_fits(structured, limits)
    # Written in the same letters it is the text that was looked at; else it is measured.
    return structured[len(_WRAPPED) - 1 : -1] == said


def _text_fits(text: str, limits: Limits) -> bool:
    first = text[:1]
    if first in ("[", "{"):
        return _container_fits(text.encode(), limits)
    # What begins with white space may be JSON too.
    return not first.isspace() and text.count("\n") < min(limits.max_lines, limits.max_items)


def _value_fits(body: bytes, limits: Limits) -> bool:
    if body[:1] not in (b"[", b"{"):
        return body[:1] != b'"'  # numbers have neither items nor lines
    return _container_fits(body, limits)


def _container_fits(body: bytes, limits: Limits, depth: int = DEEPEST) -> bool:
    """A list of few items, or an object of few members, of which none has more; that may be an envelope."""
    if body[:1] == b"[":
        return len(_decode_items(body)) <= limits.max_items
    members = _decode_members(body)
    if len(members) > limits.max_items or depth == 0:
        return False
    inner = [bytes(raw) for raw in members.values()]
    if len(inner) == 1 and inner[0][:1] == b'"':
        return False  # a text, perhaps, in an object that is there only because it has to be
    return all(
        value.count(b",") < limits.max_items or _container_fits(value, limits, depth - 1)
        for value in inner
        if value[:1] in (b"[", b"{")
    )
