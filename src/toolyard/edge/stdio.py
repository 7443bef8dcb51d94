"""The stdio edge: one message a line on standard input and output.

Standard output belongs to the protocol alone: whatever a tool prints goes to standard error instead.
"""

import asyncio
import os
import queue
import select
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

from ..wire.call import Service
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error, one_line
from .duplex import Duplex
from .running import run_to_end

MAX_LINE = 16 * 1024 * 1024
MAX_PENDING = 8 * 1024 * 1024
ATOMIC = 4096
GRACE_SECONDS = 2.0


Last = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    return None


def run(service: Service, last: Last = _nothing) -> None:
    """`last` is done when every call has been answered: ending what the service stands on."""
    with _protocol_streams() as (source, sink), suppress(KeyboardInterrupt):
        run_to_end(serve(service, source, sink, last))


@contextmanager
def _protocol_streams() -> Generator[tuple[int, int], None, None]:
    """Private copies of fds 0 and 1, while the public ones lead nowhere and to standard error."""
    sys.stdout.flush()
    source, sink = _copy(0, os.O_RDONLY), _copy(1, os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        for fd in (source, sink):
            with suppress(OSError):
                os.close(fd)


def _copy(fd: int, mode: int) -> int:
    """A closed stream is taken for an empty one."""
    try:
        return os.dup(fd)
    except OSError:
        return os.open(os.devnull, mode)


async def serve(service: Service, source: int, sink: int, last: Last = _nothing) -> None:
    """Serve the messages of one pair of file descriptors until the input ends or we are told to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    writer = _Writer(sink, stop.set)
    duplex = Duplex(service, writer.write, writer.write_pieces)
    reading = asyncio.create_task(_read(source, duplex, writer))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reading, stopping):
            task.cancel()
        grace = 0 if stop.is_set() else GRACE_SECONDS
        deadline = loop.time() + grace
        await duplex.finish(grace)
        await service.close()
        await duplex.close(max(0.0, deadline - loop.time()))
        await writer.flush(grace)
        await last()


class _Writer:
    """Whole lines in order, never on the loop when that could block.

    A line that fits the pipe is written at once; anything else goes to a thread of its own, which a
    client that does not read may hold up for as long as it likes. A line once begun is finished,
    whatever happens to the call it came from.
    """

    def __init__(self, sink: int, on_broken: Callable[[], None]) -> None:
        self._sink = sink
        self._on_broken = on_broken
        """Told when nobody reads any more: then there is nobody to serve."""
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._pending = 0
        self._drained = asyncio.Event()
        self._idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._broken = False
        self._turn = asyncio.Lock()
        self._long_line = False

    async def write_pieces(self, pieces: AsyncIterator[bytes]) -> None:
        """One line, as it comes. Once begun it is finished, and others wait for its end."""
        async with self._turn:
            self._long_line = True
            try:
                async for piece in pieces:
                    self._enqueue(one_line(piece))
                    await self.room()
            finally:
                self._enqueue(b"\n")
                self._long_line = False

    async def write(self, body: bytes) -> None:
        if self._long_line:
            async with self._turn:
                pass
        line = one_line(body) + b"\n"
        if not self._pending and len(line) <= ATOMIC and self._try(line):
            return
        self._enqueue(line)
        await self.room()

    def _try(self, line: bytes) -> bool:
        """Write at once, if the pipe has room for all of it. Up to this size it takes all or nothing."""
        try:
            if not select.select([], [self._sink], [], 0)[1]:
                return False
            written = os.write(self._sink, line)
        except BlockingIOError:
            return False
        except OSError:
            self._broken = True
            self._on_broken()
            return True
        if written < len(line):
            self._enqueue(line[written:])
        return True

    def _enqueue(self, line: bytes) -> None:
        self._pending += len(line)
        self._lines.put(line)
        if self._thread is None:
            # A daemon: a line that nobody takes must not keep the process.
            self._thread = threading.Thread(target=self._drain, daemon=True)
            self._thread.start()

    def _drain(self) -> None:
        while True:
            line = self._lines.get()
            if not self._broken:
                self._put(line)
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._wrote, len(line))

    def _put(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            try:
                view = view[os.write(self._sink, view) :]
            except BlockingIOError:  # somebody made the channel non-blocking
                select.select([], [self._sink], [])
            except OSError:
                self._broken = True
                with suppress(RuntimeError):  # the loop has closed
                    self._loop.call_soon_threadsafe(self._on_broken)
                return

    def _wrote(self, size: int) -> None:
        self._pending -= size
        if self._pending <= MAX_PENDING:
            self._drained.set()
        if not self._pending:
            self._idle.set()

    async def room(self) -> None:
        """Wait until the client has taken enough of what we said for us to hear more."""
        while self._pending > MAX_PENDING:
            self._drained.clear()
            await self._drained.wait()

    async def flush(self, grace: float) -> None:
        """Wait until all is written, but not for long."""
        if self._pending:
            self._idle.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._idle.wait()


async def _read(source: int, duplex: Duplex, writer: _Writer) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    if not _can_be_watched(source):
        with os.fdopen(os.dup(source), "rb") as file:
            while line := await asyncio.to_thread(file.readline, MAX_LINE):
                await _take(line, duplex)
                await writer.room()
        return
    pipe = os.fdopen(os.dup(source), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while True:
            await writer.room()
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as rest:
                await _take(rest.partial, duplex)
                return
            except asyncio.LimitOverrunError:
                await _skip_line(reader)
                error = InvalidRequest(f"The message is over the limit of {MAX_LINE} bytes")
                await duplex.write(encode_error(None, error))
                continue
            await _take(line, duplex)
    finally:
        transport.close()


def _can_be_watched(fd: int) -> bool:
    """Not a plain file or /dev/null, as in `toolyard stdio < requests`: those are always readable."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


async def _take(line: bytes, duplex: Duplex) -> None:
    line = line.strip()
    if line:
        await duplex.feed(line)


async def _skip_line(reader: asyncio.StreamReader) -> None:
    while True:
        try:
            await reader.readuntil(b"\n")
            return
        except asyncio.LimitOverrunError as overrun:
            await reader.readexactly(overrun.consumed)
        except asyncio.IncompleteReadError:
            return
