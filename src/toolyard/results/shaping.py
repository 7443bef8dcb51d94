"""What takes the place of a big result: summary, preview, and where the whole is kept.

The JSON of it is held to the limits of its tool. It goes out as text and as structured content, with a
link to the whole as a resource; what was neither text nor data in the result stays with it.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from .cutting import size_of
from .limits import SUMMARY_BYTES, Limits
from .payload import NOTHING
from .previews import preview_of
from .storing import Kept
from .summaries import fitted
from .survey import Survey

PREVIEW_LEAST = 200
SUMMARY_LEAST = 100
_PREVIEW = len(',"preview":,"preview_format":"table"')

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


class Beside(Struct, frozen=True):
    """What stays with a result though it is shaped."""

    blocks: tuple[Raw, ...] = ()
    meta: Raw = NOTHING
    is_error: bool = False


def shaped(tool: str, survey: Survey, kept: Kept, limits: Limits, hint: str) -> dict[str, Any]:
    """The answer in place of a big result."""
    room = limits.answer_bytes
    answer: dict[str, Any] = {
        "tool_name": tool,
        "truncated": True,
        "summary": {},
        "preview": "",
        "storage": _storage(kept, room // 2),
    }
    if hint and kept.stored is not None:
        answer["hint"] = hint.replace("{id}", kept.stored.artifact.id)
    fixed = size_of(answer) + _PREVIEW
    most = min(SUMMARY_BYTES, max(room - fixed - PREVIEW_LEAST, SUMMARY_LEAST))
    answer["summary"] = fitted(survey.summary, most)
    return answer | preview_of(survey, limits, room - fixed - size_of(answer["summary"]))


def _storage(kept: Kept, room: int) -> dict[str, Any]:
    """Links to some stores are very long; the resource opens the same."""
    told = kept.told()
    return (
        told if size_of(told) <= room else {name: told[name] for name in told if name not in ("url", "key")}
    )


def as_result(answer: dict[str, Any], beside: Beside, link: dict[str, Any] | None, era: str) -> Raw:
    """The tool result that carries an answer."""
    body = msgspec.json.encode(answer)
    content: list[Any] = [{"type": "text", "text": body.decode()}]
    if link is not None:
        content.append(link)
    result: dict[str, Any] = {"content": [*content, *beside.blocks], "structuredContent": Raw(body)}
    if beside.is_error:
        result["isError"] = True
    if era == "modern":
        result = {"resultType": "complete", **result}
    if beside.meta is not NOTHING and len(memoryview(beside.meta)):
        result["_meta"] = beside.meta
    return Raw(msgspec.json.encode(result))
