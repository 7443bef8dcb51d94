"""The stdio edge: one message a line on standard input and output.

Standard output belongs to the protocol alone: whatever a tool prints goes to standard error instead.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ..wire.call import Service
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error
from .duplex import Duplex

MAX_LINE = 16 * 1024 * 1024
GRACE_SECONDS = 2.0


def run(service: Service) -> None:
    with _protocol_streams() as (source, sink), suppress(KeyboardInterrupt):
        asyncio.run(serve(service, source, sink))


@contextmanager
def _protocol_streams() -> Generator[tuple[int, int], None, None]:
    """Private copies of fds 0 and 1, while the public ones lead nowhere and to standard error."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
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


async def serve(service: Service, source: int, sink: int) -> None:
    """Serve the messages of one pair of file descriptors until the input ends or we are told to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    duplex = Duplex(service, _Writer(sink).write)
    reading = asyncio.create_task(_read(source, duplex))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reading, stopping):
            task.cancel()
        await duplex.close(0 if stop.is_set() else GRACE_SECONDS)
        await service.close()


class _Writer:
    """Whole lines, one at a time, off the loop: a client that does not read must not stop us."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._lock = asyncio.Lock()
        self._broken = False

    async def write(self, body: bytes) -> None:
        async with self._lock:
            if self._broken:
                return
            line = body + b"\n"
            if len(line) <= 4096:  # a pipe takes this much at once or not at all
                ready = await _writable(self._sink)
                if ready:
                    self._put(line)
                    return
            await asyncio.to_thread(self._put, line)

    def _put(self, line: bytes) -> None:
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._sink, view) :]
        except OSError:
            self._broken = True


async def _writable(fd: int) -> bool:
    import select

    return bool(select.select([], [fd], [], 0)[1])


async def _read(source: int, duplex: Duplex) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    pipe = os.fdopen(os.dup(source), "rb", buffering=0)
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except ValueError:  # a plain file: `toolyard stdio < requests`
        while line := await asyncio.to_thread(pipe.readline, MAX_LINE):
            await _take(line, duplex)
        return
    try:
        while True:
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
