"""The processes that queries run in: started when needed, ended when idle, killed when one takes too long.

Tenants share them. None has all of them, so that somebody else's long queries make nobody wait while a
process is left, and who has the fewest is next.
"""

import asyncio
import os
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from .asked import Wrong
from .indexes import Index
from .parts import Part
from .worker import Answer, Request

MOST = 3
"""Each may take as much memory as a query may have."""
MOST_OF_ONE = 2
MOST_WAITING = 16
"""Queries of one tenant."""
IDLE_SECONDS = 60.0
GONE_SECONDS = 1.0
LONGEST_ANSWER = 16 * 2**20
_PASSED_ON = ("SYSTEMROOT", "TMPDIR", "LD_LIBRARY_PATH")


class Shares:
    """Places for the work of tenants: at most so many in all, and fewer for any one of them."""

    def __init__(self, most: int, most_of_one: int, most_waiting: int) -> None:
        self._free = most
        self._most_of_one = most_of_one
        self._most_waiting = most_waiting
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By tenant, in the order in which they had their last turn."""

    @asynccontextmanager
    async def place(self, tenant: str, seconds: float) -> AsyncGenerator[None]:
        """Wrong when there is none in time."""
        await self._taken(tenant, seconds)
        try:
            yield
        finally:
            self._give_back(tenant)

    async def _taken(self, tenant: str, seconds: float) -> None:
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= self._most_waiting:
            raise Wrong(
                f"{len(queue)} queries of yours are waiting already; ask again when some are answered"
            )
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._pass_on()
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._give_back(tenant)
            else:
                self._leave(tenant, turn)
            if isinstance(error, TimeoutError):
                raise Wrong("Other queries are running and take long; ask again in a moment") from None
            raise

    def _leave(self, tenant: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(tenant, deque())
        with suppress(ValueError):
            queue.remove(turn)
        if not queue:
            self._waiting.pop(tenant, None)

    def _give_back(self, tenant: str) -> None:
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._pass_on()

    def _pass_on(self) -> None:
        """To who has the fewest; of those to who had the last turn longest ago."""
        while self._free:
            able = [tenant for tenant in self._waiting if self._held[tenant] < self._most_of_one]
            if not able:
                return
            tenant = min(able, key=self._held.__getitem__)
            queue = self._waiting.pop(tenant)
            turn = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # behind all others
            if not turn.done():  # it is when its query was cancelled just now
                turn.set_result(None)
                self._held[tenant] += 1
                self._free -= 1


class Workers:
    def __init__(self) -> None:
        self._shares = Shares(MOST, MOST_OF_ONE, MOST_WAITING)
        self._idle: dict[str, list[_Worker]] = {}
        """By what they do: a loaded database takes memory that a value then has not."""
        self._all: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def part(self, tenant: str, request: Request) -> Part:
        """What was asked for; Wrong with what its author should know when it cannot be answered."""
        found = (await self._ask(tenant, request)).part
        assert found is not None
        return found

    async def index(self, tenant: str, request: Request) -> Index:
        """The same for where items begin."""
        found = (await self._ask(tenant, request)).index
        assert found is not None
        return found

    async def _ask(self, tenant: str, request: Request) -> Answer:
        async with self._shares.place(tenant, request.seconds):
            idle = self._idle.setdefault("sql" if request.way == "sql" else "", [])
            worker = idle.pop() if idle else await self._started()
            line = await self._exchanged(worker, request, idle)
        found = msgspec.json.decode(line, type=Answer)
        if found.failed:
            raise Wrong(found.failed)
        return found

    async def _started(self) -> "_Worker":
        worker = _Worker()
        self._all.add(worker)
        try:
            await worker.start()
        except OSError as error:
            self._all.discard(worker)
            raise Wrong(f"Queries cannot be run now: {error.strerror or error}") from None
        return worker

    async def _exchanged(self, worker: "_Worker", request: Request, idle: "list[_Worker]") -> bytes:
        try:
            async with asyncio.timeout(request.seconds):
                line = await worker.exchange(msgspec.json.encode(request))
        except TimeoutError:
            await self._end(worker)
            raise Wrong(f"It took more than {request.seconds:g} s; ask for less, or for a part") from None
        except BaseException:  # a cancelled query must not answer the next one
            await self._end(worker)
            raise
        if not line.endswith(b"\n"):
            await worker.gone()
            await self._end(worker)
            raise Wrong("The query took more memory than it may, or ended the process it ran in")
        idle.append(worker)
        worker.resting = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._rest, worker, idle)
        return line

    def _rest(self, worker: "_Worker", idle: "list[_Worker]") -> None:
        if worker in idle:
            idle.remove(worker)
            task = asyncio.ensure_future(self._end(worker))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, worker: "_Worker") -> None:
        self._all.discard(worker)
        await worker.kill()

    async def close(self) -> None:
        self._idle.clear()
        await asyncio.gather(*self._ending, *map(self._end, list(self._all)), return_exceptions=True)


class _Worker:
    """One process, which answers one query at a time."""

    def __init__(self) -> None:
        self.resting: asyncio.TimerHandle | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        # Nothing of our environment is its business, but where modules and temporary files are.
        known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **known}
        command = [sys.executable, "-P", "-m", "toolyard.results.reading.worker"]
        options: Any = {"start_new_session": True} if os.name == "posix" else {}
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=nowhere, limit=LONGEST_ANSWER, env=env, **options
        )

    async def exchange(self, request: bytes) -> bytes:
        """One line for one line; less than a line when the process ended instead."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        if self.resting is not None:
            self.resting.cancel()
        try:
            process.stdin.write(request + b"\n")
            await process.stdin.drain()
            return await process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            return b""

    async def gone(self) -> None:
        """It says no more, so it ends by itself: who kills a process that is just gone takes its exit status
        away from whoever waits for that."""
        assert self._process is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(GONE_SECONDS):
                await self._process.wait()

    async def kill(self) -> None:
        if self.resting is not None:
            self.resting.cancel()
        process = self._process
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()
