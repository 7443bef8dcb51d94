"""The stdio edge: one message a line on standard input and output.

`Duplex` serves one client over any two-way channel of whole messages, in both eras; the rest handles pipes.
Standard output belongs to the protocol: output that a tool prints goes to standard error.
"""

import asyncio
import os
import queue
import secrets
import select
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Raw

from ..wire.call import (
    Call,
    Caller,
    Identity,
    LegacySession,
    ModernReader,
    Service,
    is_modern,
    read_legacy_progress_token,
)
from ..wire.errors import InternalError, InvalidRequest, McpError, Unavailable
from ..wire.messages import (
    Id,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    decode_params,
    encode,
    encode_error,
    one_line,
    parse,
    recover_id,
)
from ..wire.types import CancelledParams, InitializeParams
from ..wire.versions import negotiate
from .replies import StreamedReply, answer, resolve_response, take_notification
from .runner import cancel_and_wait, run_to_end
from .sessions import read_client_info

MAX_RUNNING = 10_000

Write = Callable[[bytes], Awaitable[None]]
WritePieces = Callable[[AsyncIterator[bytes]], Awaitable[None]]
"""Writes one message in pieces; other messages wait until it is complete."""


class _DuplexChannel:
    """The channel of one call."""

    def __init__(self, duplex: "Duplex") -> None:
        self._duplex = duplex

    async def notify(self, method: str, params: Any) -> None:
        await self._duplex.write(encode(JsonRpcNotification(method, params)))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._duplex.ask(method, params)

    async def release(self, retry_ms: int | None) -> None:
        return None


class Duplex:
    def __init__(
        self,
        service: Service,
        write: Write,
        write_pieces: WritePieces | None = None,
        identity: Identity = Identity(),  # noqa: B008 (frozen)
    ) -> None:
        self._service = service
        self.write = write
        self._write_pieces = write_pieces or self._write_whole
        self._identity = identity
        self._legacy: Caller | None = None
        self._session = LegacySession()
        self._reader = ModernReader()
        self._channel = _DuplexChannel(self)
        self._running: dict[Id, asyncio.Task[None]] = {}
        self._pending: dict[str, asyncio.Future[Raw]] = {}
        self._subscriptions: set[asyncio.Task[None]] = set()
        """Subscriptions, which end only with the service."""
        self._background: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None

    async def receive(self, body: bytes) -> None:
        """Take one message. Returns at once; answers are written when they are ready."""
        try:
            message = parse(body)
        except McpError as error:
            await self.write(encode_error(recover_id(body), error))
            return
        if message.is_request:
            await self._request(body, message)
        elif message.is_notification:
            await self._notification(message)
        else:
            self._response(message)

    async def _request(self, body: bytes, message: JsonRpcMessage) -> None:
        assert isinstance(message.id, int | str)
        id = message.id
        try:
            if id in self._running:
                raise InvalidRequest(f"Request id {id!r} is already in use")
            if len(self._running) >= MAX_RUNNING:
                raise Unavailable(f"Too many requests in progress ({MAX_RUNNING}); wait for responses")
            call = self._call(body, message, id)
        except McpError as error:
            await self.write(encode_error(id, error))
            return
        self._running[id] = task = asyncio.create_task(self._answer(call, id))
        if call.method == "subscriptions/listen":
            self._subscriptions.add(task)
            task.add_done_callback(self._subscriptions.discard)

    def _call(self, body: bytes, message: JsonRpcMessage, id: Id) -> Call:
        method, params = message.method, message.params
        assert isinstance(method, str)
        if is_modern(body, params, None) or method == "server/discover":
            caller, token = self._reader.read(method, params, None, self._identity)
            return Call(method, params, caller, self._channel, id, token)
        if method == "initialize":
            opening = decode_params(params, InitializeParams)
            version = negotiate(opening.protocol_version)
            self._legacy = Caller(
                version, opening.capabilities, read_client_info(opening.client_info), self._identity
            )
        if self._legacy is None:
            raise InvalidRequest(
                "Not initialized: send 'initialize' first, or use 2026-07-28 with its params._meta"
            )
        token = read_legacy_progress_token(body, params)
        return Call(method, params, self._legacy, self._channel, id, token, self._session)

    async def _answer(self, call: Call, id: Id) -> None:
        try:
            body = await answer(self._service, call)
            if isinstance(body, StreamedReply):
                with body:
                    await self._write_pieces(body.chunks())
            else:
                await self.write(body)
        except asyncio.CancelledError:
            # A call cancelled by its client or by `close` is no longer in the table; otherwise a tool
            # cancelled itself.
            if self._running.get(id) is not asyncio.current_task():
                raise
            await self.write(encode_error(id, InternalError()))
        finally:
            # The id may have been cancelled and used again meanwhile.
            if self._running.get(id) is asyncio.current_task():
                del self._running[id]

    async def _write_whole(self, pieces: AsyncIterator[bytes]) -> None:
        await self.write(b"".join([piece async for piece in pieces]))

    async def _notification(self, message: JsonRpcMessage) -> None:
        assert isinstance(message.method, str)
        if message.method == "notifications/cancelled":
            try:
                task = self._running.pop(decode_params(message.params, CancelledParams).request_id, None)
            except McpError:
                return
            if task is not None:
                # The id is free again at once, but `close` still waits for the task.
                task.cancel()
                self._track(task)
            return
        if self._legacy is None or not message.method.startswith("notifications/"):
            return
        call = Call(message.method, message.params, self._legacy, self._channel, session=self._session)
        if message.method == "notifications/initialized":
            if self._listening is None:
                self._listening = asyncio.create_task(self._service.listen(call))
        else:
            self._track(asyncio.create_task(take_notification(self._service, call)))

    def _track(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to a background task until it ends or we close."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _response(self, message: JsonRpcMessage) -> None:
        future = self._pending.pop(str(message.id), None)
        if future is not None:
            resolve_response(message, future)

    async def ask(self, method: str, params: Any) -> Raw:
        id = f"ask-{secrets.token_urlsafe(9)}"
        future = self._pending[id] = asyncio.get_running_loop().create_future()
        try:
            await self.write(encode(JsonRpcRequest(id, method, params)))
            return await future
        except asyncio.CancelledError:
            await self.write(encode(JsonRpcNotification("notifications/cancelled", {"requestId": id})))
            raise
        finally:
            self._pending.pop(id, None)

    async def finish(self, grace: float) -> None:
        """The input has ended: wait a limited time for running calls.

        Call it before the service closes, because calls need the service.
        """
        for future in self._pending.values():
            if not future.done():
                future.set_exception(McpError(-32603, "The client closed the connection"))
        calls = set(self._running.values()) - self._subscriptions
        if calls:
            await asyncio.wait(calls, timeout=grace)

    async def close(self, grace: float) -> None:
        """End subscriptions and all other tasks. Call it after the service has closed."""
        if self._listening is not None:
            self._listening.cancel()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace)
        left, self._running = self._running, {}
        tasks = [
            *left.values(),
            *self._background,
            *([self._listening] if self._listening is not None else []),
        ]
        await cancel_and_wait(tasks)


MAX_LINE = 16 * 1024 * 1024
MAX_PENDING = 8 * 1024 * 1024
ATOMIC = 4096
GRACE_SECONDS = 2.0


Hook = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    return None


def run(
    service: Service,
    on_close: Hook = _nothing,
    identity: Identity = Identity(),  # noqa: B008 (frozen)
    on_start: Hook = _nothing,
) -> None:
    """Raises what `on_start` raises: nothing is read before it has ended.

    `on_close` runs in any case, when every call has been answered, and closes what the service uses.
    """
    with _protocol_streams() as (source, sink), suppress(KeyboardInterrupt):
        run_to_end(serve(service, source, sink, on_close, identity, on_start))


@contextmanager
def _protocol_streams() -> Generator[tuple[int, int], None, None]:
    """Private copies of fds 0 and 1. Meanwhile fd 0 is empty, and fd 1 leads to standard error."""
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
    """Copy a descriptor; a closed one becomes an empty stream."""
    try:
        return os.dup(fd)
    except OSError:
        return os.open(os.devnull, mode)


async def serve(
    service: Service,
    source: int,
    sink: int,
    on_close: Hook = _nothing,
    identity: Identity = Identity(),  # noqa: B008 (frozen)
    on_start: Hook = _nothing,
) -> None:
    """Serve the messages of one pair of file descriptors until the input ends or we are told to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    writer = _Writer(sink, stop.set)
    duplex = Duplex(service, writer.write, writer.write_pieces, identity)
    stopping = asyncio.create_task(stop.wait())
    working = asyncio.ensure_future(on_start())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            working = asyncio.create_task(_read(source, duplex, writer))
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait({working, stopping})
        grace = 0 if stop.is_set() else GRACE_SECONDS
        deadline = loop.time() + grace
        await duplex.finish(grace)
        await service.close()
        await duplex.close(max(0.0, deadline - loop.time()))
        await writer.flush(grace)
        await on_close()


class _Writer:
    """Writes whole lines in order, and never blocks the event loop.

    A line that fits into the pipe is written at once; others go to a thread, which a client that does not
    read may block. A line that was begun is finished, even if its call is cancelled.
    """

    def __init__(self, sink: int, on_broken: Callable[[], None]) -> None:
        self._sink = sink
        self._on_broken = on_broken
        """Called when the client no longer reads."""
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
        """Write one line in pieces. Once begun it is finished, and other lines wait for its end."""
        async with self._turn:
            self._long_line = True
            try:
                async for piece in pieces:
                    self._enqueue(one_line(piece))
                    await self.wait_for_room()
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
        await self.wait_for_room()

    def _try(self, line: bytes) -> bool:
        """Write now if the pipe has room for the whole line. Writes up to this size are atomic."""
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
            # A daemon: a line that the client does not read must not keep the process alive.
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
            except BlockingIOError:  # another process made the pipe non-blocking
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

    async def wait_for_room(self) -> None:
        """Wait until the client has read enough of our output; until then we read no more input."""
        while self._pending > MAX_PENDING:
            self._drained.clear()
            await self._drained.wait()

    async def flush(self, grace: float) -> None:
        """Wait at most `grace` seconds until everything is written."""
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
                await writer.wait_for_room()
        return
    pipe = os.fdopen(os.dup(source), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while True:
            await writer.wait_for_room()
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
    """False for a plain file or /dev/null, as in `toolyard stdio < requests`: those are always readable."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


async def _take(line: bytes, duplex: Duplex) -> None:
    line = line.strip()
    if line:
        await duplex.receive(line)


async def _skip_line(reader: asyncio.StreamReader) -> None:
    while True:
        try:
            await reader.readuntil(b"\n")
            return
        except asyncio.LimitOverrunError as overrun:
            await reader.readexactly(overrun.consumed)
        except asyncio.IncompleteReadError:
            return
