"""A child process whose output is read in lines: started in its own session, ended with all it started.

Owns the child from start to exit, and splitting its output into lines of any length. The connector decides
what the lines mean.
"""

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress

from ...wire.messages import Id
from ...wire.secrets import NO_SECRETS, KnownSecrets
from ..messages.envelope import guess_id
from ..messages.spool import BOUND, LIMIT, TAIL, Spool, Spooled, SpoolError, format_size
from . import groups
from .child import STDERR, STDIN, STDOUT, ChildHandle, ChildProcess, spawn, within
from .groups import ProcessEntry
from .guardian import guardian, memory_watch
from .launch import Launch, Program, explain, prepare
from .stderr import ErrorStream, explaining_line

logger = logging.getLogger("toolyard.upstream")

LINES_PER_TURN = 20
MAX_WAITING = 16 * 2**20
MAX_SKIPPED = 16 * 2**20
"""A line that could not be kept and has no end after this many more bytes never ends."""
GRACE_SECONDS = 2.0
KILL_SECONDS = 5.0
EXIT_SECONDS = 0.5
DRAIN_SECONDS = 1.0
OOM_SCORE_ADJ = 500
MAX_REASON = 300


class SkippedLine:
    """A line that could not be kept. `id` is that of its message, where it can be found."""

    def __init__(self, reason: str, head: bytes) -> None:
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
    """Splits output into lines without `secrets`.

    Longer ones than `bound` go to disk, longer ones than `limit` are skipped.
    """

    def __init__(self, bound: int = BOUND, limit: int = LIMIT, secrets: KnownSecrets = NO_SECRETS) -> None:
        self._bound = bound
        self._limit = limit
        self._secrets = secrets
        self._short = min(bound, limit)
        self._open: Spool | SkippedLine | None = None
        self.skipped = 0
        """Bytes of the current line that were thrown away; 0 while it can be kept."""

    def feed(self, data: bytes) -> list[OutputLine]:
        """Return the lines that end in these bytes, without empty ones."""
        lines: list[OutputLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._open is None and end - start <= self._short:
                line = data[start:end]
                if line and not line.isspace():
                    lines.append(self._secrets.clean(line) if self._secrets.values else line)
            else:
                self._add(data[start:end])
                lines += self.finish()
            start = end + 1
        if start < len(data):
            self._add(data[start:])
        return lines

    def finish(self) -> list[OutputLine]:
        """Return the current line as if it ended here."""
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
            self._open = Spool(self._bound, self._limit, self._secrets)
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


class LineQueue:
    """Delivers a limited number of lines in each turn of the event loop."""

    def __init__(
        self, deliver: Callable[[OutputLine], None], pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """`pause` is called when lines have to wait, `resume` when all are delivered."""
        self._deliver = deliver
        self._pause = pause
        self._resume = resume
        self._waiting: deque[OutputLine] = deque()

    def put(self, lines: list[OutputLine]) -> None:
        if self._waiting:
            self._waiting.extend(lines)
            return
        for line in lines[:LINES_PER_TURN]:
            self._deliver(line)
        if len(lines) > LINES_PER_TURN:
            self._waiting.extend(lines[LINES_PER_TURN:])
            self._pause()
            asyncio.get_running_loop().call_soon(self._continue)

    def finish(self) -> None:
        """Deliver all remaining lines at once: the output has ended."""
        while self._waiting:
            self._deliver(self._waiting.popleft())

    def _continue(self) -> None:
        for _ in range(min(LINES_PER_TURN, len(self._waiting))):
            self._deliver(self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._continue)
        else:
            self._resume()


class ProcessGoneError(Exception):
    """The process has ended, or is about to."""


class ProcessCongestedError(Exception):
    """The process does not read its input."""


class Process:
    """`reason` says why it ended, `last_lines` are the last lines of its standard error."""

    _child: ChildProcess

    def __init__(
        self,
        name: str,
        on_line: Callable[[OutputLine], None],
        on_end: Callable[[str], None],
        limit: int,
        max_memory: int,
        secrets: KnownSecrets = NO_SECRETS,
    ) -> None:
        self.name = name
        self.pid = 0
        self.ended = False
        self._on_line = on_line
        self._on_end = on_end
        self._max_memory = max_memory
        self._splitter = LineSplitter(BOUND, limit, secrets)
        self._lines = LineQueue(self._deliver, self._pause_output, self._resume_output)
        self._stderr = ErrorStream(name, secrets)
        self._resuming: asyncio.TimerHandle | None = None
        self._started: int | None = None
        self._ready = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._asked = False  # SIGTERM was sent
        self._detached = False
        self._reason = ""  # why we ended it, if we did
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
        secrets: KnownSecrets = NO_SECRETS,
    ) -> "Process":
        """Start it, or raise StartError. `on_end` is called once, with the reason, after it was reaped.

        `secrets` are taken out of whatever it writes.
        """
        launch = prepare(where)
        process = cls(name, on_line, on_end, limit, where.max_memory, secrets)
        try:
            handle = await _spawned(launch)
        except (OSError, ValueError) as error:
            raise explain(error, where.command) from None
        process._adopt(handle)
        connecting = asyncio.ensure_future(process._child.connect(process._received, process._closed))
        connecting.add_done_callback(lambda _: process._ready.set())
        try:
            await asyncio.shield(connecting)
        except BaseException:
            process._on_end = _ignore
            process.kill("was abandoned while it started")
            raise
        return process

    def _adopt(self, handle: ChildHandle) -> None:
        self._child = ChildProcess(handle, self._exited)
        self.pid = self._child.pid
        guardian.add(self.pid)
        self._started = groups.start_time(self.pid)
        memory_watch().add(self.pid, self._max_memory, self.kill)
        # When the machine runs out of memory, the system kills it before the gateway.
        with suppress(OSError), open(f"/proc/{self.pid}/oom_score_adj", "w") as score:
            score.write(str(OOM_SCORE_ADJ))

    @property
    def reason(self) -> str:
        """Empty while it runs."""
        if self._reason or self._child.code is None:
            return self._reason
        return _exit_reason(self._child.code, self._stderr.lines)

    @property
    def is_ending(self) -> bool:
        return self._ending is not None or self.ended

    @property
    def last_lines(self) -> list[str]:
        return self._stderr.lines

    @property
    def activity(self) -> str:
        """The last line of its standard error."""
        return self._stderr.latest[:MAX_REASON]

    def write(self, line: bytes) -> None:
        """Send one line; raises ProcessGoneError or ProcessCongestedError if it will not arrive."""
        if self._ending is not None or self._detached:
            raise ProcessGoneError(self.reason or "is ending")
        waiting = self._child.stdin.get_write_buffer_size()
        if waiting > MAX_WAITING:
            raise ProcessCongestedError(f"does not read its input: {format_size(waiting)} are waiting")
        self._child.stdin.write(line + b"\n")

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Close its input, send SIGTERM after `grace`, SIGKILL after another; returns when it has ended."""
        if self._ending is None and not self._detached:
            self._end(self._shut_down("was stopped", grace))
        if self._ending is not None and not self.ended:
            await asyncio.shield(self._ending)

    # An install that outlives the gateway

    @property
    def started(self) -> int | None:
        """Its start time, in the units of `groups.start_time`."""
        return self._started

    @property
    def outputs(self) -> list[int]:
        """Our descriptors of its standard output and error; empty when it is ending."""
        return [] if self._ending is not None or self.ended else self._child.outputs

    def hand_over(self) -> None:
        """Let the helper of an install end it, instead of the guardian."""
        guardian.remove(self.pid)

    def reclaim(self) -> None:
        guardian.add(self.pid)

    async def detach(self, reason: str) -> None:
        """Close the pipes and let it run."""
        if self._ending is not None or self.ended:
            return
        self._reason = self._reason or reason
        self.ended = self._detached = True
        memory_watch().remove(self.pid)
        self._resume()
        self._child.detach()
        self._lines.finish()
        self._splitter.discard()
        self._stderr.finish()
        self._on_end(self.reason)
        await within(DRAIN_SECONDS, self._child.closed)

    def kill(self, reason: str) -> None:
        """Kill it and all processes it started."""
        if self.pid and not self.ended:
            self._reason = self._reason or reason
            self._signal(signal.SIGKILL)

    # Callbacks of the event loop

    def _received(self, fd: int, data: bytes) -> None:
        if fd == STDOUT:
            self._lines.put(self._splitter.feed(data))
            if self._splitter.skipped > MAX_SKIPPED:
                self.kill("it wrote an endless line to standard output")
        elif (pause := self._stderr.feed(data)) and self._ending is None and self._resuming is None:
            self._child.stderr.pause_reading()
            self._resuming = asyncio.get_running_loop().call_later(pause, self._resume)

    def _closed(self, fd: int) -> None:
        if fd == STDOUT:
            self._lines.put(self._splitter.finish())
        if fd != STDERR and self._ending is None and not self._detached:
            self._end(self._check_exit("input" if fd == STDIN else "output"))

    def _exited(self) -> None:
        if self._ending is None and not self._detached:
            self._end(self._end_group(GRACE_SECONDS))

    def _deliver(self, line: OutputLine) -> None:
        try:
            self._on_line(line)
        except Exception:
            logger.exception("%s: a line of its output could not be handled", self.name)

    def _pause_output(self) -> None:
        with suppress(RuntimeError):  # uvloop raises it for a closed pipe
            self._child.stdout.pause_reading()

    def _resume_output(self) -> None:
        with suppress(RuntimeError):
            self._child.stdout.resume_reading()

    def _resume(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
            with suppress(RuntimeError):
                self._child.stderr.resume_reading()

    # Its end: each step leads to the next

    def _end(self, steps: Coroutine[None, None, None]) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._run(steps), name=f"end of {self.name}")

    async def _run(self, steps: Coroutine[None, None, None]) -> None:
        try:
            await self._ready.wait()
            await steps
        finally:
            steps.close()
            self._finish()

    async def _check_exit(self, stream: str) -> None:
        """It closed a stream, most often because it is exiting. If not, it is useless without the stream."""
        if await within(EXIT_SECONDS, self._child.exited):
            await self._end_group(GRACE_SECONDS)
        else:
            await self._shut_down(f"closed its standard {stream}", GRACE_SECONDS)

    async def _shut_down(self, reason: str, grace: float) -> None:
        self._reason = self._reason or reason
        self._child.close_stdin()
        self._resume()
        if not await within(grace, self._child.exited):
            self._asked = True
            self._signal(signal.SIGTERM)
            if not await within(grace, self._child.exited):
                self._signal(signal.SIGKILL)
                grace = 0
                await within(KILL_SECONDS, self._child.exited)
        await self._end_group(grace)

    async def _end_group(self, grace: float) -> None:
        """It has exited: end the rest of its group, and read the last output."""
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
        # A daemon may keep a pipe open; do not wait for it.
        await within(DRAIN_SECONDS, self._child.drained)
        self._child.close_pipes()
        await within(DRAIN_SECONDS, self._child.closed)

    async def _survivors(self) -> list[ProcessEntry]:
        if groups.HAS_PROC:
            return (await memory_watch().census()).get(self.pid, [])
        return [(self.pid, self.pid, 0)] if groups.is_alive(self.pid) else []

    def _finish(self) -> None:
        # Its number is not reused until it is reaped, so this cannot hit another process. The group is empty
        # by now, unless this task was cancelled with the loop or its members could not be listed.
        self._signal(signal.SIGKILL)
        guardian.remove(self.pid)
        memory_watch().remove(self.pid)
        self._child.close_pipes()
        self._child.reap()
        groups.reap(self.pid, self._orphans)
        self._lines.finish()
        self._splitter.discard()
        self._stderr.finish()
        self.ended = True
        try:
            self._on_end(self.reason)
        except Exception:
            logger.exception("%s: its end could not be reported", self.name)

    def _signal(self, number: int) -> None:
        groups.send(self.pid, self._started, number)


async def _spawned(launch: Launch) -> ChildHandle:
    """Start a child in a thread; if the caller is cancelled, the child is killed as soon as it is there."""
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


def _ignore(reason: str) -> None:
    return None


def _exit_reason(code: int, lines: list[str]) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    explanation = explaining_line(lines)[:MAX_REASON]
    return f"exited with code {code}" + (f": {explanation}" if explanation else "")
