"""JSON looked into without decoding it: a list as its items, an object as its members, each still bytes.

Items cost memory each, so of a list of very many small ones only the beginning is cut.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

Buffer = bytes | bytearray | memoryview

LARGE = 2**20
HEAD = 64 * 1024
MOST_ITEMS = 1_000_000
LONGEST_NUMBER = 4_000
LIST, OBJECT, STRING = b'[{"'

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
# A string without an end is one too, or each quote in it would be tried as the beginning of another.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_FILLED = re.compile(rb"[^ \t\r\n]")


class Items(Struct, frozen=True):
    """A list. `exact` is False when its items were only counted by their average size."""

    parts: Sequence[Raw]
    count: int
    exact: bool = True


def first_byte(body: Buffer) -> int:
    """Of what is not white space; 0 when there is none."""
    found = _FILLED.search(body, 0, HEAD)
    return found[0][0] if found else 0


def items_of(body: Buffer) -> Items | None:
    """Of a list; None when it is no list, or no JSON."""
    if first_byte(body) != LIST:
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
    if first_byte(body) != OBJECT:
        return None
    try:
        return _decode_members(body)
    except _FAULTS:
        return None


def is_json(body: Buffer) -> bool:
    """Whether it is a list or an object; a number or a quoted word is JSON too, but means no more for it."""
    return items_of(body) is not None or members_of(body) is not None


def value_of(body: Buffer | Raw) -> Any:
    """Decoded; numbers that no machine holds stay texts. ValueError when it is no JSON that can be."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return _leniently(bytes(body))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _leniently(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8", "replace"), parse_int=_whole, parse_float=_real)
        msgspec.json.encode(value)  # this reader also takes halves of letters, which nobody can send
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return value


def _whole(digits: str) -> int | str:
    return digits if len(digits) > LONGEST_NUMBER else int(digits)


def _real(digits: str) -> float | str:
    value = float(digits)
    return digits if value in (float("inf"), float("-inf")) else value


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
