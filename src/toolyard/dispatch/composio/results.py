"""Composio's `{data, error, successful}` as a tool result, with the API key redacted."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ...kit.calls.content import error_result
from ...upstream.composio import replies
from ...upstream.composio.api import ExecutedTool
from ...upstream.composio.rest import MIN_SECRET
from ...wire.errors import McpError
from ...wire.messages import encode
from ...wire.text import clean
from ...wire.types import CallToolResult, Text

_WRAPPING = frozenset(("data", "error"))


_NOTHING = (b"null", b"{}", b"[]", b'""')


class _Content(Struct):
    type: str = ""
    text: str = ""


def result_of(done: ExecutedTool, modern: bool) -> CallToolResult:
    """What a tool that was executed over REST answers."""
    result = CallToolResult(content=[Text(text) for text in _texts(done)], is_error=done.failure is not None)
    data = bytes(done.data)
    if data.startswith(b"{"):
        result.structured_content = Raw(data)
    return _stamped(result, modern)


def failed_result(reason: str, modern: bool) -> CallToolResult:
    return _stamped(error_result(reason), modern)


def _stamped(result: CallToolResult, modern: bool) -> CallToolResult:
    result.result_type = "complete" if modern else UNSET
    return result


def unwrapped(result: Any) -> Any:
    """A meta tool's result over MCP, whose one text is the wrapped reply; anything else stays as it is."""
    if not isinstance(result, Raw) or b"error" not in bytes(result):
        return result
    try:
        members = msgspec.json.decode(result, type=dict[str, Raw])
        done = _wrapped(msgspec.json.decode(members["content"], type=list[_Content]))
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError):
        return result
    if done is None:
        return result
    told: dict[str, Any] = {name: value for name, value in members.items() if name != "structuredContent"}
    told["content"] = [Text(text) for text in _texts(done)]
    told["isError"] = done.failure is not None
    if bytes(done.data).startswith(b"{"):
        told["structuredContent"] = done.data
    return Raw(encode(told))


def data_of(result: Any) -> dict[str, Any]:
    """The structured part of an opened result."""
    try:
        members = msgspec.json.decode(result, type=dict[str, Raw]) if isinstance(result, Raw) else {}
        return msgspec.json.decode(members["structuredContent"], type=dict[str, Any])
    except (msgspec.DecodeError, KeyError):
        return {}


def with_data(result: Raw, data: dict[str, Any]) -> Raw:
    """The same result with another structured part, and its twin as text."""
    members: dict[str, Any] = msgspec.json.decode(result, type=dict[str, Raw])
    body = encode(data)
    return Raw(encode({**members, "content": [Text(body.decode())], "structuredContent": Raw(body)}))


def _wrapped(blocks: list[_Content]) -> ExecutedTool | None:
    if len(blocks) != 1 or blocks[0].type != "text":
        return None
    body = blocks[0].text.encode()
    if not _WRAPPING.issubset(msgspec.json.decode(body, type=dict[str, Raw])):
        return None
    return replies.executed(body)


def _texts(done: ExecutedTool) -> list[str]:
    """The reason first, if it failed; the data as JSON, for clients that do not know structured content."""
    data = bytes(done.data)
    if done.failure is None:
        return [data.decode()]
    return [clean(done.failure), *([] if data in _NOTHING else [data.decode()])]


_MASK = "***"


class KeyRedactor:
    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= MIN_SECRET else ""

    def result(self, result: Any) -> Any:
        if not isinstance(result, Raw) or not self._key or self._key.encode() not in bytes(result):
            return result
        return Raw(bytes(result).replace(self._key.encode(), _MASK.encode()))

    def executed(self, done: ExecutedTool) -> ExecutedTool:
        failure = done.failure
        if failure is not None and self._key:
            failure = failure.replace(self._key, _MASK)
        return ExecutedTool(self.result(done.data), failure)

    def error(self, error: McpError) -> McpError:
        if not self._key or self._key not in f"{error.message} {error.data}":
            return error
        return McpError(error.code, error.message.replace(self._key, _MASK))
