"""The form of results: what every tool of every table answers with, unless its row says otherwise.

An object is `{"data": {…}}`; a list `{"items": […], "total": …, "next": …}`, where `total` is there when the
API says it and `next` when there is more; a reply without content `{"message": "…"}`. A tool that has an
`output` schema of its own answers an object as it is, unless that schema has `data` itself.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import UNSET, Struct

from ..kit import ToolResult
from .plan import Plan
from .requests import text
from .wording import Words, shortened


class Part(Struct, frozen=True):
    """What is kept of a reply, or of several that were one list."""

    value: Any
    items: list[Any] | None = None
    total: int | None = None
    following: int | str | None = None
    truncated: bool = False

    def plain(self) -> dict[str, Any]:
        if self.items is None:
            return {} if self.value is UNSET else {"data": self.value}
        found: dict[str, Any] = {"items": self.items}
        if self.total is not None:
            found["total"] = self.total
        if self.following is not None:
            found["next"] = self.following
        if self.truncated:
            found["truncated"] = True
        return found


def shown(plan: Plan, part: Part, arguments: Mapping[str, Any], words: Words) -> ToolResult:
    if part.value is UNSET:
        said = _said(plan.tool.result.said, arguments) or words.done
        return ToolResult(content=[said], structured={"message": said})
    value: Any = part.value
    if plan.tool.output and part.items is None and isinstance(value, dict):
        value = cast(dict[str, Any], value)
        if "data" not in plan.tool.output.get("properties", {}) or "data" in value:
            return ToolResult(structured=value)
    return ToolResult(structured=part.plain())


def _said(sentence: str, arguments: Mapping[str, Any]) -> str:
    return re.sub(r"\{([^{}]+)\}", lambda match: shortened(text(arguments.get(match[1]))), sentence)
