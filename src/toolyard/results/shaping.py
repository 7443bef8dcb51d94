"""What takes the place of a big result: summary, preview, and where the whole is kept.

The JSON of it is held to the limits of its tool. It goes out as text and as structured content, with a
link to the whole as a resource; what was neither text nor data in the result stays with it.
"""

from typing import Any, Protocol

import msgspec
from msgspec import Raw

from .limits import SUMMARY_BYTES, Limits
from .previews import preview_of, size_of
from .survey import Survey

RESOURCE = "toolyard://results/"
PREVIEW_LEAST = 200

SHAPED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string"},
        "truncated": {"type": "boolean"},
        "summary": {"type": "object"},
        "storage": {"type": "object"},
    },
    "required": ["tool_name", "truncated"],
}
"""What the output schema of every tool admits beside its own."""

# What goes first when a summary is too long, dearest last.
_EXPENDABLE = ("example", "values", "min", "max", "distinct", "nulls")
_OPTIONAL = (
    "around", "shape", "last_lines", "headings", "first_lines", "columns", "items", "levels", "keys",
    "sample_columns", "item_types",
)  # fmt: skip


class Beside(Protocol):
    """What stays with a result though it is shaped."""

    @property
    def others(self) -> tuple[Raw, ...]: ...

    @property
    def meta(self) -> Raw: ...


def shaped(tool: str, survey: Survey, storage: dict[str, Any], limits: Limits, hint: str) -> dict[str, Any]:
    """The answer in place of a big result."""
    room = limits.answer_bytes
    answer: dict[str, Any] = {"tool_name": tool, "truncated": True, "summary": {}, "storage": storage}
    if hint:
        answer["hint"] = hint
    fixed = size_of(answer) + len(b',"preview":,"preview_format":"table"')
    answer["summary"] = fitted(survey.summary, min(SUMMARY_BYTES, max(room - fixed - PREVIEW_LEAST, 200)))
    left = room - fixed - size_of(answer["summary"])
    preview = preview_of(survey, limits, max(left, 2))
    return {
        "tool_name": tool,
        "truncated": True,
        "summary": answer["summary"],
        **preview,
        "storage": storage,
        **({"hint": hint} if hint else {}),
    }


def fitted(summary: dict[str, Any], room: int) -> dict[str, Any]:
    """The summary with as much of its detail as there is room for."""
    found = dict(summary)
    for detail in _EXPENDABLE:
        if size_of(found) <= room:
            return found
        if isinstance(found.get("columns"), list):
            found["columns"] = [
                {key: value for key, value in column.items() if key != detail} for column in found["columns"]
            ]
    for name in _OPTIONAL:
        if size_of(found) <= room:
            return found
        found.pop(name, None)
    return found


def as_result(answer: dict[str, Any], beside: Beside, link: dict[str, Any] | None, era: str) -> Raw:
    """The tool result that carries an answer."""
    body = msgspec.json.encode(answer)
    content: list[Any] = [{"type": "text", "text": body.decode()}]
    if link is not None:
        content.append(link)
    content += beside.others
    result: dict[str, Any] = {"content": content, "structuredContent": Raw(body)}
    if era == "modern":
        result = {"resultType": "complete", **result}
    if len(memoryview(beside.meta)):
        result["_meta"] = beside.meta
    return Raw(msgspec.json.encode(result))


def link_to(id: str, tool: str, size: int, content_type: str) -> dict[str, Any]:
    return {
        "type": "resource_link",
        "uri": f"{RESOURCE}{id}",
        "name": f"result of {tool}",
        "mimeType": content_type,
        "size": size,
    }
