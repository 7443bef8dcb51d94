"""Worker processes: started when needed, kept while warm, killed when one takes too long.

A worker has one request at a time. Requests wait in a fair queue (`FairLimiter`): who holds the fewest
places is next. A worker inherits three pipes and a minimal environment, and ends with this process.
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
    """There is no place now.

    NoPlaceError
    ├── TooManyWaitingError  `count` requests of the same holder wait already
    └── WaitedTooLongError   nobody gave one back in time
    """


class TooManyWaitingError(NoSlotError):
    def __init__(self, count: int) -> None:
        super().__init__(f"{count} requests are waiting already")
        self.count = count


class WaitedTooLongError(NoSlotError):
    pass


class FairLimiter:
    def __init__(self, places: int, *, max_waiting: int | None = None) -> None:
        """At most `max_waiting` requests of one holder wait; by default there is no end to them."""
        self._free = places
        self._each = max(1, places - 1)
        """One place is kept for a newcomer."""
        self._max_waiting = max_waiting
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By holder, those who were served longest ago first."""

    @asynccontextmanager
    async def slot(self, holder: str, seconds: float | None = None) -> AsyncGenerator[None]:
        """Waits for a place, for so long at most; `holder` is whose share it is taken from."""
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
            else:  # it was given a place in the same moment
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
                self._waiting[holder] = waiting  # at the end: the others come first
            if not given.done():  # it is when it was cancelled just now
                self._free -= 1
                self._held[holder] += 1
                given.set_result(None)

    def _leave(self, holder: str, given: "asyncio.Future[None]") -> None:
        """Without losing the turn of the holder's other requests."""
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
"""Bytes of what a worker says at last on its standard error."""
_ENVIRONMENT = ("SYSTEMROOT", "TMPDIR", "LD_LIBRARY_PATH", "TZ")
_KILLED_BY_OTHERS = tuple(-getattr(signal, name, 0) for name in ("SIGKILL", "SIGTERM"))
"""No limit of ours ends a worker so: somebody else did, and the request may be innocent."""
_TIMED_OUT = -getattr(signal, "SIGALRM", 0)
_READ_AHEAD = 2**20


class WorkerError(Exception):
    """A request without an answer.

    WorkerError
    ├── WorkerTimeout     it took longer than it may
    ├── WorkerDied        the process ended: `status` as of `subprocess`, negative for a signal
    └── WorkerNotStarted  there is no process to give it to
    """


class WorkerTimeoutError(WorkerError):
    pass


class WorkerDiedError(WorkerError):
    def __init__(self, status: int | None, was_fresh: bool = True) -> None:
        super().__init__(f"the worker ended ({_status(status)})")
        self.status = status
        self.was_fresh = was_fresh
        """Whether it had no other request before."""


class WorkerStartError(WorkerError):
    pass


class WorkerPool:
    """Up to `max_workers` processes of `python -m module KIND`, shared by those who ask."""

    def __init__(
        self,
        module: str,
        *,
        max_workers: int,
        max_waiting: int | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """At most `max_waiting` requests of one caller wait; by default there is no end to them."""
        self._command = [sys.executable, "-P", "-m", module]
        self._max_workers = max_workers
        self._limiter = FairLimiter(max_workers, max_waiting=max_waiting)
        self._idle_seconds = idle_seconds
        self._idle: list[_Worker] = []
        """The one that had a request last is the last."""
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

        Raises NoPlaceError if no worker is free in time; waiting for one does not count as `seconds`.

        A worker has requests of one `kind` only, which it is started with. Of several, the one that had the
        last request about the same `subject` is preferred: it may have that loaded. A `fresh` one has had no
        other request. Cancelling the task ends the work. A request whose worker was killed by somebody else
        is given to another one in the time that is left, so it must do no harm to be done twice.
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
        raise AssertionError("the second time returns or raises")

    async def close(self) -> None:
        """Ends every process, and with it what is being worked on."""
        self._closed = True
        self._idle.clear()
        await asyncio.gather(*self._ending, *map(self._end, list(self._all)), return_exceptions=True)

    async def _acquire(self, kind: str, subject: str) -> "_Worker":
        while able := [worker for worker in self._idle if worker.kind == kind]:
            # Without a subject the latest, so that the others may end; with one, what was loaded
            # longest ago makes room for it.
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
            said = worker.stderr_tail or error.strerror or f"it was not ready in {START_SECONDS:g} s"
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
        except BaseException:  # cancelled: this answer must not become the next one's
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
        """The status of one that says no more."""
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
        """Of its latest request."""
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
        """Until it is ready. OSError or EOFError when it does not get so far."""
        pipe = asyncio.subprocess.PIPE
        known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **known}
        # A session of its own: Ctrl-C in a terminal is for us, and we end it.
        options: Any = {"start_new_session": True} if os.name == "posix" else {}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=_READ_AHEAD, env=env, **options
        )
        self._listening = asyncio.create_task(self._listen())
        async with asyncio.timeout(START_SECONDS):
            await self._answer(0)

    async def exchange(self, request: bytes, seconds: float, max_bytes: int) -> bytes:
        """TimeoutError, or EOFError when the process ended instead."""
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
        """What it says on its standard error is read, or it would wait for that."""
        assert self._process is not None
        assert self._process.stderr is not None
        while said := await self._process.stderr.read(_STDERR_TAIL):
            self._said = (self._said + said)[-_STDERR_TAIL:]

    async def gone(self) -> int | None:
        """Its exit status. It says no more, so it ends by itself: killing a process that is just gone would
        take its status away from whoever waits for that."""
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
            with suppress(TimeoutError):  # a disk that does not answer keeps even a killed process
                async with asyncio.timeout(GONE_SECONDS):
                    await self._process.wait()
        if self._listening is not None:
            self._listening.cancel()


def _status(status: int | None) -> str:
    if status is None:
        return "it does not exit"
    return signal.Signals(-status).name if status < 0 else f"status {status}"
