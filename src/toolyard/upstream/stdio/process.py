"""A child process that speaks in lines: started in its own session, ended with all it started.

Owns the child from start to exit, and splitting its output into lines of any length. What the lines mean is
the connector's business.
"""

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress

from ...wire.messages import Id
from ..messages.envelope import guess_id
from ..messages.spool import BOUND, LIMIT, TAIL, Spool, Spooled, SpoolError, format_size
from . import groups
from .child import STDERR, STDIN, STDOUT, ChildHandle, ChildProcess, spawn, within
from .groups import ProcessEntry
from .guardian import guardian, memory_watch
from .launch import Launch, Program, StartError, explain, prepare
from .stderr import ErrorStream, telling


class SkippedLine(Exception):
    """A line that could not be kept and was skipped. `id` is its message's, where that can be told."""

    def __init__(self, reason: str, head: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.id: Id | None = None
        self._head = head
        self._tail = b""

    def add(self, piece: bytes) -> None:
        self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def end(self) -> None:
        self.id = guess_id(self._head, self._tail)
        self._head = self._tail = b""


OutputLine = bytes | Spooled | SkippedLine


class LineSplitter:
    def __init__(self, bound: int = BOUND, limit: int = LIMIT) -> None:
        self._bound = bound
        self._limit = limit
        self._short = min(bound, limit)
        self._open: Spool | SkippedLine | None = None
        self.skipped = 0
        """Bytes of the line under way that were thrown away; 0 when it is one that can be kept."""

    def feed(self, data: bytes) -> list[OutputLine]:
        """The lines that end in these bytes; empty ones are left out."""
        lines: list[OutputLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._open is None and end - start <= self._short:
                line = data[start:end]
                if line and not line.isspace():
                    lines.append(line)
            else:
                self._add(data[start:end])
                lines += self.finish()
            start = end + 1
        if start < len(data):
            self._add(data[start:])
        return lines

    def finish(self) -> list[OutputLine]:
        """The line that is under way, as if it ended here."""
        line, self._open = self._open, None
        self.skipped = 0
        if isinstance(line, Spool):
            try:
                whole = line.finish()
            except SpoolError as error:
                line, _ = SkippedLine(str(error), line.head), line.discard()
            else:
                return [] if isinstance(whole, bytes) and not whole.strip() else [whole]
        if line is None:
            return []
        line.end()
        return [line]

    def discard(self) -> None:
        self._open = None

    def _add(self, piece: bytes) -> None:
        if self._open is None:
            self._open = Spool(self._bound, self._limit)
        if isinstance(self._open, SkippedLine):
            self.skipped += len(piece)
            self._open.add(piece)
            return
        try:
            self._open.write(piece)
        except SpoolError as error:
            skipped = SkippedLine(str(error), self._open.head)
            skipped.add(piece)
            self._open.discard()
            self._open = skipped


LINES_PER_TURN = 20


class LineQueue:
    def __init__(
        self, take: Callable[[OutputLine], None], pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """`pause` is called when there is more than enough, `resume` when it is done."""
        self._take = take
        self._pause = pause
        self._resume = resume
        self._waiting: deque[OutputLine] = deque()

    def put(self, lines: list[OutputLine]) -> None:
        if self._waiting:
            self._waiting.extend(lines)
            return
        for line in lines[:LINES_PER_TURN]:
            self._take(line)
        if len(lines) > LINES_PER_TURN:
            self._waiting.extend(lines[LINES_PER_TURN:])
            self._pause()
            asyncio.get_running_loop().call_soon(self._go_on)

    def finish(self) -> None:
        """Take in what is left: nothing will come after it."""
        while self._waiting:
            self._take(self._waiting.popleft())

    def _go_on(self) -> None:
        for _ in range(min(LINES_PER_TURN, len(self._waiting))):
            self._take(self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._resume()


__all__ = ["OutputLine", "Process", "ProcessCongestedError", "ProcessGoneError", "StartError"]

logger = logging.getLogger("toolyard.upstream")

MAX_WAITING = 16 * 2**20
MAX_SKIPPED = 16 * 2**20
"""A line that could not be kept and still has no end after so much more will never have one."""
GRACE_SECONDS = 2.0
KILL_SECONDS = 5.0
EXIT_SECONDS = 0.5
DRAIN_SECONDS = 1.0
OOM_SCORE_ADJ = 500
MAX_LAST_WORDS = 300


class ProcessGoneError(Exception):
    """The process has ended, or is about to."""


class ProcessCongestedError(Exception):
    """The process does not read what it is sent."""


class Process:
    """`reason` says why it ended, `last_words` are the last lines of its standard error."""

    _child: ChildProcess

    def __init__(
        self,
        name: str,
        on_line: Callable[[OutputLine], None],
        on_end: Callable[[str], None],
        limit: int,
        max_memory: int,
    ) -> None:
        self.name = name
        self.pid = 0
        self.ended = False
        self._on_line = on_line
        self._on_end = on_end
        self._max_memory = max_memory
        self._splitter = LineSplitter(BOUND, limit)
        self._intake = LineQueue(self._deliver, self._pause_output, self._resume_output)
        self._stderr = ErrorStream(name)
        self._resuming: asyncio.TimerHandle | None = None
        self._started: int | None = None
        self._ready = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._asked = False  # SIGTERM was sent
        self._left = False  # it runs on without us
        self._verdict = ""  # why we ended it, when we did
        self._orphans = set[int]()

    @classmethod
    async def start(
        cls,
        name: str,
        where: Program,
        *,
        on_line: Callable[[OutputLine], None],
        on_end: Callable[[str], None],
        limit: int,
    ) -> "Process":
        """StartError when it cannot. `on_end` is called once, with the reason, after it was reaped."""
        launch = prepare(where)
        process = cls(name, on_line, on_end, limit, where.max_memory)
        try:
            handle = await _spawned(launch)
        except (OSError, ValueError) as error:
            raise explain(error, where.command) from None
        process._adopt(handle)
        connecting = asyncio.ensure_future(process._child.connect(process._heard, process._closed))
        connecting.add_done_callback(lambda _: process._ready.set())
        try:
            await asyncio.shield(connecting)
        except BaseException:
            process._on_end = _nobody
            process.kill("was abandoned while it started")
            raise
        return process

    def _adopt(self, handle: ChildHandle) -> None:
        self._child = ChildProcess(handle, self._exited)
        self.pid = self._child.pid
        guardian.add(self.pid)
        self._started = groups.start_time(self.pid)
        memory_watch().add(self.pid, self._max_memory, self.kill)
        # When memory runs out on the machine, it goes before us.
        with suppress(OSError), open(f"/proc/{self.pid}/oom_score_adj", "w") as score:
            score.write(str(OOM_SCORE_ADJ))

    @property
    def reason(self) -> str:
        """Empty while it runs."""
        if self._verdict or self._child.code is None:
            return self._verdict
        return _exit_reason(self._child.code, self._stderr.lines)

    @property
    def last_words(self) -> list[str]:
        return self._stderr.lines

    @property
    def activity(self) -> str:
        """What it wrote last on its standard error."""
        return self._stderr.latest[:MAX_LAST_WORDS]

    def write(self, line: bytes) -> None:
        """Send one line; Gone or Congested when it will not arrive."""
        if self._ending is not None or self._left:
            raise ProcessGoneError(self.reason or "is ending")
        waiting = self._child.stdin.get_write_buffer_size()
        if waiting > MAX_WAITING:
            raise ProcessCongestedError(f"does not read its input: {format_size(waiting)} are waiting")
        self._child.stdin.write(line + b"\n")

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Close its input; after `grace` ask it to end; after `grace` make it. Returns when all is over."""
        if self._ending is None and not self._left:
            self._end(self._dismiss("was stopped", grace))
        if self._ending is not None and not self.ended:
            await asyncio.shield(self._ending)

    # An install that outlives us

    @property
    def started(self) -> int | None:
        """When, as `groups` has it."""
        return self._started

    @property
    def outputs(self) -> list[int]:
        """Our ends of its standard output and error; none when it is ending."""
        return [] if self._ending is not None or self.ended else self._child.outputs

    def entrust(self) -> None:
        """Somebody else sees to it when we are gone."""
        guardian.remove(self.pid)

    def take_back(self) -> None:
        guardian.add(self.pid)

    async def leave(self, verdict: str) -> None:
        """Go away and let it run. Its output is not read any more, and its input is at an end."""
        if self._ending is not None or self.ended:
            return
        self._verdict = self._verdict or verdict
        self.ended = self._left = True
        memory_watch().remove(self.pid)
        self._resume()
        self._child.leave()
        self._intake.finish()
        self._splitter.discard()
        self._stderr.finish()
        self._on_end(self.reason)
        await within(DRAIN_SECONDS, self._child.closed)

    def kill(self, reason: str) -> None:
        """End it at once, with all it started."""
        if self.pid and not self.ended:
            self._verdict = self._verdict or reason
            self._signal(signal.SIGKILL)

    # What the event loop tells

    def _heard(self, fd: int, data: bytes) -> None:
        if fd == STDOUT:
            self._intake.put(self._splitter.feed(data))
            if self._splitter.skipped > MAX_SKIPPED:
                self.kill("it wrote without an end what cannot be read")
        elif (pause := self._stderr.feed(data)) and self._ending is None and self._resuming is None:
            self._child.stderr.pause_reading()
            self._resuming = asyncio.get_running_loop().call_later(pause, self._resume)

    def _closed(self, fd: int) -> None:
        if fd == STDOUT:
            self._intake.put(self._splitter.finish())
        if fd != STDERR and self._ending is None and not self._left:
            self._end(self._doubt("input" if fd == STDIN else "output"))

    def _exited(self) -> None:
        if self._ending is None and not self._left:
            self._end(self._bury(GRACE_SECONDS))

    def _deliver(self, line: OutputLine) -> None:
        try:
            self._on_line(line)
        except Exception:
            logger.exception("%s: a line could not be taken", self.name)

    def _pause_output(self) -> None:
        with suppress(RuntimeError):  # uvloop, when it is closed already
            self._child.stdout.pause_reading()

    def _resume_output(self) -> None:
        with suppress(RuntimeError):
            self._child.stdout.resume_reading()

    def _resume(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
            with suppress(RuntimeError):  # uvloop, when it is closed already
                self._child.stderr.resume_reading()

    # Its end, in steps of which each leads to the next

    def _end(self, steps: Coroutine[None, None, None]) -> None:
        self._ending = asyncio.get_running_loop().create_task(
            self._see_out(steps), name=f"end of {self.name}"
        )

    async def _see_out(self, steps: Coroutine[None, None, None]) -> None:
        try:
            await self._ready.wait()
            await steps
        finally:
            steps.close()
            self._conclude()

    async def _doubt(self, stream: str) -> None:
        """It has closed a stream: most often because it is exiting, else it is of no more use."""
        if await within(EXIT_SECONDS, self._child.exited):
            await self._bury(GRACE_SECONDS)
        else:
            await self._dismiss(f"closed its standard {stream}", GRACE_SECONDS)

    async def _dismiss(self, verdict: str, grace: float) -> None:
        self._verdict = self._verdict or verdict
        self._child.close_stdin()
        self._resume()
        if not await within(grace, self._child.exited):
            self._asked = True
            self._signal(signal.SIGTERM)
            if not await within(grace, self._child.exited):
                self._signal(signal.SIGKILL)
                grace = 0
                await within(KILL_SECONDS, self._child.exited)
        await self._bury(grace)

    async def _bury(self, grace: float) -> None:
        """It is gone: end whoever is left of its group, and take in what was said last."""
        self._resume()
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + grace, 0.01
        while left := await self._survivors():
            self._orphans.update(pid for pid, _, _ in left)
            now = loop.time()
            if now >= deadline:
                groups.send(self.pid, self._started, signal.SIGKILL, left)
            elif not self._asked:
                self._asked = True
                groups.send(self.pid, self._started, signal.SIGTERM, left)
            if now > deadline + KILL_SECONDS:
                logger.warning("%s: %d of its processes cannot be ended", self.name, len(left))
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)
        # A daemon may have kept a pipe open; it is not waited for.
        await within(DRAIN_SECONDS, self._child.drained)
        self._child.let_go()
        await within(DRAIN_SECONDS, self._child.closed)

    async def _survivors(self) -> list[ProcessEntry]:
        if groups.HAS_PROC:
            return (await memory_watch().census()).get(self.pid, [])
        return [(self.pid, self.pid, 0)] if groups.is_alive(self.pid) else []

    def _conclude(self) -> None:
        # Its number is its own until it is reaped, so this cannot hit a stranger. Mostly nobody is left; but
        # we may have been cancelled with the loop, or there was no way to see who is left.
        self._signal(signal.SIGKILL)
        guardian.remove(self.pid)
        memory_watch().remove(self.pid)
        self._child.let_go()
        self._child.reap()
        groups.reap(self.pid, self._orphans)
        self._intake.finish()
        self._splitter.discard()
        self._stderr.finish()
        self.ended = True
        try:
            self._on_end(self.reason)
        except Exception:
            logger.exception("%s: its end could not be told", self.name)

    def _signal(self, number: int) -> None:
        groups.send(self.pid, self._started, number)


async def _spawned(launch: Launch) -> ChildHandle:
    """A child that nobody waits for any more when it is there is ended at once."""
    starting = asyncio.ensure_future(asyncio.to_thread(spawn, launch))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_end_unwanted)
        raise


def _end_unwanted(starting: "asyncio.Future[ChildHandle]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        handle = starting.result()
        with suppress(OSError):
            os.killpg(handle.pid, signal.SIGKILL)
        for end in handle.ends:
            os.close(end)
        handle.wait()


def _nobody(reason: str) -> None:
    return None


def _exit_reason(code: int, lines: list[str]) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    words = telling(lines)[:MAX_LAST_WORDS]
    return f"exited with code {code}" + (f": {words}" if words else "")
