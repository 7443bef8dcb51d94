"""Texts as they stand in JSON, quoted and escaped: read in pieces, so that long ones are not copied often."""

import msgspec
from msgspec import Raw

PIECE = 256 * 1024
LONGEST_LETTER = 12
"""A pair of escapes; at the end of a piece any part of it may be missing."""


class BrokenText(ValueError):
    """It is not the inside of a JSON string."""


def unescaped(escaped: bytes, ended: bool) -> tuple[str, bytes]:
    """The text so far, and what has to wait for more: an escape or a letter that is cut in two."""
    for wait in range(1 if ended else LONGEST_LETTER):
        end = len(escaped) - wait
        try:
            return msgspec.json.decode(b'"' + escaped[:end] + b'"', type=str), escaped[end:]
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    raise BrokenText


def text_of(literal: Raw) -> bytes | bytearray:
    """A quoted string as the UTF-8 that it stands for; msgspec.DecodeError when it is none."""
    view = memoryview(literal)
    if len(view) <= PIECE:
        return msgspec.json.decode(literal, type=str).encode()
    if view[0] != 0x22:
        raise msgspec.DecodeError("not a string")
    found = bytearray()
    carry = b""
    for start in range(1, len(view) - 1, PIECE):
        end = min(start + PIECE, len(view) - 1)
        text, carry = unescaped(carry + view[start:end], end == len(view) - 1)
        found += text.encode()
    return found
