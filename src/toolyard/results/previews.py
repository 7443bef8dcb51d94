"""The first of a big result, cut to the room that there is."""

from typing import Any

from .compact import compacted
from .cutting import fitting, shortened, size_of
from .limits import Limits
from .survey import Survey
from .tables import are_records


def preview_of(survey: Survey, limits: Limits, room: int) -> dict[str, Any]:
    """`preview`, and `preview_format` where it is not JSON; within `room` bytes."""
    if survey.text is not None:
        return {"preview": _text(survey.text[: limits.preview_chars], room)}
    if survey.members is not None:
        return {"preview": _members(dict(list(survey.members.items())[: limits.preview_items]), room)}
    items = survey.items[: limits.preview_items]
    if limits.compact != "off" and are_records(items):
        return compacted(items, limits.compact, room)
    return {"preview": fitting(items, room)}


def _text(text: str, room: int) -> str:
    while text and size_of(text) > room:
        text = text[: len(text) * 2 // 3]
    return text


def _members(members: dict[str, Any], room: int) -> dict[str, Any]:
    """Long values share the room; what is over is left out."""
    if size_of(members) <= room:
        return members
    each = max(40, room // max(1, len(members)) - 20)
    shown: dict[str, Any] = {}
    left = room - len("{}")
    for name, value in members.items():
        value = value if size_of(value) <= each else shortened(value, each)
        left -= size_of(name) + size_of(value) + len(":,")
        if left < 0:
            break
        shown[name] = value
    return shown
