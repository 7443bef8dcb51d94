"""Whether the texts of a result only say again what its structured part says.

Servers send both, for clients that know the one or the other. A text that says something else, or says it
in other words, is no twin, and nothing of it may be lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from .json_parts import STRING, Buffer, first_byte, items_of, members_of, value_of

PIECE = 256 * 1024
COMPARED = 2**20
"""Longer values are never decoded at once: they are compared part by part."""
DEEPEST = 4


def say_the_same(texts: Sequence[Buffer], value: Buffer) -> bool:
    if len(texts) == 1 and _same(texts[0], value):
        return True
    # Some send a list as one text for each of its items.
    items = items_of(value)
    return (
        items is not None
        and items.count == len(items.parts) == len(texts)
        and all(_same(text, memoryview(part)) for text, part in zip(texts, items.parts, strict=True))
    )


def _same(text: Buffer, value: Buffer) -> bool:
    if _equal(text, value):
        return True
    try:
        if first_byte(value) == STRING:
            return msgspec.json.decode(value, type=str).encode() == text
        return _bare(text) == _bare(value) or _means_the_same(text, value)
    except (ValueError, RecursionError):
        return False


def _means_the_same(one: Buffer, other: Buffer, depth: int = DEEPEST) -> bool:
    """One may have its letters and numbers written otherwise, or its members in another order."""
    if len(one) <= COMPARED and len(other) <= COMPARED:
        return value_of(one) == value_of(other)
    if depth == 0:
        return False
    ours, theirs = _parts_of(one), _parts_of(other)
    if ours is None or theirs is None or ours.keys() != theirs.keys():
        return False
    pairs = ((memoryview(part), memoryview(theirs[name])) for name, part in ours.items())
    return all(_means_the_same(part, its_twin, depth - 1) for part, its_twin in pairs)


def _parts_of(body: Buffer) -> Mapping[Any, Raw] | None:
    """Of a list or an object; None for a text that is so long, and for one of too many parts."""
    items = items_of(body)
    if items is None:
        return members_of(body)
    return dict(enumerate(items.parts)) if items.are_all else None


def _equal(one: Buffer, other: Buffer) -> bool:
    """In pieces: views of bytes are slow to compare, and copies of long ones take memory."""
    return len(one) == len(other) and all(
        bytes(one[at : at + PIECE]) == bytes(other[at : at + PIECE]) for at in range(0, len(one), PIECE)
    )


def _bare(body: Buffer) -> bytes:
    """JSON without white space."""
    return msgspec.json.format(body, indent=-1)
