"""A result that is an object of ours, written as JSON in slices when it is too long to be written at once.

What is long in it (texts, blobs, JSON that was there already, long lists) is taken out, the rest encoded
around placeholders, and what was taken out put back a slice at a time. Where it goes is a spool, as for
results that come from afar.
"""

import secrets
from binascii import b2a_base64
from collections.abc import Iterator
from typing import Any, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..wire.messages import encode
from ..wire.types import CallToolResult, Text
from .spool import Spool, Spooled
from .turns import SLICE, slices, turn

LONG = 4 * SLICE
"""What is shorter is encoded with what is around it."""
MANY = 1000
BATCH = 50

# Nobody can know it beforehand, and JSON has no way to write it differently.
_HOLE = secrets.token_hex(16)
_QUOTED_HOLE = b'"%s"' % _HOLE.encode()


async def unfolded(result: Any) -> Any:
    """The result itself, when it is short; else its JSON, on disk if there is much of it."""
    if _is_short(result):
        return result
    taken: list[Any] = []
    outline = _without(result, taken)
    if not taken:
        return result
    spool = Spool()
    try:
        for piece in _gathered(_around(outline, taken)):
            spool.write(piece)
            await turn()
        whole = spool.finish()
        return whole if isinstance(whole, Spooled) else Raw(whole)
    except BaseException:
        spool.discard()
        raise


def _is_short(result: Any) -> bool:
    """By a glance at the most usual of them."""
    if type(result) is not CallToolResult or len(result.content) != 1:
        return False
    block = result.content[0]
    structured = result.structured_content
    return (
        type(block) is Text
        and len(block.text) < LONG
        and (not isinstance(structured, Raw) or len(memoryview(structured)) < LONG)
    )


def _without(value: Any, taken: list[Any]) -> Any:
    """The value with holes where something long was, which goes to `taken` in the order of encoding."""
    if isinstance(value, Struct):
        members = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: found for name, old in members.items() if (found := _without(old, taken)) is not old}
        return replace(value, **changed) if changed else value
    if isinstance(value, list):
        items = cast(list[Any], value)
        if len(items) > MANY:
            taken.append(items)
            return _HOLE
        found = [_without(item, taken) for item in items]
        return found if any(new is not old for new, old in zip(found, items, strict=True)) else items
    if _length(value) > LONG:
        taken.append(value)
        return _HOLE
    return value


def _length(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return len(memoryview(value)) if isinstance(value, Raw) else 0


def _around(outline: Any, taken: list[Any]) -> Iterator[bytes]:
    first, *others = encode(outline).split(_QUOTED_HOLE)
    yield first
    for value, after in zip(taken, others, strict=True):
        yield from _written(value)
        yield after


def _written(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield b'"'
        for start in range(0, len(value), SLICE):
            yield encode(value[start : start + SLICE])[1:-1]
        yield b'"'
    elif isinstance(value, bytes):
        yield b'"'
        for piece in slices(value, SLICE - SLICE % 3):  # whole groups of base64
            yield b2a_base64(piece, newline=False)
        yield b'"'
    elif isinstance(value, Raw):
        yield from slices(bytes(value))
    else:
        yield from _listed(cast(list[Any], value))


def _listed(items: list[Any]) -> Iterator[bytes]:
    """A few at a time."""
    for start in range(0, len(items), BATCH):
        taken: list[Any] = []
        batch = [_without(item, taken) for item in items[start : start + BATCH]]
        yield b"," if start else b"["
        yield from _inside(_around(batch, taken))
    yield b"]"


def _inside(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A list in pieces without the brackets around it."""
    held = next(pieces)[1:]
    for piece in pieces:
        yield held
        held = piece
    yield held[:-1]


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of about a slice each."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= SLICE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
