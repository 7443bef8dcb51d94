"""How fast each host is asked: connections at a time, seconds between requests, and pauses that it asks for.

One gate for a host, shared by all crawls of the process, so that two callers together are as polite as one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

MAX_GATES = 2_000
"""Gates that nobody uses are forgotten from this number on."""


class HostGate:
    def __init__(self, connections: int, delay: float) -> None:
        self._slots = asyncio.Semaphore(connections)
        self._delay = delay
        self._next = 0.0
        self._paused_until = 0.0
        self._users = 0

    @property
    def is_idle(self) -> bool:
        return self._users == 0 and max(self._next, self._paused_until) <= asyncio.get_running_loop().time()

    def slow_down(self, delay: float) -> None:
        """Leaves at least so many seconds between requests."""
        self._delay = max(self._delay, delay)

    def pause(self, seconds: float) -> None:
        """Starts no request before so many seconds."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        self._users += 1
        try:
            async with self._slots:
                await self._wait()
                yield
        finally:
            self._users -= 1

    async def _wait(self) -> None:
        clock = asyncio.get_running_loop().time
        while (paused := self._paused_until - clock()) > 0:  # noqa: ASYNC110 (it may grow meanwhile)
            await asyncio.sleep(paused)
        now = clock()
        start = max(now, self._next)
        self._next = start + self._delay
        if start > now:
            await asyncio.sleep(start - now)


class HostGates:
    def __init__(self, connections: int, delay: float) -> None:
        self._connections = connections
        self._delay = delay
        self._gates: OrderedDict[str, HostGate] = OrderedDict()

    def of(self, host: str) -> HostGate:
        gate = self._gates.get(host)
        if gate is None:
            self._forget_idle()
            gate = self._gates[host] = HostGate(self._connections, self._delay)
        self._gates.move_to_end(host)
        return gate

    def _forget_idle(self) -> None:
        if len(self._gates) >= MAX_GATES:
            for host in [host for host, gate in self._gates.items() if gate.is_idle]:
                del self._gates[host]
