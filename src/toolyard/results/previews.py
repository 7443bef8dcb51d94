"""The first of a big result, cut to the room that there is."""

import re
from typing import Any

from ..kit.suspicion import CLOSE, OPEN
from .compact import compacted
from .cutting import beginning, fitting, shortened, size_of
from .limits import Limits
from .survey import Survey
from .tables import are_records

MOST_MARKS = 8
_MARK = re.compile(
    r"^<((?:[A-Za-z][\w.-]{0,40}-)?[0-9a-f]{6,32}|[\w.-]{0,40}untrusted[\w.-]{0,40})(?: [^<>\n]{0,200})?>",
    re.MULTILINE,
)
"""A line that begins what is not to be trusted, under a name that its author could not know."""


def preview_of(survey: Survey, limits: Limits, room: int) -> tuple[dict[str, Any], bool]:
    """`preview`, and `preview_format` where it is not JSON, within `room` bytes; and whether it is all."""
    if survey.text is not None:
        text = _text(survey.text, limits, room)
        return {"preview": text}, text == survey.text and len(text) == survey.summary["char_count"]
    is_inside = "path" in survey.summary
    if survey.members is not None:
        members = _members(dict(list(survey.members.items())[: limits.preview_items]), room)
        is_all = len(members) == survey.summary["key_count"] and members == survey.members
        return {"preview": members}, is_all and not is_inside
    items = survey.items[: limits.preview_items]
    count = survey.summary["item_count"]
    if limits.compact != "off" and are_records(items):
        shown, rows = compacted(items, limits.compact, room)
        return shown, rows == count and not is_inside
    shown = fitting(items, room)
    return {"preview": shown}, len(shown) == count and shown == items and not is_inside


def has_marks(text: str) -> bool:
    """Whether parts of it are marked as not to be trusted."""
    return OPEN in text or _MARK.search(text) is not None


def _text(text: str, limits: Limits, room: int) -> str:
    if limits.always:
        text = text[: limits.preview_chars]
        while text and size_of(text) > room:
            text = text[: len(text) * 2 // 3]
        return text
    shown = beginning(text, limits.preview_chars, room)
    if len(shown) == len(text) or not has_marks(shown):
        return shown
    ends = _ends_of(shown)
    return beginning(text, limits.preview_chars, room - size_of(ends)) + ends if ends else shown


def _ends_of(shown: str) -> str:
    """What closes the marks that were opened, the last one first."""
    names = list(dict.fromkeys(mark[1] for mark in _MARK.finditer(shown)))[:MOST_MARKS]
    ends = [f"\n</{name}>" for name in reversed(names) if f"\n</{name}>" not in shown]
    doubt = CLOSE if shown.rfind(OPEN) > shown.rfind(CLOSE) else ""
    return doubt + "".join(ends)


def _members(members: dict[str, Any], room: int) -> dict[str, Any]:
    """Short values are whole, long ones share what is left; what is over is left out."""
    if size_of(members) <= room:
        return members
    left = room - len("{}") - sum(size_of(name) + len(":,") for name in members)
    sizes = sorted(map(size_of, members.values()))
    share = left
    for at, size in enumerate(sizes):
        share = left // (len(sizes) - at)
        if size > share:
            break
        left -= size
    shown: dict[str, Any] = {}
    left = room - len("{}")
    for name, value in members.items():
        value = value if size_of(value) <= share else shortened(value, max(40, share))
        left -= size_of(name) + size_of(value) + len(":,")
        if left < 0:
            break
        shown[name] = value
    return shown
