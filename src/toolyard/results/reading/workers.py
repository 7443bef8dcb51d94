"""The processes that queries run in: started when needed, ended when idle, killed when one takes too long."""

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any

import msgspec

from .asked import Wrong
from .parts import Part
from .worker import Answer, Request

MOST = 2
"""Each may take as much memory as a query may have."""
IDLE_SECONDS = 60.0
GONE_SECONDS = 1.0
LONGEST_ANSWER = 16 * 2**20
_PASSED_ON = ("SYSTEMROOT", "TMPDIR", "LD_LIBRARY_PATH")


class Workers:
    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST)
        self._idle: dict[str, list[_Worker]] = {}
        """By what they do: a loaded database takes memory that a value then has not."""
        self._all: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request) -> Part:
        """Wrong with what its author should know when it cannot be answered."""
        try:
            async with asyncio.timeout(request.seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Wrong("Other queries are running and take long; ask again in a moment") from None
        try:
            idle = self._idle.setdefault("sql" if request.way == "sql" else "", [])
            worker = idle.pop() if idle else await self._started()
            line = await self._exchanged(worker, request, idle)
        finally:
            self._places.release()
        found = msgspec.json.decode(line, type=Answer)
        if found.part is None:
            raise Wrong(found.failed)
        return found.part

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
