"""One box that runs: its process, what it prints, its messages, and how it is interrupted, watched and ended.

Treats everything that comes out of a box as hostile: messages have a limit and a type, and whoever breaks the
rules is ended. Knows nothing of callers; `local` decides whose box it is.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
from msgspec import Struct

from .box import Box, Descriptors, Place
from .inside.guest import HEADER, MESSAGE_BYTES, TABLE_COLUMNS, TABLE_ROWS
from .protocol import CallTool, CellImage, CellTable, Fault, OnOutput, ToolRefusedError, WorkbenchError

START_SECONDS = 30.0
GRACE_SECONDS = 2.0
"""How long code may go on after it was interrupted."""
END_SECONDS = 10.0
OWN_PROCESSES = 2
"""Of a box: the first one, which waits for the others, and the one that runs cells."""
WATCH_SECONDS = 0.2
IDLE_WATCH_SECONDS = 1.0
"""Between cells, when code that a cell left behind may run."""
STREAM_SECONDS = 0.5
MOST_MESSAGES = 8
"""That wait for a cell to take them; as long as they do, no more are read."""
SHOWN_BYTES = 24 * 1024**2
"""Of all tables and pictures of a cell."""
MOST_SHOWN = 40
CALLS_AT_ONCE = 16
MOST_REFUSALS = 1000
"""Refused calls whose refusal the box has not read yet."""
VALUE_CHARS = 20_000
_READ_BYTES = 65536
_MOST_READS = 32
"""More than a pipe holds."""
_PNG = b"\x89PNG\r\n\x1a\n"
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class _Message(Struct, tag_field="type"):
    pass


class _Ready(_Message, tag="ready"):
    python: str


class _Confined(_Message, tag="confined"):
    pass


class _Refused(_Message, tag="refused"):
    reason: str


class _Called(_Message, tag="call"):
    call: int
    name: str
    arguments: dict[str, Any]


class _Table(_Message, tag="table"):
    columns: list[str]
    rows: list[list[Any]]
    total: int


class _Image(_Message, tag="image"):
    mime_type: str


class _Done(_Message, tag="done"):
    run: int
    value: str = ""
    error: str | None = None
    interrupted: bool = False
    exit_code: int = 0


_decode = msgspec.json.Decoder(_Ready | _Confined | _Refused | _Called | _Table | _Image | _Done).decode
_AnyMessage = _Ready | _Confined | _Refused | _Called | _Table | _Image | _Done


class BrokenBoxError(Exception):
    """The box ended, or does not keep to the rules. It is of no more use."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OutputLimits(Struct, frozen=True, kw_only=True):
    shown: int
    """Bytes of each stream that are shown; the first and the last of them if there are more."""
    kept: int
    """Bytes of each stream that are kept in a file; whoever prints more is interrupted."""


class CellOutput:
    """What one stream of a cell printed."""

    def __init__(self, limits: OutputLimits) -> None:
        self._limits = limits
        self._held = bytearray()
        self.size = 0
        self.streamed = 0
        self._file: IO[bytes] | None = None

    @property
    def is_over(self) -> bool:
        return self.size > self._limits.kept

    @property
    def is_cut(self) -> bool:
        return self._file is not None

    @property
    def file(self) -> IO[bytes] | None:
        """All of it, if it is more than is shown."""
        return self._file

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if self._file is None and self.size > self._limits.shown:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
            self._file.write(self._held)
        if self._file is not None:
            if not self.is_over:
                self._file.write(data)
            head = self._limits.shown * 2 // 3
            self._held += data
            # The first part stays; of the rest, only the last.
            excess = len(self._held) - self._limits.shown
            if excess > 0:
                del self._held[head : head + excess]
        else:
            self._held += data

    def text(self) -> str:
        if not self.is_cut:
            return self._held.decode(errors="replace")
        head = self._limits.shown * 2 // 3
        left_out = self.size - len(self._held)
        first = self._held[:head].decode(errors="replace")
        last = self._held[head:].decode(errors="replace")
        return f"{first}\n[… {left_out} bytes …]\n{last}"

    def news(self) -> str:
        """What was added since the last time, its end if there is much of it."""
        fresh = self.size - self.streamed
        self.streamed = self.size
        return self._held[-min(fresh, 2000) :].decode(errors="replace") if fresh else ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class RunOutcome(Struct):
    """How a cell ended, before its files are looked at."""

    stdout: CellOutput
    stderr: CellOutput
    value: str = ""
    tables: list[CellTable] = []
    images: list[CellImage] = []
    error: str | None = None
    fault: Fault | None = None
    exit_code: int = 0
    is_over: bool = False
    """The box ended with it."""


class Watch(Struct, frozen=True):
    """Limits that nothing in the kernel holds, so that somebody has to look now and then."""

    memory: int
    disk: Callable[[], str | None]
    """Runs in a thread; a sentence if the box uses more of the disk than it may."""


class BoxProcess:
    """Started ahead of time, then claimed for one workspace, then given cells, one at a time."""

    def __init__(self, box: Box, base: Path) -> None:
        self.box = box
        self._base = base
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._streams: tuple[int, int] = (-1, -1)
        self._life = -1
        self._first = 0
        """The first process of the box, as the system counts."""
        self._group = 0
        """Without namespaces: the group of the cell's process and of all that it starts."""
        self._first_handle = -1
        self._buffer = bytearray()
        self._inbox: deque[tuple[_AnyMessage, bytes] | BrokenBoxError] = deque()
        self._is_paused = False
        """The inbox is full, and the channel is not read."""
        self._idle_watch: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._sending = asyncio.Lock()
        self._runs = 0
        self._end_reason: tuple[Fault, str] | None = None
        self._closed = False
        self.python = ""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    # Life

    async def start(self) -> None:
        """Raises BrokenBoxError."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        life, self._life = os.pipe()
        told, info = os.pipe()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        self._control, self._streams = ours, (out, err)
        theirs_all = (theirs.fileno(), life, info)
        try:
            for stream in self._streams:
                os.set_blocking(stream, False)
            # On this thread: bubblewrap ends with the thread that started it. Takes 1 ms.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                self.box.command(self._base, Descriptors(*theirs_all)),
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out_end,
                stderr=err_end,
                pass_fds=theirs_all,
                start_new_session=True,
            )
        except OSError as error:
            os.close(told)
            raise BrokenBoxError(f"it cannot be started: {error}") from None
        finally:
            theirs.close()
            for descriptor in (life, info, out_end, err_end):
                os.close(descriptor)
        loop.add_reader(ours, self._on_readable)
        try:
            message, _ = await self._next(START_SECONDS)
            if not isinstance(message, _Ready):
                raise BrokenBoxError("it did not begin as agreed")
            self.python = message.python
            self._first = _first_process(told) if self.box.has_processes_of_its_own else self._process.pid
            self._first_handle = _handle_of(self._first)
        except BrokenBoxError as error:
            said = await self.close()
            raise BrokenBoxError(f"{error.reason}; it said: {said}" if said else error.reason) from None
        except BaseException:
            await self.close()
            raise
        finally:
            os.close(told)

    async def claim(self, base: Path, folder: Path) -> str:
        """Confines it to a workspace; returns the folder as code sees it. Raises BrokenBoxError."""
        self._scratch = tempfile.TemporaryDirectory(prefix="toolyard-scratch-", ignore_cleanup_errors=True)
        scratch = Path(self._scratch.name)
        if self.box.uid is not None:
            os.chown(scratch, self.box.uid, self.box.uid)
        place = Place(base, folder, scratch)
        await self._send(self.box.plan(place))
        message, _ = await self._next(START_SECONDS)
        if isinstance(message, _Refused):
            raise BrokenBoxError(message.reason)
        if not isinstance(message, _Confined):
            raise BrokenBoxError("it was not confined as agreed")
        if not self.box.has_processes_of_its_own:
            self._group = next(iter(_family(self._first)[1:]), 0)
        return self.box.home(place)

    @property
    def is_over(self) -> bool:
        return self._closed or self._process is None or self._process.poll() is not None

    async def close(self) -> str:
        """Ends every process of the box and waits for that. Returns its last words, if it has not run yet."""
        if self._closed:
            return ""
        self._closed = True
        if self._idle_watch is not asyncio.current_task():
            self._stop_idle_watch()
        process, control = self._process, self._control
        if control is not None:
            asyncio.get_running_loop().remove_reader(control)
        said = self._last_words()
        self._kill()
        self._receive(BrokenBoxError("the process ended"))  # a cell may wait, and nothing else will come
        if process is not None:
            await asyncio.to_thread(self._wait_for_end, process)
        said = said or self._last_words()
        if control is not None:
            control.close()
        for descriptor in (*self._streams, self._life, self._first_handle):
            if descriptor >= 0:
                os.close(descriptor)
        self._streams, self._life, self._first_handle = (-1, -1), -1, -1
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.cleanup)
        return said

    def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        if not self.box.has_processes_of_its_own:
            # The group of the cells at once, if it is known: while processes are looked for, others fork.
            if self._group:
                with contextlib.suppress(OSError):
                    os.killpg(self._group, signal.SIGKILL)
            self._kill_groups(process.pid)
        if self._first_handle >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._first_handle, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            process.kill()

    def _kill_groups(self, first: int) -> None:
        """Ends the processes of a box without a namespace: by their group, which they cannot leave.

        Only the kernel can end a whole group at once; one by one, a fork bomb would be faster. The first
        process comes last: it has adopted the others, so that they are found.
        """
        groups: set[int] = set()
        for pid in _family(first)[1:]:
            with contextlib.suppress(OSError):
                groups.add(os.getpgid(pid))
        for group in groups - {first, os.getpgrp()}:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        """Until the kernel has ended all of them: the first process of a namespace is the last to go."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        if self._first_handle >= 0:
            import select

            poll = select.poll()
            poll.register(self._first_handle, select.POLLIN)
            poll.poll(END_SECONDS * 1000)

    def _last_words(self) -> str:
        if self._streams[1] < 0 or self._runs:
            return ""
        with contextlib.suppress(OSError):
            lines = os.read(self._streams[1], _READ_BYTES).decode(errors="replace").strip().splitlines()
            return lines[-1][:300] if lines else ""
        return ""

    # Messages

    def _on_readable(self) -> None:
        control = self._control
        assert control is not None
        try:
            data = control.recv(_READ_BYTES * 4)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(control)
            self._receive(BrokenBoxError("the process ended"))
            return
        self._buffer += data
        self._take_messages(control)

    def _take_messages(self, control: socket.socket) -> None:
        try:
            self._decode_messages()
        except (msgspec.DecodeError, BrokenBoxError, UnicodeDecodeError, RecursionError):
            asyncio.get_running_loop().remove_reader(control)
            self._receive(BrokenBoxError("it wrote something else to the gateway's channel"))
            return
        if len(self._inbox) >= MOST_MESSAGES:
            self._is_paused = True
            asyncio.get_running_loop().remove_reader(control)

    def _decode_messages(self) -> None:
        buffer = self._buffer
        while len(buffer) >= HEADER.size and len(self._inbox) < MOST_MESSAGES:
            length, more = HEADER.unpack_from(buffer)
            if length > MESSAGE_BYTES or more > MESSAGE_BYTES:
                raise BrokenBoxError("a message is too long")
            end = HEADER.size + length + more
            if len(buffer) < end:
                return
            text = bytes(buffer[HEADER.size : HEADER.size + length])
            blob = bytes(buffer[HEADER.size + length : end])
            del buffer[:end]
            self._receive((_decode(text), blob))

    def _receive(self, found: "tuple[_AnyMessage, bytes] | BrokenBoxError") -> None:
        self._inbox.append(found)
        self.wake()

    def wake(self) -> None:
        self._news.set()

    def take_message(self) -> tuple[_AnyMessage, bytes] | None:
        """The next message, if one has come. Raises BrokenBoxError."""
        if not self._inbox:
            return None
        found = self._inbox.popleft()
        if isinstance(found, BrokenBoxError):
            self._inbox.append(found)  # whoever asks next learns it too
            raise found
        if self._is_paused and not self._inbox and self._control is not None and not self._closed:
            self._is_paused = False
            asyncio.get_running_loop().add_reader(self._control, self._on_readable)
            self._take_messages(self._control)
        return found

    async def wait_for_news(self) -> None:
        self._news.clear()
        if not self._inbox:
            await self._news.wait()

    async def _next(self, seconds: float) -> tuple[_AnyMessage, bytes]:
        try:
            async with asyncio.timeout(seconds):
                while (found := self.take_message()) is None:
                    await self.wait_for_news()
                return found
        except TimeoutError:
            raise BrokenBoxError(f"it did not answer within {seconds:.0f} seconds") from None

    async def _send(self, message: dict[str, Any]) -> None:
        control = self._control
        if control is None or self._closed:
            raise BrokenBoxError("the process ended")
        text = json.dumps(message).encode()
        async with self._sending:
            try:
                await asyncio.get_running_loop().sock_sendall(control, HEADER.pack(len(text), 0) + text)
            except OSError:
                raise BrokenBoxError("the process ended") from None

    # Cells

    async def run(
        self,
        kind: Literal["python", "bash"],
        code: str,
        *,
        seconds: float,
        output: OutputLimits,
        watch: Watch,
        on_output: OnOutput | None = None,
        call_tool: CallTool | None = None,
    ) -> RunOutcome:
        """Runs one cell. If cancelled, interrupts it, and ends the box if that does not help."""
        self._stop_idle_watch()
        self._runs += 1
        self._end_reason = None
        run = _Run(self, self._runs, output, call_tool)
        helpers = [asyncio.create_task(run.watch(watch))]
        if on_output is not None:
            helpers.append(asyncio.create_task(run.stream(on_output)))
        try:
            try:
                async with asyncio.timeout(seconds):
                    await self._send({"type": "run", "run": self._runs, "kind": kind, "code": code})
                    await run.wait()
            except TimeoutError:
                run.stop("timeout")
                await self.interrupt(run)
        except BrokenBoxError as error:
            run.broken(error.reason)
        except asyncio.CancelledError:
            run.stop("interrupted")
            await asyncio.shield(self._after_cancel(run))
            raise
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await run.close()
            if not self.is_over:
                self._idle_watch = asyncio.create_task(self._watch_idle(watch))
        if run.was_stopped and not run.outcome.is_over:
            run.outcome.is_over = not await self._is_alone()
        if run.outcome.is_over:
            await self.close()
        return run.outcome

    async def _watch_idle(self, watch: Watch) -> None:
        """Ends the box if what the cell left behind passes a limit."""
        used = _cpu_ticks(self.processes())
        while not self.is_over:
            await asyncio.sleep(IDLE_WATCH_SECONDS)
            if self.uses_more_than(watch.memory):
                break
            # Others write to the folder too, and that is no fault of a box that does nothing.
            if _cpu_ticks(self.processes()) != used and await asyncio.to_thread(watch.disk) is not None:
                break
        await self.close()

    def _stop_idle_watch(self) -> None:
        if self._idle_watch is not None:
            self._idle_watch.cancel()
            self._idle_watch = None

    async def _is_alone(self) -> bool:
        """Whether what the code had started is gone soon after the interrupt: it may be a fork bomb."""
        ends = time.monotonic() + GRACE_SECONDS
        while len(self.processes()) > OWN_PROCESSES:
            if not self.box.has_processes_of_its_own or time.monotonic() > ends:
                return False
            await asyncio.sleep(0.01)
        return True

    async def _after_cancel(self, run: "_Run") -> None:
        try:
            await self.interrupt(run)
        except BrokenBoxError:
            run.outcome.is_over = True
        if run.outcome.is_over or not await self._is_alone():
            await self.close()

    async def interrupt(self, run: "_Run") -> None:
        """Asks code to stop, as Ctrl-C would; whoever does not is ended."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._send({"type": "interrupt"})
                await run.wait()
        except TimeoutError:
            run.give_up()

    def drain(self, stdout: CellOutput, stderr: CellOutput) -> None:
        """Reads what has been printed by now."""
        for stream, sink in zip(self._streams, (stdout, stderr), strict=True):
            with contextlib.suppress(OSError):
                for _ in range(_MOST_READS):
                    sink.add(os.read(stream, _READ_BYTES))

    def listen(self, which: int, read: Callable[[], None]) -> None:
        asyncio.get_running_loop().add_reader(self._streams[which], read)

    def stop_listening(self) -> None:
        for stream in self._streams:
            if stream >= 0:
                asyncio.get_running_loop().remove_reader(stream)

    def read(self, which: int) -> bytes:
        try:
            return os.read(self._streams[which], _READ_BYTES)
        except OSError:
            return b""

    async def answer(self, call: int, value: Any, error: str | None) -> None:
        with contextlib.suppress(BrokenBoxError):
            await self._send({"type": "answer", "call": call, "value": value, "error": error})

    def processes(self) -> list[int]:
        """All of them, as the system counts; none after its end."""
        return [] if self._closed else _family(self._first)

    def uses_more_than(self, memory: int) -> bool:
        """Whether its processes together use more bytes. What several of them share is counted once."""
        family = _family(self._first)
        # The exact figure takes the kernel long.
        if sum(map(_resident, family)) <= memory:
            return False
        return sum(map(_proportional, family)) > memory


class _Run:
    """One cell while it runs."""

    def __init__(
        self, process: BoxProcess, number: int, limits: OutputLimits, call_tool: CallTool | None
    ) -> None:
        self._process = process
        self._number = number
        self._call_tool = call_tool
        self._calls: set[asyncio.Task[None]] = set()
        self._shown = 0
        self._shown_bytes = 0
        self._tripped: tuple[Fault, str] | None = None
        self.outcome = RunOutcome(CellOutput(limits), CellOutput(limits), tables=[], images=[])
        self._stopping: Fault | None = None
        for which in (0, 1):
            process.listen(which, lambda which=which: self._on_output(which))

    def _on_output(self, which: int) -> None:
        sink = (self.outcome.stdout, self.outcome.stderr)[which]
        data = self._process.read(which)
        if not data:
            self._process.stop_listening()
            return
        sink.add(data)  # also what is too much: code that waits for us to read cannot be interrupted
        if sink.is_over:
            self.trip("output", "")

    @property
    def was_stopped(self) -> bool:
        return self._stopping is not None

    def stop(self, fault: Fault) -> None:
        if self._stopping is None:
            self._stopping = fault

    def trip(self, fault: Fault, detail: str) -> None:
        if self._tripped is None:
            self._tripped = (fault, detail)
            self._process.wake()

    def give_up(self) -> None:
        """It goes on although it was interrupted."""
        self.outcome.is_over = True
        self.outcome.fault = self._stopping

    def broken(self, reason: str) -> None:
        outcome = self.outcome
        outcome.is_over = True
        if outcome.fault is None:
            outcome.fault, outcome.error = self._stopping or "ended", reason

    async def wait(self) -> None:
        """Until the cell is done, or has to be stopped. Raises BrokenBoxError."""
        while True:
            while (found := self._process.take_message()) is not None:
                if self._took(*found):
                    return
            if self._tripped is not None and self._stopping is None:
                return await self._stop_for(*self._tripped)
            await self._process.wait_for_news()

    async def _stop_for(self, fault: Fault, detail: str) -> None:
        """It passed a limit."""
        self._stopping = fault
        self.outcome.fault, self.outcome.error = fault, detail
        if fault == "memory":
            self.outcome.is_over = True
        else:
            await self._process.interrupt(self)

    def _took(self, message: _AnyMessage, blob: bytes) -> bool:
        """Whether the cell is done."""
        outcome = self.outcome
        if isinstance(message, _Done):
            if message.run != self._number:
                return False  # an earlier cell that had been given up
            outcome.value = message.value[:VALUE_CHARS]
            outcome.exit_code = message.exit_code
            if self._stopping is not None:
                outcome.fault = self._stopping
            elif message.error is not None:
                outcome.fault = "interrupted" if message.interrupted else "exception"
            if outcome.error is None and message.error is not None:
                outcome.error = message.error[:VALUE_CHARS]
            self._process.drain(outcome.stdout, outcome.stderr)
            return True
        if isinstance(message, _Called):
            self._begin_call(message)
        elif isinstance(message, _Table | _Image):
            self._show(message, blob)
        else:
            raise BrokenBoxError("it wrote something else to the gateway's channel")
        return False

    def _show(self, message: _Table | _Image, blob: bytes) -> None:
        self._shown += 1
        if isinstance(message, _Table):
            columns = message.columns[: TABLE_COLUMNS + 1]  # and the index
            rows = [
                [item if _is_plain(item) else str(item) for item in row[: TABLE_COLUMNS + 1]]
                for row in message.rows[:TABLE_ROWS]
            ]
            self._shown_bytes += sum(len(str(item)) for row in (columns, *rows) for item in row)
        else:
            columns, rows = [], []
            self._shown_bytes += len(blob)
        if self._shown > MOST_SHOWN or self._shown_bytes > SHOWN_BYTES:
            return
        if isinstance(message, _Table):
            self.outcome.tables.append(CellTable(columns, rows, message.total))
        elif message.mime_type == "image/png" and blob.startswith(_PNG):
            self.outcome.images.append(CellImage(blob, "image/png"))

    # The caller's tools

    def _begin_call(self, message: _Called) -> None:
        if self._call_tool is None:
            answer = self._process.answer(message.call, None, "no tools can be called from here")
        elif len(self._calls) >= CALLS_AT_ONCE:
            if len(self._calls) >= MOST_REFUSALS:
                raise BrokenBoxError("it calls tools and does not read the answers")
            # Without the arguments: a box that reads no answers could fill our memory with them.
            many = f"more than {CALLS_AT_ONCE} tools are called at once"
            answer = self._process.answer(message.call, None, many)
        else:
            answer = self._answer(message, self._call_tool)
        task = asyncio.create_task(answer)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, message: _Called, call_tool: CallTool) -> None:
        value, error = None, None
        try:
            value = await call_tool(message.name, message.arguments)
        except ToolRefusedError as failed:
            error = str(failed)
        await self._process.answer(message.call, value, error)

    # Meanwhile

    async def watch(self, watch: Watch) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            rounds += 1
            if self._process.uses_more_than(watch.memory):
                return self.trip("memory", "")
            if rounds % 5 == 1:
                reason = await asyncio.to_thread(watch.disk)
                if reason is not None:
                    return self.trip("disk", reason)

    async def stream(self, on_output: OnOutput) -> None:
        while True:
            await asyncio.sleep(STREAM_SECONDS)
            for name, output in (("stdout", self.outcome.stdout), ("stderr", self.outcome.stderr)):
                if news := output.news():
                    await on_output("stdout" if name == "stdout" else "stderr", news)

    async def close(self) -> None:
        self._process.stop_listening()
        for task in list(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _first_process(descriptor: int) -> int:
    """What bubblewrap said about the process that it started. It was written before the first message."""
    try:
        return int(json.loads(os.read(descriptor, 4096))["child-pid"])
    except (ValueError, KeyError, TypeError):
        raise BrokenBoxError("bubblewrap did not say which process it started") from None


def _handle_of(pid: int) -> int:
    """A handle that no other process can get, unlike a number; -1 where the system has none."""
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _family(pid: int) -> list[int]:
    """A process and all that it started, as far as /proc shows them."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < 10_000:
        current = waiting.pop()
        found.append(current)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{current}/task"):
                with open(f"/proc/{current}/task/{task}/children", "rb") as file:
                    waiting += [int(child) for child in file.read().split()]
    return found


def _cpu_ticks(pids: list[int]) -> int:
    """What these processes, and those of their children that ended, have spent so far."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
            # Its name, in parentheses, may have anything in it.
            fields = file.read().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


def unavailable(error: BrokenBoxError) -> WorkbenchError:
    return WorkbenchError("unavailable", error.reason)
