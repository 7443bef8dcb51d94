"""JSON looked into without decoding it: a list as its items, an object as its members, each still bytes.

Each of them costs memory, and a server may send millions. So they are counted first, without making them: of
too many only the first are cut.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

Buffer = bytes | bytearray | memoryview

HEAD = 64 * 1024
LARGE_PIECE = 2**20
PIECE = 256 * 1024
"""Others go on after each: it takes some milliseconds."""
MOST_ITEMS, MOST_MEMBERS = 1_000_000, 300_000
"""Of more only the first are cut. A member takes three times what an item does, for its name."""
FIRST_ITEMS = 2_000
MOST_STEPS = 2_000_000
"""Counting ends here. Only what is nested for the purpose has more."""
LONGEST_NUMBER = 4_000
LIST, OBJECT, STRING = b'[{"'

_NONE = Raw(b"")
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_checked = msgspec.json.Decoder(Raw).decode
# A string without an end is one too, or each quote in it would be tried as the beginning of another.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_FILLED = re.compile(rb"[^ \t\r\n]")
_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b"[]{},")
_FLAT = re.compile(rb"\[,*+\]")
_RUNS = re.compile(rb"\[++|\]++|,++")


class Items(Struct, frozen=True):
    """A list."""

    parts: Sequence[Raw]
    """All of its items, or the first of too many."""
    count: int
    exact: bool = True
    """False when `count` goes by the average size of the parts."""

    @property
    def are_all(self) -> bool:
        return len(self.parts) == self.count


class Members(Struct, frozen=True):
    """An object; its fields mean what those of `Items` do."""

    parts: Mapping[str, Raw]
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
        count = _count(body, MOST_ITEMS)
        if count is not None and count <= MOST_ITEMS:
            parts = _decode_items(body)
            return Items(parts, len(parts))
        first = _first_items(body)
    except _FAULTS:
        return None
    return Items(first, *_count_or_estimate(count, first, body))


def all_items_of(body: Buffer) -> list[Raw]:
    """However many there are: for a process whose memory has a limit."""
    return _decode_items(body)


def object_of(body: Buffer) -> Members | None:
    """None when it is no object, or no JSON."""
    if first_byte(body) != OBJECT:
        return None
    try:
        count = _count(body, MOST_MEMBERS)
        if count is not None and count <= MOST_MEMBERS:
            parts = _decode_members(body)
            return Members(parts, len(parts))
        _checked(body)
        first = _first_members(body)
    except _FAULTS:
        return None
    return Members(first, *_count_or_estimate(count, first.values(), body))


def members_of(body: Buffer) -> dict[str, Raw] | None:
    """Of an object; None when it is no object, or no JSON, or has too many."""
    found = object_of(body)
    return dict(found.parts) if found is not None and len(found.parts) == found.count else None


def is_json(body: Buffer) -> bool:
    """Whether it is a list or an object; a number or a quoted word is JSON too, but means no more for it."""
    if first_byte(body) not in (LIST, OBJECT):
        return False
    try:
        _checked(body)
    except _FAULTS:
        return False
    return True


def values_in(body: bytes | bytearray) -> int:
    """At most so many would be made by decoding it."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def _pieces(body: Buffer, size: int = LARGE_PIECE) -> Iterator[bytes]:
    for at in range(0, len(body), size):
        yield bytes(body[at : at + size])


def _count(body: Buffer, most: int) -> int | None:
    """How many parts there are; no fewer than that where they are surely no more than `most`."""
    if len(body) // 2 < most:  # each takes two bytes
        return most
    commas = sum(piece.count(b",") for piece in _pieces(body))
    return commas + 1 if commas < most else _counted(body)


def _counted(body: Buffer) -> int | None:
    """By the commas between them; None when that takes too many steps."""
    depth = steps = commas = 0
    for marks in _marks_in(body):
        # A list that begins and ends in one piece is inside the whole, which is longer.
        for run in _RUNS.finditer(_FLAT.sub(b"", _FLAT.sub(b"", marks))):
            length = run.end() - run.start()
            match run[0][0]:
                case 0x5B:
                    depth += length
                case 0x5D:
                    depth -= length
                case _:
                    commas += length * (depth == 1)
            steps += 1
        if steps > MOST_STEPS:
            return None
    return commas + 1


def _marks_in(body: Buffer) -> Iterator[bytes]:
    """The commas and brackets outside of strings, piece by piece; braces as brackets."""
    is_quoted = False
    carry = b""
    for piece in _pieces(body, PIECE):
        piece = carry + piece
        # An escape may be cut in two.
        carry = b"\\" * ((len(piece) - len(piece.rstrip(b"\\"))) % 2)
        whole = piece[: len(piece) - len(carry)]
        parts = whole.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[is_quoted::2])
        is_quoted ^= len(parts) % 2 == 0
        yield outside.translate(_AS_BRACKETS, _NO_MARKS)


def _first_items(body: Buffer) -> tuple[Raw, ...]:
    """Those behind them are read and not made."""
    found = cast(tuple[Raw, ...], msgspec.structs.astuple(_head_decoder().decode(body)))
    return tuple(part for part in found if part is not _NONE)


@cache
def _head_decoder() -> msgspec.json.Decoder[Any]:
    fields = [(f"item_{at}", Raw, _NONE) for at in range(FIRST_ITEMS)]
    return msgspec.json.Decoder(msgspec.defstruct("FirstItems", fields, array_like=True, gc=False))


def _first_members(body: Buffer) -> dict[str, Raw]:
    head = bytes(body[:HEAD])
    cuts = _cuts(head)
    return _decode_members(head[: cuts[-1]] + b"}") if cuts else {}


def _count_or_estimate(count: int | None, first: Iterable[Raw], body: Buffer) -> tuple[int, bool]:
    """Also whether it was counted; else it goes by the average size of the first."""
    if count is not None:
        return count, True
    sizes = [len(memoryview(part)) + len(",") for part in first]
    return max(len(body) * len(sizes) // max(1, sum(sizes)), len(sizes) + 1), False


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
