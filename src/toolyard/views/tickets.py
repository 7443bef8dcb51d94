"""Task ids as callers get them: they say which upstream has the task, and whose it is."""

from typing import Any

import msgspec
from msgspec import Raw

from ..upstream.errors import Garbled
from ..wire.call import Caller
from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode
from ..wire.seal import BrokenSeal, Sealer
from ..wire.types import TaskState

_PURPOSE = "task"


class Tickets:
    """Nothing is kept: the id itself is signed, and good for its owner only."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def issue(self, server: str, tool: str, id: str, caller: Caller) -> str:
        payload = msgspec.json.encode([server, tool, id, caller.identity.principal])
        return self._sealer.seal(payload, _PURPOSE)

    def read(self, ticket: str, caller: Caller) -> tuple[str, str, str]:
        """The server, the tool and their id for the task; a stranger's or forged one is an unknown task."""
        try:
            opened = self._sealer.open(ticket, _PURPOSE)
            server, tool, id, principal = msgspec.json.decode(opened, type=tuple[str, str, str, str])
            if principal == caller.identity.principal:
                return server, tool, id
        except (BrokenSeal, msgspec.DecodeError):
            pass
        raise InvalidParams(f"Task not found: {ticket[:80]!r}; it may have expired")

    def relabel(self, result: Any, server: str, tool: str, caller: Caller) -> Any:
        """A result or notification with its task id replaced by a ticket."""
        ticket = self.issue(server, tool, own_id(server, result), caller)
        if isinstance(result, TaskState):
            return msgspec.structs.replace(result, task_id=ticket)
        return Raw(encode({**_members(result), "taskId": ticket}))


def own_id(server: str, state: Any) -> str:
    """What a server itself calls a task; Garbled when it does not say."""
    if isinstance(state, TaskState):
        return state.task_id
    try:
        id = _members(state)["taskId"]
        return decode_params(id, str) if isinstance(id, Raw) else str(id)
    except (InvalidParams, KeyError):
        raise Garbled(server, "what it calls a task has no id") from None


def _members(state: Any) -> dict[str, Any]:
    return decode_params(state, dict[str, Raw]) if isinstance(state, Raw) else dict(state)
