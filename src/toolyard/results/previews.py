"""The first of a big result, cut to the room that there is."""

from typing import Any

from .compact import compacted
from .cutting import excerpt, fitting, shortened, size_of
from .limits import Limits
from .survey import Survey
from .tables import are_records


def preview_of(survey: Survey, limits: Limits, room: int) -> tuple[dict[str, Any], bool]:
    """`preview`, and `preview_format` where it is not JSON, within `room` bytes; and whether it is all."""
    if survey.text is not None:
        text = _text(survey.text, limits, room)
        return {"preview": text}, text == survey.text and len(text) == survey.summary.get("char_count")
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


def _text(text: str, limits: Limits, room: int) -> str:
    if limits.always:
        text = text[: limits.preview_chars]
        while text and size_of(text) > room:
            text = text[: len(text) * 2 // 3]
        return text
    return excerpt(text, limits.preview_chars, room)


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
