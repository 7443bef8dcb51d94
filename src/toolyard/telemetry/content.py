"""What of arguments and results goes into spans: nothing by default; else cut, and without secrets."""

from collections.abc import Iterable

from ..config.models import TraceContent
from .conventions import ARGUMENTS, RESULT, TASK, AttributeValue
from .redaction import Redactor

MAX_CONTENT = 8192
"""Characters of one argument list or result."""
_READ_AHEAD = 4
"""So much more is looked at for secrets than is kept, so that one at the cut is still whole."""
_NEEDS: dict[str, TraceContent] = {
    ARGUMENTS: "arguments",
    TASK: "arguments",
    RESULT: "all",
    "gen_ai.input.messages": "all",
    "gen_ai.output.messages": "all",
    "gen_ai.system_instructions": "all",
}
"""The attributes that hold content, and the setting that keeps them."""


class ContentPolicy:
    """`secrets` are values that are masked wherever they appear."""

    def __init__(self, content: TraceContent = "off", secrets: Iterable[str] = ()) -> None:
        self.content: TraceContent = content
        self.keeps_arguments = content != "off"
        self.keeps_results = content == "all"
        self._redactor = Redactor(secrets)

    def excerpt(self, text: str | bytes | memoryview, secrets: Iterable[str] = ()) -> str:
        """A text as it is kept: cut and redacted. `secrets` are further values, of this call."""
        size = len(text)
        start = text[: MAX_CONTENT * _READ_AHEAD]
        if not isinstance(start, str):
            start = bytes(start).decode(errors="replace")
        kept = self._redactor.text(start, secrets)
        if len(kept) <= MAX_CONTENT and len(start) >= size:
            return kept
        return f"{kept[:MAX_CONTENT]}… ({size:,} in all)"

    def kept(self, key: str, value: AttributeValue) -> AttributeValue | None:
        """The value of an attribute as it is kept; None if it is content that is not."""
        needs = _NEEDS.get(key)
        if needs is None:
            return value
        if self.content == "off" or (needs == "all" and self.content != "all"):
            return None
        return self.excerpt(value) if isinstance(value, str) else value


NO_CONTENT = ContentPolicy()
