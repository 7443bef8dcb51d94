"""One tool called through a meta tool: found, its arguments checked, passed on, and learnt from.

The call that leaves is the client's own, under another name: its progress token, its answers to questions and
its cancellation work as if the tool had been called by itself.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ...catalogue.lending import borrower
from ...kit.content import ToolError
from ...state.errors import StateError
from ...wire.call import Call, Streamed
from ...wire.errors import INVALID_PARAMS, McpError
from ...wire.messages import decode_params, encode
from ..calling import tell
from .checking import Checks
from .finds import Finds
from .known import Known
from .supplies import Supplies
from .threads import is_known

Outcome = Literal["success", "failure", "arguments"]
Forward = Callable[[Call], Awaitable[Any]]

_ROUND_TRIP = ("_meta", "requestState", "inputResponses")
_READ_UP_TO = 1 << 20


class BadArguments(ToolError):
    """The arguments do not fit the tool's input schema; nothing has left."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool


class _Head(Struct, rename="camel"):
    is_error: bool = False
    result_type: str = ""


class Executing:
    def __init__(self, supplies: Supplies, known: Known, finds: Finds, forward: Forward) -> None:
        self._supplies = supplies
        self._known = known
        self._finds = finds
        self._forward = forward
        self._checks = Checks()

    async def call(self, call: Call, tool: str, arguments: dict[str, Any]) -> Any:
        """The upstream's own result; UnknownTool, BadArguments, or McpError as the upstream said it."""
        entry = await self._known.seek(call, tool)
        faults = self._checks.of(entry.name, entry.item.rest).faults(arguments)
        if faults:
            self._learn(call, entry.name, "arguments")
            lines = "\n".join(f"- {fault}" for fault in faults)
            raise BadArguments(tool, f"The arguments do not fit {entry.name!r}; nothing was sent.\n{lines}")
        return await self.run(_named(call, entry.name, arguments), entry.name)

    async def run(self, call: Call, tool: str) -> Any:
        """A call by a tool's full name."""
        try:
            result = await self._forward(call)
        except McpError as error:
            self._learn(call, tool, "arguments" if error.code == INVALID_PARAMS else "failure")
            raise
        head = head_of(call, result)
        if head.result_type not in ("input_required", "task"):
            self._learn(call, tool, "failure" if head.is_error else "success")
        return result

    def _learn(self, call: Call, tool: str, outcome: Outcome) -> None:
        whose = borrower(call)
        use_case = self._finds.use_case(whose, tool)
        if use_case is None and is_known(call, self._supplies.yard):
            # Where conversations share a thread, the last search may have been anybody's.
            use_case = self._finds.last_use_case(whose)
        if use_case is not None and self._supplies.outcomes is not None:
            tell(self._noted(call.caller.tenant, use_case, tool, outcome))

    async def _noted(self, tenant: str, use_case: str, tool: str, outcome: Outcome) -> None:
        assert self._supplies.outcomes is not None
        with suppress(StateError):
            await self._supplies.outcomes.note(tenant, use_case, tool, outcome)


def _named(call: Call, tool: str, arguments: dict[str, Any]) -> Call:
    members = decode_params(call.params, dict[str, Raw])
    kept = {key: members[key] for key in _ROUND_TRIP if key in members}
    params = Raw(encode({"name": tool, "arguments": arguments, **kept}))
    # What the client mirrored in headers were the arguments of the meta tool.
    return replace(call, params=params, param_headers=None)


def head_of(call: Call, result: Any) -> _Head:
    """Of which kind a result is, and whether it says that the tool failed."""
    head = _Head()
    if isinstance(result, Raw):
        body = bytes(result)
        if len(body) <= _READ_UP_TO and (b'"isError"' in body or b'"resultType"' in body):
            with suppress(msgspec.DecodeError):
                head = msgspec.json.decode(body, type=_Head)
    elif not isinstance(result, Streamed):
        kind = getattr(result, "result_type", "")
        head = _Head(getattr(result, "is_error", False) is True, kind if isinstance(kind, str) else "")
    if call.caller.era == "legacy":  # the word means nothing there
        head.result_type = ""
    return head
