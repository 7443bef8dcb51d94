"""The process that queries run in: started with the first, ended when idle, killed when one takes too long.

One query at a time. Whoever waits in line waits within their own time limit.
"""

import asyncio
import os
import sys
from typing import Any

import msgspec

from .asked import Wrong
from .worker import Request

IDLE_SECONDS = 60.0
LINE = 16 * 2**20
_WINDOWS = {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if "SYSTEMROOT" in os.environ else {}


class Workers:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[Any]] = set()

    async def ask(self, request: Request) -> dict[str, Any]:
        """Wrong with what its author should know when it cannot be answered."""
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            process = self._process or await self._started()
            try:
                async with asyncio.timeout(self.seconds):
                    line = await _exchange(process, msgspec.json.encode(request))
            except TimeoutError:
                await self._kill()
                raise Wrong(f"It took more than {self.seconds:g} s; ask for less, or for a part") from None
            except BaseException:  # a cancelled query must not answer the next one
                await self._kill()
                raise
            if not line.endswith(b"\n"):
                await self._kill()
                raise Wrong("The query took more memory than it may, or ended the process it ran in")
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._rest)
        told = msgspec.json.decode(line, type=dict[str, Any])
        if "failed" in told:
            raise Wrong(str(told["failed"]))
        return told["ok"]

    async def _started(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-P", "-m", "toolyard.results.reading.worker"]
        # Nothing of our environment is its business, but where modules are.
        env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_WINDOWS}
        nowhere = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=nowhere, limit=LINE, env=env
        )
        return self._process

    def _rest(self) -> None:
        if not self._turn.locked():
            task = asyncio.ensure_future(self._kill())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._kill()


async def _exchange(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + b"\n")
        await process.stdin.drain()
        return await process.stdout.readline()
    except (BrokenPipeError, ConnectionResetError):
        return b""
