"""Replies as JSON, and what a tool's own result says, whichever way it says it."""

from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from ...wire.text import clean
from ...wire.types import CallToolResult, Text


def json_reply(data: Any, *, failed: bool = False) -> CallToolResult:
    """As text, which every client shows its model, and structured where it is an object."""
    body = msgspec.json.encode(data)
    result = CallToolResult(content=[Text(clean(body.decode()))], is_error=failed)
    if isinstance(data, dict):
        result.structured_content = Raw(body)
    return result


class Outcome(Struct, frozen=True):
    """What a tool said, in the three words that Composio uses for it."""

    data: dict[str, Any]
    error: str | None = None

    @property
    def successful(self) -> bool:
        return self.error is None

    def shown(self) -> dict[str, Any]:
        return {"data": self.data, "error": self.error, "successful": self.successful}


def outcome_of(result: dict[str, Any]) -> Outcome:
    """Of a CallToolResult, decoded."""
    data = _data(result)
    if not result.get("isError"):
        return Outcome(data)
    said = _texts(result)
    return Outcome(data if result.get("structuredContent") else {}, "\n".join(said) or "The tool failed")


def is_plain(result: dict[str, Any]) -> bool:
    """Neither a question back nor a task: those are passed on as they are."""
    return result.get("resultType", "complete") == "complete"


def _data(result: dict[str, Any]) -> dict[str, Any]:
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return cast(dict[str, Any], structured)
    texts = _texts(result)
    blocks = _blocks(result)
    if len(blocks) != len(texts):  # images and the like: only they themselves can stand for them
        return {"content": blocks}
    if len(texts) == 1:
        try:
            value = msgspec.json.decode(texts[0])
        except msgspec.DecodeError:
            return {"text": texts[0]}
        return cast(dict[str, Any], value) if isinstance(value, dict) else {"result": value}
    return {"text": "\n".join(texts)} if texts else {}


def _texts(result: dict[str, Any]) -> list[str]:
    found = [cast(dict[str, Any], block) for block in _blocks(result) if isinstance(block, dict)]
    return [str(block.get("text", "")) for block in found if block.get("type") == "text"]


def _blocks(result: dict[str, Any]) -> list[Any]:
    """A stranger's words, which may be anything."""
    content = result.get("content")
    return cast(list[Any], content) if isinstance(content, list) else []
