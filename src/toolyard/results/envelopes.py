"""Envelopes seen through: of `{"data": {"items": [...], "total": 412}}` the items are what matters."""

import re
from typing import Any

from msgspec import Raw, Struct

from .grids import COLUMNS, ROWS, columns_of
from .json_parts import LIST, OBJECT, Buffer, first_byte, members_of, value_of

DEEPEST = 4
MOST_AROUND = 12
LONGEST_AROUND = 1_000
"""Bytes of a list or object of plain values that may be beside what matters: names of columns, what page
it is."""


_NAME = re.compile(rb'[ \t\r\n{,]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)


class Inside(Struct, frozen=True):
    path: tuple[str, ...]
    """Where it is."""
    inner: Buffer
    around: dict[str, Any]
    """The plain values beside it."""
    columns: tuple[str, ...] = ()
    """The names of its cells, where it is the rows of a table."""


def seen_through(body: Buffer) -> Inside:
    """Into objects that are there for one list or object, most of them by far."""
    path: list[str] = []
    around: dict[str, Raw] = {}
    columns: tuple[str, ...] = ()
    inner = body
    while len(path) < DEEPEST and (members := members_of(inner)):
        name, raw = max(members.items(), key=lambda member: len(memoryview(member[1])))
        value = memoryview(raw)
        named = columns_of(members) if name == ROWS else ()
        del members[name]
        if named:
            del members[COLUMNS]
        if not _is_nested(value) or not _are_small_talk(members) or len(value) * 2 < len(inner):
            break
        around |= members
        path.append(name)
        inner, columns = value, named
    shown = list(around.items())[:MOST_AROUND]
    return Inside(tuple(path), inner, {name: plain(raw) for name, raw in shown}, columns)


def place_of(body: Buffer, inside: Inside) -> int | None:
    """Where it begins; None when an object on the way has a name twice, of which only the last counts."""
    place = 0
    inner = memoryview(body)
    for name in inside.path:
        members = members_of(inner) or {}
        at = _place_in(inner, members, name)
        if at is None:
            return None
        place += at
        inner = memoryview(members[name])
    return place


def _place_in(body: memoryview, members: dict[str, Raw], wanted: str) -> int | None:
    """Of a member in an object, found by the sizes of those before it."""
    at = 0
    for _ in range(len(members)):
        found = _NAME.match(body, at)
        name = None if found is None else value_of(found[1])
        if found is None or name not in members:
            return None
        at = found.end()
        value = memoryview(members[name])
        if bytes(body[at : at + len(value)]) != bytes(value):
            return None
        if name == wanted:
            return at
        at += len(value)
    return None


def _is_nested(body: Buffer) -> bool:
    return first_byte(body) in (LIST, OBJECT)


def _are_small_talk(members: dict[str, Raw]) -> bool:
    """An object is a thing of its own, unless all it has beside one member are plain values, and few."""
    return len(members) <= MOST_AROUND and all(_is_plain(memoryview(raw)) for raw in members.values())


def _is_plain(body: memoryview) -> bool:
    """A short list or object of plain values is one too."""
    if not _is_nested(body):
        return True
    return len(body) <= LONGEST_AROUND and not any(mark in (LIST, OBJECT) for mark in bytes(body)[1:])


def plain(raw: Raw) -> Any:
    """A value; what cannot be decoded is shown as it is written."""
    try:
        return value_of(raw)
    except ValueError:
        return bytes(memoryview(raw)[:100]).decode("utf-8", "replace")
