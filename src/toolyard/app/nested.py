"""Nested calls: a server in this process calls other tools on behalf of the caller that called it.

A nested call is a call: it goes to the view as the client's own would, and so through access, approvals,
limits, audit and the rest. It cannot ask the user anything, since the client waits for another answer.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..pipeline import NESTED_BYTES
from ..views.view import View
from ..wire.call import CAPABILITIES_KEY, NO_CHANNEL, TASKS_EXTENSION, Call, Caller, StreamedResult
from ..wire.errors import InvalidRequest
from ..wire.messages import decode_params, encode

MAX_DEPTH = 4
"""A tool that calls a tool that calls a tool: more than this is a loop."""


class NestedCalls:
    def __init__(self, view: Callable[[], View]) -> None:
        self._view = view

    async def __call__(self, call: Call, name: str, arguments: Mapping[str, Any]) -> Any:
        """Calls a tool for the caller of `call`; returns the result as decoded JSON. Raises McpError."""
        if call.depth >= MAX_DEPTH:
            raise InvalidRequest(f"{name[:80]!r} is called through {MAX_DEPTH} other tools already")
        caller, meta = _without_tasks(call)
        params = {"name": name, "arguments": arguments, "_meta": meta}
        nested = replace(
            call,
            method="tools/call",
            params=Raw(encode(params)),
            caller=caller,
            channel=NO_CHANNEL,
            progress_token=None,
            param_headers=None,
            depth=call.depth + 1,
        )
        result = await _decoded(name, await self._view().handle(nested))
        if result.get("resultType") in ("input_required", "task"):
            raise InvalidRequest(f"{name[:80]!r} asks the user something, so it has to be called directly")
        return result


def _without_tasks(call: Call) -> tuple[Caller, dict[str, Any]]:
    """The caller as one that takes no tasks for an answer, and the `_meta` that says so."""
    known = decode_params(call.members().get("_meta", Raw(b"{}")), dict[str, Any])
    meta = {key: value for key, value in known.items() if key != "progressToken"}
    caller = call.caller
    if caller.era == "legacy" or not caller.supports(TASKS_EXTENSION):
        return caller, meta
    capabilities = dict(caller.capabilities)
    capabilities["extensions"] = {
        key: value for key, value in capabilities["extensions"].items() if key != TASKS_EXTENSION
    }
    meta[CAPABILITIES_KEY] = capabilities
    return Caller(caller.version, capabilities, caller.client, caller.identity, caller.log_level), meta


async def _decoded(name: str, result: Any) -> dict[str, Any]:
    if isinstance(result, StreamedResult):
        pieces: list[bytes] = []
        try:
            if result.size > NESTED_BYTES:
                raise InvalidRequest(f"the result of {name[:80]!r} is too large: {result.size} bytes")
            pieces = [piece async for piece in result.chunks()]
        finally:
            result.close()
        return msgspec.json.decode(b"".join(pieces), type=dict[str, Any])
    return msgspec.json.decode(result if isinstance(result, Raw) else encode(result), type=dict[str, Any])
