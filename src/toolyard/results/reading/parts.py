"""As much of a value as there is room for, and how much of it is left.

A list is shown by its items; what is too long otherwise, a text by its lines and an object by its members.
"""

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from ..cutting import shortened, size_of

FOLD = 1_000
"""A longer line counts as several, so that all of it can be read."""


class Part(Struct, frozen=True):
    kind: str
    """`items`, `rows`, `lines`, `members`, or `value` for one that is shown at once."""
    shown: Any
    offset: int = 0
    count: int = 0
    """How many are shown."""
    total: int = 0
    cut: bool = False
    """The only one shown is too big, and what fits of it is shown."""
    at_least: bool = False
    """There may be more than `total`: nobody counted on."""
    note: str = ""
    """On what a query found nothing."""
    path: str = ""
    """Where it is in the whole."""

    def told(self, id: str) -> dict[str, Any]:
        """As a model reads it, with where to go on."""
        beside = {"note": self.note, "path": self.path}
        named = {name: text for name, text in beside.items() if text}
        if self.kind == "value":
            return {"id": id, **named, "value": self.shown}
        left = max(0, self.total - self.offset - self.count)
        told: dict[str, Any] = {"id": id, "total": self.total, "offset": self.offset, "shown": self.count}
        if self.at_least:
            told["total_is"] = "at least this"
        told["left"] = left
        if left:
            told["next_offset"] = self.offset + self.count
        if self.cut:
            told["cut"] = "it is too big to be shown whole; ask for parts of it with 'query' or 'sql'"
        return {**told, **named, self.kind: self.shown}


def of_items(items: Sequence[Any], total: int, offset: int, room: int, kind: str = "items") -> Part:
    """`items`: those from `offset` on that are asked for; as many as fit, at least what fits of one."""
    shown: list[Any] = []
    left = room - len("[]")
    for item in items:
        left -= size_of(item) + len(",")
        if left < 0:
            break
        shown.append(item)
    if shown or not items:
        return Part(kind, shown, offset, len(shown), total)
    return Part(kind, [shortened(items[0], room)], offset, 1, total, cut=True)


def of_value(value: Any, offset: int, limit: int, room: int) -> Part:
    if isinstance(value, list):
        items = cast(list[Any], value)
        return of_items(items[offset : offset + limit], len(items), offset, room)
    if offset == 0 and size_of(value) <= room:
        return Part("value", value)
    if isinstance(value, str):
        lines = folded(value)
        return of_items(lines[offset : offset + limit], len(lines), offset, room, "lines")
    if isinstance(value, dict):
        return _of_members(cast(dict[str, Any], value), offset, limit, room)
    return Part("value", shortened(value, room))


def _of_members(members: dict[str, Any], offset: int, limit: int, room: int) -> Part:
    shown: dict[str, Any] = {}
    left = room - len("{}")
    wanted = list(members.items())[offset : offset + limit]
    for name, value in wanted:
        left -= size_of(name) + size_of(value) + len(":,")
        if left < 0:
            break
        shown[name] = value
    if shown or not wanted:
        return Part("members", shown, offset, len(shown), len(members))
    first = shortened(dict(wanted[:1]), room)
    return Part("members", first, offset, 1, len(members), cut=True)


def folded(text: str) -> list[str]:
    """Its lines, long ones in several."""
    lines = text.removesuffix("\n").split("\n")
    return [line[at : at + FOLD] for line in lines for at in range(0, max(1, len(line)), FOLD)]
