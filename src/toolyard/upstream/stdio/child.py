"""Starts one child process and holds the three pipes to it.

Not `loop.subprocess_exec`: uvloop leaves spare copies of the pipes in the child, and both loops reap a
child before its group can be ended. posix_spawn through ctypes lets other threads run while the program
starts.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from io import FileIO
from typing import Any, Protocol, cast

from .launch import Launch

_SETSIGDEF, _SETSID = 0x04, 0x80
_BUFFER = 1024  # larger than any of the C library's structures
_POLL_SECONDS = 0.01


class ChildHandle(Protocol):
    """A started child, with the methods of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    @property
    def ends(self) -> list[int]:
        """Our descriptors of its standard input, output and error."""
        ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


def spawn(launch: Launch) -> ChildHandle:
    """Start a child in a session of its own, with three pipes. Raises OSError or ValueError."""
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for place in range(3):
            reading, writing = os.pipe()
            theirs.append(reading if place == 0 else writing)
            ours.append(writing if place == 0 else reading)
        spawned = _Spawned(_start(launch, theirs) if _library() else _popen(launch, theirs), ours)
        ours = []
        return spawned
    finally:
        for end in (*theirs, *ours):
            os.close(end)


def _popen(launch: Launch, ends: list[int]) -> int:
    stdin, stdout, stderr = ends
    child = subprocess.Popen(
        launch.argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=launch.env,
        cwd=launch.cwd,
        start_new_session=True,
    )
    child.returncode = 0  # so that subprocess does not wait for it: we do
    return child.pid


@cache
def _library() -> Any:
    """Return the C library, if it has all functions needed here."""
    if sys.platform != "linux":
        return None
    try:
        found = ctypes.CDLL(None)
        _ = found.posix_spawn, found.posix_spawn_file_actions_addchdir_np, found.sigaddset
    except (OSError, AttributeError):
        return None
    return found


class _Spawned:
    """`returncode` is that of `subprocess`: negative for the signal that ended the child."""

    def __init__(self, pid: int, ends: list[int]) -> None:
        self.pid = pid
        self.ends = ends
        self.returncode: int | None = None

    def poll(self) -> int | None:
        self._reap(os.WNOHANG)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            self._reap(0 if deadline is None else os.WNOHANG)
            if self.returncode is None and deadline is not None:
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
                time.sleep(_POLL_SECONDS)
        return self.returncode

    def _reap(self, how: int) -> None:
        if self.returncode is not None:
            return
        try:
            pid, status = os.waitpid(self.pid, how)
        except ChildProcessError:  # started with SIGCHLD ignored: the system reaped it, the code is unknown
            self.returncode = 0
            return
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)


def _start(launch: Launch, ends: list[int]) -> int:
    library: Any = _library()
    actions, attributes = (ctypes.create_string_buffer(_BUFFER) for _ in range(2))
    library.posix_spawn_file_actions_init(actions)
    library.posix_spawnattr_init(attributes)
    try:
        if launch.cwd is not None:
            _check(library.posix_spawn_file_actions_addchdir_np(actions, _encoded(launch.cwd)), launch.cwd)
        for place, end in enumerate(ends):
            _check(library.posix_spawn_file_actions_adddup2(actions, end, place), "")
        # Python ignores these signals; a program expects the default.
        library.posix_spawnattr_setsigdefault(attributes, _signals(library))
        library.posix_spawnattr_setflags(attributes, ctypes.c_short(_SETSIGDEF | _SETSID))
        pid = ctypes.c_int()
        environment = [f"{name}={value}" for name, value in launch.env.items()]
        program = launch.argv[0]
        _check(
            library.posix_spawn(
                ctypes.byref(pid),
                _encoded(program),
                actions,
                attributes,
                _texts(launch.argv),
                _texts(environment),
            ),
            program,
        )
        return pid.value
    finally:
        library.posix_spawn_file_actions_destroy(actions)
        library.posix_spawnattr_destroy(attributes)


def _signals(library: Any) -> Any:
    found = ctypes.create_string_buffer(_BUFFER)
    library.sigemptyset(found)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        library.sigaddset(found, int(number))
    return found


def _texts(values: Any) -> Any:
    encoded = [_encoded(value) for value in values]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _encoded(text: str) -> bytes:
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded


def _check(code: int, name: str) -> None:
    if code:
        raise OSError(code, os.strerror(code), name or None)


STDIN, STDOUT, STDERR = 0, 1, 2
REAP_SECONDS = 1.0


class ChildProcess:
    """The pipes and the exit of one child.

    `code` is its exit code, or the negative number of the signal that ended it; None while it runs.
    """

    def __init__(self, handle: ChildHandle, on_exit: Callable[[], None]) -> None:
        self.code: int | None = None
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self.closed = asyncio.Event()
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._handle = handle
        self.pid = handle.pid
        self._pidfd: int | None = None
        self._ends: dict[int, asyncio.BaseTransport] = {}
        self._open = {STDIN, STDOUT, STDERR}
        self._await_exit()

    async def connect(self, on_data: Callable[[int, bytes], None], on_close: Callable[[int], None]) -> None:
        """Call `on_data` from now on with its output, and `on_close` when a pipe has closed.

        Must not be cancelled: event loops differ in who owns the pipe then.
        """

        def lost(fd: int) -> None:
            self._open.discard(fd)
            on_close(fd)
            self._set_closed()

        for fd, end in enumerate(self._handle.ends):
            connect = self._loop.connect_read_pipe if fd else self._loop.connect_write_pipe
            pipe = _BorrowedDescriptor(end) if _is_uvloop(self._loop) else FileIO(end, "rb" if fd else "wb")
            self._ends[fd], _ = await connect(lambda fd=fd: _End(fd, on_data, lost), cast(Any, pipe))

    @property
    def stdin(self) -> asyncio.WriteTransport:
        return cast(asyncio.WriteTransport, self._ends[STDIN])

    @property
    def stdout(self) -> asyncio.ReadTransport:
        return cast(asyncio.ReadTransport, self._ends[STDOUT])

    @property
    def stderr(self) -> asyncio.ReadTransport:
        return cast(asyncio.ReadTransport, self._ends[STDERR])

    def close_stdin(self) -> None:
        """Close its input after the data written so far."""
        if STDIN in self._ends:
            self.stdin.close()

    def close_pipes(self) -> None:
        """Close our ends of the pipes, even if others hold theirs open. `closed` is set when that is done."""
        for fd, bare in enumerate(self._handle.ends):
            end = self._ends.get(fd)
            if end is None and fd in self._open:
                with suppress(OSError):  # the loop closes one that it could not connect
                    os.close(bare)
                self._open.discard(fd)
            elif end is not None and fd in self._open:
                end.close()
        # Written data may wait for a reader that no longer exists.
        if STDIN in self._open and self.stdin.get_write_buffer_size():
            self.stdin.abort()
        self._set_closed()

    @property
    def outputs(self) -> list[int]:
        """Our descriptors of its standard output and error, as far as they are open."""
        return [self._handle.ends[fd] for fd in (STDOUT, STDERR) if fd in self._open]

    def detach(self) -> None:
        """Close the pipes and let it run. It stays a child of this process and is reaped when it ends."""
        self._stop_waiting()
        self.close_pipes()
        threading.Thread(target=self._handle.wait, name=f"waits for {self.pid}", daemon=True).start()

    def reap(self) -> None:
        """Reap it, and wait a moment for that if it is still alive."""
        if self._handle.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._handle.wait(REAP_SECONDS)
        self._stop_waiting()

    def _set_closed(self) -> None:
        if not self._open & {STDOUT, STDERR}:
            self.drained.set()
        if not self._open:
            self.closed.set()

    # Waiting for its exit without reaping it

    def _await_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel
            threading.Thread(target=self._wait, name=f"waits for {self.pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._read_exit)

    def _read_exit(self) -> None:
        self._stop_waiting()
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:  # started with SIGCHLD ignored: the system reaped it, the code is unknown
            found = None
        if found is None:
            self._exit(0)
        else:
            self._exit(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)

    def _stop_waiting(self) -> None:
        if self._pidfd is not None:
            pidfd, self._pidfd = self._pidfd, None
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def _wait(self) -> None:
        code = self._handle.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._exit, code)

    def _exit(self, code: int) -> None:
        self.code = code
        self.exited.set()
        self._on_exit()


class _BorrowedDescriptor:
    """A file object whose `close` does nothing, because uvloop closes the descriptor by itself.

    uvloop then closes the file object too. A real one would close whatever another thread has opened under
    the same number meanwhile.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        return None


def _is_uvloop(loop: asyncio.AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"


class _End(asyncio.Protocol):
    """Our end of one of its pipes."""

    def __init__(self, fd: int, on_data: Callable[[int, bytes], None], lost: Callable[[int], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        self._on_data(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self._fd)


async def within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event; whether it was set in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
