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

    def issue(self, server: str, id: str, caller: Caller) -> str:
        payload = msgspec.json.encode([server, id, caller.identity.principal])
        return self._sealer.seal(payload, _PURPOSE)

    def read(self, ticket: str, caller: Caller) -> tuple[str, str]:
        """The server and its own id for the task; a stranger's or forged one is an unknown task."""
        try:
            opened = self._sealer.open(ticket, _PURPOSE)
            server, id, principal = msgspec.json.decode(opened, type=tuple[str, str, str])
            if principal == caller.identity.principal:
                return server, id
        except (BrokenSeal, msgspec.DecodeError):
            pass
        raise InvalidParams(f"Task not found: {ticket[:80]!r}; it may have expired")

    def relabel(self, result: Any, server: str, caller: Caller) -> Any:
        """A result or notification with its task id replaced by a ticket."""
        if isinstance(result, TaskState):
            return msgspec.structs.replace(result, task_id=self.issue(server, result.task_id, caller))
        try:
            members: dict[str, Any] = (
                decode_params(result, dict[str, Raw]) if isinstance(result, Raw) else dict(result)
            )
            id = members["taskId"]
            own = decode_params(id, str) if isinstance(id, Raw) else str(id)
        except (InvalidParams, KeyError):
            raise Garbled(server, "what it calls a task has no id") from None
        return Raw(encode({**members, "taskId": self.issue(server, own, caller)}))
