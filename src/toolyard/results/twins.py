"""Whether the texts of a result only say again what its structured part says.

Servers send both, for clients that know the one or the other. A text that says something else, or says it
in other words, is no twin, and nothing of it may be lost.
"""

from collections.abc import Sequence

import msgspec

from .json_parts import STRING, Buffer, first_byte, items_of, value_of

PIECE = 256 * 1024
COMPARED = 2**20
"""Values longer than this are compared by their bytes alone, white space aside."""


def say_the_same(texts: Sequence[Buffer], value: Buffer) -> bool:
    if len(texts) == 1 and _same(texts[0], value):
        return True
    # Some send a list as one text for each of its items.
    items = items_of(value)
    return (
        items is not None
        and len(items.parts) == len(texts)
        and all(_same(text, memoryview(part)) for text, part in zip(texts, items.parts, strict=True))
    )


def _same(text: Buffer, value: Buffer) -> bool:
    if _equal(text, value):
        return True
    try:
        if first_byte(value) == STRING:
            return msgspec.json.decode(value, type=str).encode() == text
        if _bare(text) == _bare(value):
            return True
        short = len(text) <= COMPARED and len(value) <= COMPARED
        return short and value_of(text) == value_of(value)
    except (ValueError, RecursionError):
        return False


def _equal(one: Buffer, other: Buffer) -> bool:
    """In pieces: views of bytes are slow to compare, and copies of long ones take memory."""
    return len(one) == len(other) and all(
        bytes(one[at : at + PIECE]) == bytes(other[at : at + PIECE]) for at in range(0, len(one), PIECE)
    )


def _bare(body: Buffer) -> bytes:
    """JSON without white space."""
    return msgspec.json.format(body, indent=-1)
