"""What goes wrong on request: a queue of faults, each for some operations and some times.

An operation has a dotted name, such as `session.search` or `mcp.tools/call.COMPOSIO_SEARCH_TOOLS`. A fault
for `search` takes the operations that have `search` as one of their parts, a fault for a whole name takes
that one, and `*` takes any.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from .refusals import Refusal, expired, unauthorised

Kind = Literal["status", "slow", "empty", "expired", "drop", "garbage", "cut", "corrupt", "lie"]
MESSAGES = {
    410: "Gone",
    429: "Rate limit exceeded. Please try again later.",
    500: "Internal server error",
    502: "Bad gateway",
    503: "Service unavailable",
}


@dataclass
class Fault:
    """One queued fault. `struck` counts the requests that it has met."""

    operation: str
    kind: Kind
    times: int
    status: int = 500
    message: str = ""
    retry_after: float | None = None
    struck: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first request has met it."""
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, operation: str) -> bool:
        whole = self.operation in ("*", operation)
        return self.struck < self.times and (whole or self.operation in operation.split("."))

    def strike(self) -> None:
        self.struck += 1
        self.arrived.set()

    def release(self) -> None:
        """Let the held requests go on, and those still to come."""
        self._released.set()

    async def wait(self) -> None:
        await self._released.wait()

    def refusal(self, session: str) -> Refusal:
        """The error response of a fault that is one."""
        if self.kind == "expired":
            return expired(session or "trs_unknown", self.status)
        if self.status == 401:
            return unauthorised(self.message) if self.message else unauthorised()
        headers: dict[str, str] = {}
        if self.retry_after is not None:
            headers["Retry-After"] = f"{self.retry_after:g}"
        return Refusal(self.status, self.message or MESSAGES.get(self.status, "Refused"), headers=headers)


class Faults:
    """The queue. The first fault in it that takes an operation strikes."""

    def __init__(self) -> None:
        self.queue: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        self.queue.append(fault)
        return fault

    def next(self, operation: str) -> Fault | None:
        fault = next((fault for fault in self.queue if fault.takes(operation)), None)
        if fault is not None:
            fault.strike()
        return fault

    def clear(self) -> None:
        """Forget all of them; what is held goes on."""
        for fault in self.queue:
            fault.release()
        self.queue.clear()
