"""Turns Composio's `{data, error, successful}` into a tool result, with the API key redacted."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ...composio import ExecutedTool, executed
from ...kit.calls.content import error_result
from ...upstream.composio.rest import MASK, MIN_SECRET
from ...wire.errors import McpError
from ...wire.messages import encode
from ...wire.text import clean
from ...wire.types import CallToolResult, Text

_ENVELOPE = frozenset(("data", "error"))
_EMPTY = (b"null", b"{}", b"[]", b'""')


class _Content(Struct):
    type: str = ""
    text: str = ""


def result_of(done: ExecutedTool, modern: bool) -> CallToolResult:
    """Build the result of a tool that was executed over REST."""
    result = CallToolResult(content=[Text(text) for text in _texts(done)], is_error=done.failure is not None)
    data = bytes(done.data)
    if data.startswith(b"{"):
        result.structured_content = Raw(data)
    return _with_type(result, modern)


def failed_result(reason: str, modern: bool) -> CallToolResult:
    return _with_type(error_result(reason), modern)


def _with_type(result: CallToolResult, modern: bool) -> CallToolResult:
    result.result_type = "complete" if modern else UNSET
    return result


def unwrap(result: Any) -> Any:
    """Open the reply of a meta tool over MCP, whose only text is the envelope; return others as they are."""
    if not isinstance(result, Raw) or b"error" not in bytes(result):
        return result
    try:
        members = msgspec.json.decode(result, type=dict[str, Raw])
        done = _read_envelope(msgspec.json.decode(members["content"], type=list[_Content]))
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError):
        return result
    if done is None:
        return result
    opened: dict[str, Any] = {name: value for name, value in members.items() if name != "structuredContent"}
    opened["content"] = [Text(text) for text in _texts(done)]
    opened["isError"] = done.failure is not None
    if bytes(done.data).startswith(b"{"):
        opened["structuredContent"] = done.data
    return Raw(encode(opened))


def data_of(result: Any) -> dict[str, Any]:
    """Return the structured content of an unwrapped result."""
    try:
        members = msgspec.json.decode(result, type=dict[str, Raw]) if isinstance(result, Raw) else {}
        return msgspec.json.decode(members["structuredContent"], type=dict[str, Any])
    except (msgspec.DecodeError, KeyError):
        return {}


def with_data(result: Raw, data: dict[str, Any]) -> Raw:
    """Replace the structured content of a result, and its text."""
    members: dict[str, Any] = msgspec.json.decode(result, type=dict[str, Raw])
    body = encode(data)
    return Raw(encode({**members, "content": [Text(body.decode())], "structuredContent": Raw(body)}))


def _read_envelope(blocks: list[_Content]) -> ExecutedTool | None:
    if len(blocks) != 1 or blocks[0].type != "text":
        return None
    body = blocks[0].text.encode()
    if not _ENVELOPE.issubset(msgspec.json.decode(body, type=dict[str, Raw])):
        return None
    return executed(body)


def _texts(done: ExecutedTool) -> list[str]:
    """Return the reason of a failure, then the data as JSON for clients without structured content."""
    data = bytes(done.data)
    if done.failure is None:
        return [data.decode()]
    return [clean(done.failure), *([] if data in _EMPTY else [data.decode()])]


class KeyRedactor:
    """Masks the API key in results and errors."""

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= MIN_SECRET else ""

    def result(self, result: Any) -> Any:
        if not isinstance(result, Raw) or not self._key or self._key.encode() not in bytes(result):
            return result
        return Raw(bytes(result).replace(self._key.encode(), MASK.encode()))

    def executed(self, done: ExecutedTool) -> ExecutedTool:
        failure = done.failure
        if failure is not None and self._key:
            failure = failure.replace(self._key, MASK)
        return ExecutedTool(self.result(done.data), failure)

    def error(self, error: McpError) -> McpError:
        if not self._key or self._key not in f"{error.message} {error.data}":
            return error
        return McpError(error.code, error.message.replace(self._key, MASK))
