"""What takes the place of a big result: summary, preview, and where the whole is kept.

The JSON of it is held to the limits of its tool. It goes out as text and as structured content, with a
link to the whole as a resource; what was neither text nor data in the result stays with it. Where a result
says one thing as text and another as data, each is replaced by itself or stays as it was sent.
"""

from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from .cutting import has_marks, size_of
from .limits import SUMMARY_BYTES, Limits
from .payload import NOTHING
from .previews import preview_of
from .storing import Kept
from .summaries import fitted
from .survey import Survey
from .tokens import estimated

CLEARLY = 0.5
"""What takes the place of a result costs at most this share of its tokens. The rest may be wanted after all,
and then it costs what it would have cost, and another turn: half is where that pays if every second result
is read on."""
PREVIEW_LEAST = 200
SUMMARY_LEAST = 100
SUMMARY_SHARE = 8
SUMMARY_OF_FEW = 400
"""A summary takes an eighth of the size of its result, or so many bytes if that is more."""
_QUOTED = ("last_lines", "headings", "title")
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


class Forms(Struct, frozen=True):
    """What a result says as texts and as structured content; each may be an answer in the place of it."""

    texts: tuple[Raw, ...]
    structured: Raw

    @classmethod
    def of(cls, answer: dict[str, Any], text: str | None = None) -> "Forms":
        """An answer in both. `text`: what the text says instead, for who reads the other form."""
        body = msgspec.json.encode(answer)
        return cls((as_block(body.decode() if text is None else text),), Raw(body))


def as_block(text: str) -> Raw:
    return Raw(msgspec.json.encode({"type": "text", "text": text}))


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
    if not limits.always:
        most = min(most, max(survey.summary["approx_size_bytes"] // SUMMARY_SHARE, SUMMARY_OF_FEW))
    answer["summary"] = fitted(survey.summary if limits.always else _beside_preview(survey), most)
    preview, is_all = preview_of(survey, limits, room - fixed - size_of(answer["summary"]))
    return answer | preview | {"truncated": limits.always or not is_all}


def _beside_preview(survey: Survey) -> dict[str, Any]:
    """The summary without what the preview shows, and without words that have to stand between marks."""
    summary = {name: _without_marked(value) for name, value in survey.summary.items()}
    if survey.text is None:
        return summary
    # A part that ends in the last lines may have begun behind what is at hand.
    ends = "\n".join(survey.summary.get("last_lines", ())).replace("</", "<")
    is_marked = has_marks(survey.text) or has_marks(ends)
    left_out = ("first_lines", *(_QUOTED if is_marked else ()))
    return {name: value for name, value in summary.items() if name not in left_out}


def _without_marked(value: Any) -> Any:
    """Without texts that begin what is not to be trusted: they were cut, and nothing would end it."""
    if isinstance(value, list):
        return [_without_marked(item) for item in cast(list[Any], value) if not _is_marked(item)]
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _without_marked(item) for name, item in members.items() if not _is_marked(item)}
    return value


def _is_marked(value: Any) -> bool:
    return isinstance(value, str) and has_marks(value)


def cost_of(answer: dict[str, Any], link: dict[str, Any] | None) -> int:
    """In tokens, as a model reads it."""
    links = "" if link is None else f"{link['name']} {link['uri']}"
    return estimated(msgspec.json.encode(answer).decode()) + estimated(links)


def _storage(kept: Kept, room: int) -> dict[str, Any]:
    """Links to some stores are very long; the resource opens the same."""
    told = kept.told()
    return (
        told if size_of(told) <= room else {name: told[name] for name in told if name not in ("url", "key")}
    )


def as_result(forms: Forms, beside: Beside, link: dict[str, Any] | None, era: str) -> Raw:
    """The tool result that carries an answer."""
    links = () if link is None else (link,)
    result: dict[str, Any] = {
        "content": [*forms.texts, *links, *beside.blocks],
        "structuredContent": forms.structured,
    }
    if beside.is_error:
        result["isError"] = True
    if era == "modern":
        result = {"resultType": "complete", **result}
    if beside.meta is not NOTHING and len(memoryview(beside.meta)):
        result["_meta"] = beside.meta
    return Raw(msgspec.json.encode(result))
