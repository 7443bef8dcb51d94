"""Turns Composio's `{data, error, successful}` into a tool result.

`data` is the structured content; if the tool failed, with `error` and `successful` beside what it has.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ...composio import ExecutedTool, executed, failure
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
    result.structured_content = _structured(done)
    return _with_type(result, modern)


def failed_result(reason: str, modern: bool) -> CallToolResult:
    return result_of(ExecutedTool(failure=reason), modern)


def _with_type(result: CallToolResult, modern: bool) -> CallToolResult:
    result.result_type = "complete" if modern else UNSET
    return result


def _structured(done: ExecutedTool) -> Any:
    data = bytes(done.data)
    if done.failure is None:
        return done.data if data.startswith(b"{") else UNSET
    own = msgspec.json.decode(data, type=dict[str, Raw]) if data.startswith(b"{") else {}
    return {**own, **failure(clean(done.failure))}


def unwrap(result: Any) -> Any:
    """Open the reply of a meta tool over MCP, whose only text is the envelope, or the reason of a failure.

    Others are returned as they are.
    """
    if not isinstance(result, Raw) or b"rror" not in bytes(result):
        return result
    try:
        members = msgspec.json.decode(result, type=dict[str, Raw])
        blocks = msgspec.json.decode(members["content"], type=list[_Content])
        done = _read_envelope(blocks)
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError):
        return result
    if done is None and bytes(members.get("isError", b"")) == b"true" and "structuredContent" not in members:
        reason = "\n".join(block.text for block in blocks if block.type == "text")
        return Raw(encode({**members, "structuredContent": failure(clean(reason))}))
    if done is None:
        return result
    opened: dict[str, Any] = {name: value for name, value in members.items() if name != "structuredContent"}
    opened["content"] = [Text(text) for text in _texts(done)]
    opened["isError"] = done.failure is not None
    if (structured := _structured(done)) is not UNSET:
        opened["structuredContent"] = structured
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
    try:
        is_envelope = _ENVELOPE.issubset(msgspec.json.decode(body, type=dict[str, Raw]))
        return executed(body) if is_envelope else None
    except msgspec.DecodeError:
        return None


def _texts(done: ExecutedTool) -> list[str]:
    """Return the reason of a failure, then the data as JSON for clients without structured content."""
    data = bytes(done.data)
    if done.failure is None:
        return [data.decode()]
    return [clean(done.failure), *([] if data in _EMPTY else [data.decode()])]
