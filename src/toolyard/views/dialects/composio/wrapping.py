"""`{data, error, successful}`: what every reply of Composio's meta tools is wrapped in."""

from typing import Any

from ....wire.types import CallToolResult
from ..replies import Outcome, json_reply


def wrapped(data: dict[str, Any], error: str | None = None) -> CallToolResult:
    return json_reply(Outcome(data, error).shown(), failed=error is not None)


def refused(error: str) -> CallToolResult:
    return wrapped({}, error)
