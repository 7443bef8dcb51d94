"""The content of a tool's result, independent of its form.

A result may say the same thing twice, as text and as structured content, and may wrap a value in an
object only because structured content has to be one. A payload has each thing once, as JSON or as text.
Images and audio are left alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .formats.json_parts import (
    LIST,
    OBJECT,
    STRING,
    Buffer,
    first_byte,
    is_json,
    items_of,
    members_of,
    value_of,
)

PIECE = 256 * 1024
LONGEST_LETTER = 12
"""Bytes of a pair of escapes; the end of a piece may cut it anywhere."""


class BrokenTextError(ValueError):
    """The bytes are not the inside of a JSON string."""


def unescape(escaped: bytes, ended: bool) -> tuple[str, bytes]:
    """Returns the text, and the bytes of an incomplete escape or character at the end."""
    for wait in range(1 if ended else LONGEST_LETTER):
        end = len(escaped) - wait
        try:
            return msgspec.json.decode(b'"' + escaped[:end] + b'"', type=str), escaped[end:]
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    raise BrokenTextError


def decode_string(literal: Raw) -> bytes | bytearray:
    """Decodes a JSON string to UTF-8. Raises msgspec.DecodeError for anything else."""
    view = memoryview(literal)
    if len(view) <= PIECE:
        return msgspec.json.decode(literal, type=str).encode()
    if view[0] != 0x22:
        raise msgspec.DecodeError("not a string")
    found = bytearray()
    carry = b""
    for start in range(1, len(view) - 1, PIECE):
        end = min(start + PIECE, len(view) - 1)
        text, carry = unescape(carry + view[start:end], end == len(view) - 1)
        found += text.encode()
    return found


COMPARED = 2**20
"""Bytes; longer values are compared part by part, never decoded at once."""
DEEPEST_COMPARED = 4


def texts_repeat(texts: Sequence[Buffer], value: Buffer) -> bool:
    if len(texts) == 1 and _same(texts[0], value):
        return True
    # Some servers send a list as one text for each item.
    items = items_of(value)
    return (
        items is not None
        and items.count == len(items.parts) == len(texts)
        and all(_same(text, memoryview(part)) for text, part in zip(texts, items.parts, strict=True))
    )


def _same(text: Buffer, value: Buffer) -> bool:
    if _equal_bytes(text, value):
        return True
    try:
        if first_byte(value) == STRING:
            return msgspec.json.decode(value, type=str).encode() == text
        return _without_whitespace(text) == _without_whitespace(value) or _equal_values(text, value)
    except (ValueError, RecursionError):
        return False


def _equal_values(one: Buffer, other: Buffer, depth: int = DEEPEST_COMPARED) -> bool:
    """Compares values, whatever their escapes, number formats and order of members."""
    if len(one) <= COMPARED and len(other) <= COMPARED:
        return value_of(one) == value_of(other)
    if depth == 0:
        return False
    ours, theirs = _parts_of(one), _parts_of(other)
    if ours is None or theirs is None or ours.keys() != theirs.keys():
        return False
    pairs = ((memoryview(part), memoryview(theirs[name])) for name, part in ours.items())
    return all(_equal_values(part, its_twin, depth - 1) for part, its_twin in pairs)


def _parts_of(body: Buffer) -> Mapping[Any, Raw] | None:
    """Returns the parts of a list or an object; None for other values, and if there are too many parts."""
    items = items_of(body)
    if items is None:
        return members_of(body)
    return dict(enumerate(items.parts)) if items.are_all else None


def _equal_bytes(one: Buffer, other: Buffer) -> bool:
    """Compares in pieces: memory views compare slowly, and copies of long bodies take memory."""
    return len(one) == len(other) and all(
        bytes(one[at : at + PIECE]) == bytes(other[at : at + PIECE]) for at in range(0, len(one), PIECE)
    )


def _without_whitespace(body: Buffer) -> bytes:
    """Returns JSON without white space."""
    return msgspec.json.format(body, indent=-1)


NOTHING = Raw(b"")
NO_BLOCKS = Raw(b"[]")
MOST_BLOCKS = 100_000
MEDIA = ("image", "audio")
LONGEST_AS_SENT = 64 * 1024
WRAPPERS = ("result",)
"""Names of the only member of an object in which SDKs wrap a value."""


class PayloadPart(Struct, frozen=True):
    """One JSON value, or one text, in UTF-8."""

    body: Buffer
    is_json: bool


class Payload(Struct, frozen=True):
    texts: tuple[PayloadPart, ...] = ()
    """The texts that do not repeat the structured part."""
    values: tuple[PayloadPart, ...] = ()
    """Like `texts`, but resources are whole, with their addresses."""
    structured: PayloadPart | None = None
    links: tuple[Raw, ...] = ()
    """Link blocks, and blocks of unknown kinds."""
    media: tuple[Raw, ...] = ()
    meta: Raw = NOTHING
    """The result's `_meta`."""
    kind: str = "complete"
    """Its `resultType`."""
    is_error: bool = False
    uri: str = ""
    """The address of the resource, if the result is one resource."""
    as_sent: "OriginalForms | None" = None
    """Set if the texts and the structured part say different things."""


class OriginalForms(Struct, frozen=True):
    """The two forms of a result as they came; empty if a form is long."""

    texts: tuple[Raw, ...]
    """Blocks."""
    structured: Raw


class _Contents(Struct):
    text: Raw = NOTHING
    uri: str = ""


class _Block(Struct):
    type: str = ""
    text: Raw = NOTHING
    resource: Raw = NOTHING


class _Result(Struct, rename="camel"):
    content: Raw = NO_BLOCKS
    structured_content: Raw | UnsetType = UNSET
    is_error: bool = False
    result_type: str = "complete"
    meta: Raw = field(default=NOTHING, name="_meta")


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_block = msgspec.json.Decoder(_Block).decode
_decode_contents = msgspec.json.Decoder(_Contents).decode


class _SortedBlocks:
    """The blocks of a result, sorted by kind."""

    def __init__(self, content: Sequence[Raw]) -> None:
        self.texts: list[PayloadPart] = []
        self.values: list[PayloadPart] = []
        self.links: list[Raw] = []
        self.media: list[Raw] = []
        self.said: list[Raw] = []
        self.uri = ""
        for raw in content:
            self._put(raw)

    def _put(self, raw: Raw) -> None:
        block = _decode_block(raw)
        if block.type == "text" and block.text is not NOTHING:
            self._say(raw, text_part(decode_string(block.text)))
        elif block.type == "resource" and block.resource is not NOTHING:
            self._put_resource(raw, block.resource)
        else:
            # Copied, because a Raw keeps the whole message in memory.
            (self.media if block.type in MEDIA else self.links).append(raw.copy())

    def _put_resource(self, raw: Raw, resource: Raw) -> None:
        contents = _decode_contents(resource)
        if contents.text is NOTHING:
            self.media.append(raw.copy())
            return
        self.uri = contents.uri
        self._say(raw, text_part(decode_string(contents.text)), PayloadPart(bytes(resource), True))

    def _say(self, raw: Raw, text: PayloadPart, value: PayloadPart | None = None) -> None:
        self.said.append(raw)
        self.texts.append(text)
        self.values.append(value or text)


def parse_payload(body: Buffer) -> Payload:
    """Parses a result's JSON. A result of another form counts as one text."""
    try:
        result = _decode_result(body)
        found = _SortedBlocks(_blocks_in(result.content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BrokenTextError):
        whole = (PayloadPart(body, False),)
        return Payload(whole, whole)
    structured = result.structured_content
    value = None
    if structured is not UNSET and bytes(memoryview(structured)[:4]) != b"null":
        value, is_said_again = _structured_part(memoryview(structured), [text.body for text in found.texts])
        if is_said_again:
            found.texts, found.values, found.uri = [], [], ""
    return Payload(
        tuple(found.texts),
        tuple(found.values),
        value,
        tuple(found.links),
        tuple(found.media),
        result.meta.copy(),
        result.result_type,
        result.is_error,
        found.uri if len(found.texts) == 1 else "",
        None if value is None or not found.texts else _as_sent(found.said, structured),
    )


def _blocks_in(content: Raw) -> Sequence[Raw]:
    blocks = items_of(memoryview(content))
    if blocks is None or blocks.count > MOST_BLOCKS:
        raise msgspec.DecodeError("no list of blocks")
    return blocks.parts


def _as_sent(texts: Sequence[Raw], structured: Raw | UnsetType) -> OriginalForms:
    """Copies the parts, because a Raw keeps the whole message in memory."""
    assert structured is not UNSET
    are_short = sum(len(memoryview(raw)) for raw in texts) <= LONGEST_AS_SENT
    is_short = len(memoryview(structured)) <= LONGEST_AS_SENT
    return OriginalForms(
        tuple(raw.copy() for raw in texts) if are_short else (), structured.copy() if is_short else NOTHING
    )


def text_part(text: Buffer) -> PayloadPart:
    return PayloadPart(text, is_json(text))


def _structured_part(body: memoryview, texts: list[Buffer]) -> tuple[PayloadPart, bool]:
    """Returns the structured part, and whether the texts only repeat it.

    Unwraps an object of one member, which may exist only because structured content must be an object.
    """
    members = members_of(body) or {}
    name, inner = next(iter(members.items())) if len(members) == 1 else ("", NOTHING)
    if name and texts_repeat(texts, memoryview(inner)):
        return _value(memoryview(inner)), True
    value = _value(memoryview(inner) if name in WRAPPERS else body)
    return value, not texts or texts_repeat(texts, body)


def _value(body: memoryview) -> PayloadPart:
    first = first_byte(body)
    if first == STRING:
        return text_part(msgspec.json.decode(body, type=str).encode())
    return PayloadPart(body, first in (LIST, OBJECT))
