"""The key does not leave with what Composio says, should it repeat it."""

from typing import Any

from msgspec import Raw

from ...upstream.composio import Executed
from ...upstream.composio.rest import MIN_SECRET
from ...wire.errors import McpError

_MASK = "***"


class Blotter:
    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= MIN_SECRET else ""

    def result(self, result: Any) -> Any:
        if not isinstance(result, Raw) or not self._key or self._key.encode() not in bytes(result):
            return result
        return Raw(bytes(result).replace(self._key.encode(), _MASK.encode()))

    def executed(self, done: Executed) -> Executed:
        failure = done.failure
        if failure is not None and self._key:
            failure = failure.replace(self._key, _MASK)
        return Executed(self.result(done.data), failure)

    def error(self, error: McpError) -> McpError:
        if not self._key or self._key not in f"{error.message} {error.data}":
            return error
        return McpError(error.code, error.message.replace(self._key, _MASK))
