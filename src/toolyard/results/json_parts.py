"""JSON looked into without decoding it: a list as its items, an object as its members, each still bytes.

Items cost memory each, so of a list of very many small ones only the beginning is cut.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

Buffer = bytes | memoryview

LARGE = 2**20
HEAD = 64 * 1024
MOST_ITEMS = 1_000_000

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_SPACE = b" \t\r\n"


class Items(Struct, frozen=True):
    """A list. `exact` is False when its items were only counted by their average size."""

    parts: list[Raw]
    count: int
    exact: bool = True


def first_byte(body: Buffer) -> int:
    """0 when there is none."""
    for at in range(min(len(body), HEAD)):
        if body[at] not in _SPACE:
            return body[at]
    return 0


def items_of(body: Buffer) -> Items | None:
    """Of a list; None when it is no list, or no JSON."""
    if first_byte(body) != 0x5B:
        return None
    try:
        if len(body) > LARGE and (estimate := _estimated(body)) > MOST_ITEMS:
            return Items(_head_items(body), estimate, exact=False)
        parts = _decode_items(body)
    except _FAULTS:
        return None
    return Items(parts, len(parts))


def members_of(body: Buffer) -> dict[str, Raw] | None:
    """Of an object; None when it is no object, or no JSON."""
    if first_byte(body) != 0x7B:
        return None
    try:
        return _decode_members(body)
    except _FAULTS:
        return None


def value_of(body: Buffer | Raw) -> Any:
    """Decoded; ValueError when it is no JSON that can be."""
    try:
        return msgspec.json.decode(body)
    except _FAULTS as error:
        raise ValueError(str(error)) from None


def is_json(body: Buffer) -> bool:
    """Of a list or an object, wholly; of the rest, whether it can be decoded."""
    first = first_byte(body)
    if first in (0x5B, 0x7B):
        return (items_of(body) if first == 0x5B else members_of(body)) is not None
    try:
        value_of(body)
    except ValueError:
        return False
    return True


def _cuts(head: bytes) -> list[int]:
    """Where the commas between the outermost list's items are, at the beginning of it."""
    depth = 0
    found: list[int] = []
    for token in _TOKENS.finditer(head):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
        elif mark == b"," and depth == 1:
            found.append(token.start())
    return found


def _estimated(body: Buffer) -> int:
    cuts = _cuts(bytes(body[:HEAD]))
    return len(body) * len(cuts) // cuts[-1] if cuts else 1


def _head_items(body: Buffer) -> list[Raw]:
    cuts = _cuts(bytes(body[:HEAD]))
    return _decode_items(bytes(body[: cuts[-1]]) + b"]")
