"""Worker processes: started when needed, kept while warm, killed when one takes too long.

A worker has one request at a time. Requests wait in a fair queue (`FairLimiter`): the holder of the fewest
slots is next. A worker inherits three pipes and a minimal environment, and ends with this process.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from .process import ANSWER, REQUEST


class NoSlotError(Exception):
    """No slot is free.

    NoSlotError
    ├── TooManyWaitingError  `count` requests of the same holder are waiting already
    └── WaitedTooLongError   no slot became free in time
    """


class TooManyWaitingError(NoSlotError):
    def __init__(self, count: int) -> None:
        super().__init__(f"{count} requests are waiting already")
        self.count = count


class WaitedTooLongError(NoSlotError):
    pass


class FairLimiter:
    def __init__(self, places: int, *, max_waiting: int | None = None) -> None:
        """At most `max_waiting` requests of one holder may wait; None means no limit."""
        self._free = places
        self._each = max(1, places - 1)
        """One slot is kept free for a new holder."""
        self._max_waiting = max_waiting
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By holder, the one served longest ago first."""

    @asynccontextmanager
    async def slot(self, holder: str, seconds: float | None = None) -> AsyncGenerator[None]:
        """Wait at most `seconds` for a slot, which counts for `holder`."""
        await self._acquire(holder, seconds)
        try:
            yield
        finally:
            self._take_back(holder)

    async def _acquire(self, holder: str, seconds: float | None) -> None:
        waiting = self._waiting.setdefault(holder, deque())
        if self._max_waiting is not None and len(waiting) >= self._max_waiting:
            raise TooManyWaitingError(len(waiting))
        given = asyncio.get_running_loop().create_future()
        waiting.append(given)
        self._give()
        try:
            async with asyncio.timeout(seconds):
                await given
        except BaseException as error:
            if given.cancelled():
                self._leave(holder, given)
            else:  # it got a slot at the same moment
                self._take_back(holder)
            if isinstance(error, TimeoutError):
                raise WaitedTooLongError from None
            raise

    def _give(self) -> None:
        while self._free:
            able = [holder for holder in self._waiting if self._held[holder] < self._each]
            if not able:
                return
            holder = min(able, key=lambda one: self._held[one])
            waiting = self._waiting.pop(holder)
            given = waiting.popleft()
            if waiting:
                self._waiting[holder] = waiting  # to the end: the others come first
            if not given.done():  # done if it was cancelled just now
                self._free -= 1
                self._held[holder] += 1
                given.set_result(None)

    def _leave(self, holder: str, given: "asyncio.Future[None]") -> None:
        """Stop waiting; the holder's other requests keep their turn."""
        waiting = self._waiting.get(holder, deque())
        if given in waiting:
            waiting.remove(given)
        if not waiting:
            self._waiting.pop(holder, None)

    def _take_back(self, holder: str) -> None:
        self._free += 1
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        self._give()


logger = logging.getLogger("toolyard.workers")

IDLE_SECONDS = 60.0
START_SECONDS = 60.0
GONE_SECONDS = 5.0
_STDERR_TAIL = 2_000
"""Bytes kept of the end of a worker's standard error."""
_ENVIRONMENT = ("SYSTEMROOT", "TMPDIR", "LD_LIBRARY_PATH", "TZ")
_KILLED_BY_OTHERS = tuple(-getattr(signal, name, 0) for name in ("SIGKILL", "SIGTERM"))
"""None of our limits kills a worker with these signals: the cause may not be the request."""
_TIMED_OUT = -getattr(signal, "SIGALRM", 0)
_READ_AHEAD = 2**20


class WorkerError(Exception):
    """A request got no answer.

    WorkerError
    ├── WorkerTimeoutError  the request took too long
    ├── WorkerDiedError     the process ended: `status` as in `subprocess`, negative for a signal
    └── WorkerStartError    no process could be started
    """


class WorkerTimeoutError(WorkerError):
    pass


class WorkerDiedError(WorkerError):
    def __init__(self, status: int | None, was_fresh: bool = True) -> None:
        super().__init__(f"the worker ended ({_status(status)})")
        self.status = status
        self.was_fresh = was_fresh
        """Whether this was the worker's first request."""


class WorkerStartError(WorkerError):
    pass


class WorkerPool:
    """Up to `max_workers` processes of `python -m module KIND`, shared by all callers."""

    def __init__(
        self,
        module: str,
        *,
        max_workers: int,
        max_waiting: int | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """At most `max_waiting` requests of one caller may wait; None means no limit."""
        self._command = [sys.executable, "-P", "-m", module]
        self._max_workers = max_workers
        self._limiter = FairLimiter(max_workers, max_waiting=max_waiting)
        self._idle_seconds = idle_seconds
        self._idle: list[_Worker] = []
        """Idle workers, the last used one last."""
        self._all: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def ask(
        self,
        request: bytes,
        *,
        seconds: float,
        max_bytes: int,
        caller: str = "",
        wait_seconds: float | None = None,
        kind: str = "",
        subject: str = "",
        fresh: bool = False,
    ) -> bytes:
        """Return the answer, of at most `max_bytes` bytes.

        Raises NoSlotError if no worker is free in time; waiting for one does not count as `seconds`.

        A worker serves one `kind` of request, which is set when it starts. A worker whose last request was
        about the same `subject` is preferred, because it may have that loaded. A `fresh` worker has had no
        other request. Cancelling the task ends the work. If another program killed the worker, the request
        runs once more in the time that is left, so it must be safe to run twice.
        """
        async with self._limiter.slot(caller, wait_seconds):
            left = seconds
            for may_repeat in (True, False):
                began = None
                try:
                    worker = await (self._start_fresh(kind) if fresh else self._acquire(kind, subject))
                    worker.subject = subject
                    began = time.monotonic()
                    return await self._exchange(worker, request, left, max_bytes)
                except WorkerDiedError as error:
                    left -= 0.0 if began is None else time.monotonic() - began
                    if not may_repeat or left <= 0 or self._closed or error.status not in _KILLED_BY_OTHERS:
                        raise
        raise AssertionError("the second attempt returns or raises")

    async def close(self) -> None:
        """End every process and its work."""
        self._closed = True
        self._idle.clear()
        await asyncio.gather(*self._ending, *map(self._end, list(self._all)), return_exceptions=True)

    async def _acquire(self, kind: str, subject: str) -> "_Worker":
        while able := [worker for worker in self._idle if worker.kind == kind]:
            # Without a subject, use the last used worker, so that the others can end. With one, use the
            # worker that was not used for longest: what it has loaded is needed least.
            other = able[0] if subject else able[-1]
            worker = next((one for one in reversed(able) if one.subject == subject), other)
            self._idle.remove(worker)
            if worker.is_running:
                return worker
            await self._end(worker)
        return await self._started(kind)

    async def _start_fresh(self, kind: str) -> "_Worker":
        able = [worker for worker in self._idle if worker.kind == kind]
        if able:
            self._idle.remove(able[-1])
            await self._end(able[-1])
        return await self._started(kind)

    async def _started(self, kind: str) -> "_Worker":
        while self._idle and len(self._all) >= self._max_workers:  # idle ones of another kind
            await self._end(self._idle.pop(0))
        self._check_open()
        worker = _Worker([*self._command, *filter(None, [kind])], kind)
        self._all.add(worker)
        try:
            await worker.start()
            self._check_open()
        except EOFError:
            status = await self._gone(worker)
            self._check_open()
            if status in _KILLED_BY_OTHERS:
                raise WorkerDiedError(status) from None
            raise WorkerStartError(worker.stderr_tail or f"it ended ({_status(status)})") from None
        except OSError as error:  # TimeoutError is one
            await self._end(worker)
            said = worker.stderr_tail or error.strerror or f"it was not ready within {START_SECONDS:g} s"
            raise WorkerStartError(said) from None
        except BaseException:
            await self._end(worker)
            raise
        return worker

    def _check_open(self) -> None:
        if self._closed:
            raise WorkerStartError("the server is closing")

    async def _exchange(self, worker: "_Worker", request: bytes, seconds: float, max_bytes: int) -> bytes:
        try:
            answer = await worker.exchange(request, seconds, max_bytes)
        except TimeoutError:
            await self._end(worker)
            raise WorkerTimeoutError from None
        except EOFError:
            status = await self._gone(worker)
            logger.info("a worker ended (%s): %s", _status(status), worker.stderr_tail)
            raise (
                WorkerTimeoutError() if status == _TIMED_OUT else WorkerDiedError(status, worker.is_fresh)
            ) from None
        except BaseException:  # cancelled: the next request must not get this answer
            await self._end(worker)
            raise
        worker.is_fresh = False
        self._idle.append(worker)
        worker.resting = asyncio.get_running_loop().call_later(self._idle_seconds, self._rest, worker)
        return answer

    def _rest(self, worker: "_Worker") -> None:
        if worker in self._idle:
            self._idle.remove(worker)
            task = asyncio.ensure_future(self._end(worker))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _gone(self, worker: "_Worker") -> int | None:
        """The exit status of a worker that closed its output."""
        try:
            return await worker.gone()
        finally:
            await self._end(worker)

    async def _end(self, worker: "_Worker") -> None:
        self._all.discard(worker)
        await worker.kill()


class _Worker:
    """One process, which has one request at a time."""

    def __init__(self, command: Sequence[str], kind: str) -> None:
        self.kind = kind
        self.subject = ""
        """The subject of its last request."""
        self.resting: asyncio.TimerHandle | None = None
        self.is_fresh = True
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._said = b""
        self._listening: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def stderr_tail(self) -> str:
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises OSError or EOFError if it fails."""
        pipe = asyncio.subprocess.PIPE
        known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **known}
        # In a new session, so that Ctrl-C in a terminal reaches only us; we end the worker.
        options: Any = {"start_new_session": True} if os.name == "posix" else {}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=_READ_AHEAD, env=env, **options
        )
        self._listening = asyncio.create_task(self._listen())
        async with asyncio.timeout(START_SECONDS):
            await self._answer(0)

    async def exchange(self, request: bytes, seconds: float, max_bytes: int) -> bytes:
        """Return the answer. Raises TimeoutError, or EOFError if the process ends first."""
        if self.resting is not None:
            self.resting.cancel()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        async with asyncio.timeout(seconds):
            try:
                process.stdin.write(REQUEST.pack(len(request), seconds) + request)
                await process.stdin.drain()
            except ConnectionError:
                raise EOFError from None
            return await self._answer(max_bytes)

    async def _answer(self, max_bytes: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        (length,) = ANSWER.unpack(await self._process.stdout.readexactly(ANSWER.size))
        if length > max_bytes:
            raise WorkerDiedError(None)
        return await self._process.stdout.readexactly(length)

    async def _listen(self) -> None:
        """Read its standard error; otherwise it would block when the pipe is full."""
        assert self._process is not None
        assert self._process.stderr is not None
        while said := await self._process.stderr.read(_STDERR_TAIL):
            self._said = (self._said + said)[-_STDERR_TAIL:]

    async def gone(self) -> int | None:
        """Its exit status. It has closed its output, so it ends by itself. Killing it now could lose the
        status."""
        assert self._process is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(GONE_SECONDS):
                await self._process.wait()
                if self._listening is not None:
                    await asyncio.wait({self._listening})
        return self._process.returncode

    async def kill(self) -> None:
        if self.resting is not None:
            self.resting.cancel()
        if self._process is not None:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()
            with suppress(TimeoutError):  # waiting for a disk keeps even a killed process alive
                async with asyncio.timeout(GONE_SECONDS):
                    await self._process.wait()
        if self._listening is not None:
            self._listening.cancel()


def _status(status: int | None) -> str:
    if status is None:
        return "it did not exit"
    return signal.Signals(-status).name if status < 0 else f"status {status}"
