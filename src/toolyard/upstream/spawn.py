"""Starting a program in a thread, without the rest of us standing still meanwhile.

`subprocess` waits until the child has got as far as its program, and nothing in our process runs until then:
a millisecond on a machine with nothing else to do, tens of them on a busy one. The C library's posix_spawn
does the same waiting, and called through ctypes it lets the other threads go on. Where there is none that can
do all that is needed, it is `subprocess` after all.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from functools import cache
from typing import Any, Protocol

from .launch import Launch

_SETSIGDEF, _SETSID = 0x04, 0x80
_BUFFER = 1024  # larger than any of the C library's structures
_LOOK_SECONDS = 0.01


class Handle(Protocol):
    """A child, as `subprocess.Popen` has it. Our ends of its pipes are bare descriptors: see `child`."""

    @property
    def pid(self) -> int: ...
    @property
    def ends(self) -> list[int]:
        """Of its input, its output and its errors."""
        ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


def spawn(launch: Launch) -> Handle:
    """A child in a session of its own, with three pipes. OSError or ValueError when it cannot be."""
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
    child.returncode = 0  # from here on it is ours to wait for
    return child.pid


@cache
def _library() -> Any:
    """The C library, if it can do everything that we ask of it."""
    if sys.platform != "linux":
        return None
    try:
        found = ctypes.CDLL(None)
        _ = found.posix_spawn, found.posix_spawn_file_actions_addchdir_np, found.sigaddset
    except (OSError, AttributeError):
        return None
    return found


class _Spawned:
    """`returncode` as `subprocess` has it: the negative number of the signal that ended it."""

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
                time.sleep(_LOOK_SECONDS)
        return self.returncode

    def _reap(self, how: int) -> None:
        if self.returncode is not None:
            return
        try:
            pid, status = os.waitpid(self.pid, how)
        except ChildProcessError:  # we were started with SIGCHLD ignored: the system reaps, and tells nothing
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
        # Python ignores these; a program expects them as they are by default.
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
