"""Runs inside a worker: reads requests from standard input, writes answers, and sets its own limits.

Imports little, because every worker pays for it at start. A worker ends with the process that started it,
and ends itself if a request takes too long.
"""

import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

REQUEST = struct.Struct("!Qd")
"""The header of a request: its length, and its time limit in seconds."""
ANSWER = struct.Struct("!Q")
"""The header of an answer: its length. The first answer is empty and says that the worker is ready."""

GRACE_SECONDS = 5.0
"""Time after a request's limit until the worker ends itself, in case its parent is stopped or stuck."""
LARGEST_FILE = 64 * 2**20
"""The default limit, in bytes, of a file that a worker writes."""
_MOST_DESCRIPTORS = 2**20
_NICER = 5
_LIKELIER_KILLED = b"500"
_PIPE_BYTES = 2**20
_F_SETPIPE_SZ = 1031


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer requests until standard input ends. Output that libraries print goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    _widen(answers)
    requests: queue.SimpleQueue[tuple[bytes, float]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    _send(answers, b"")
    try:
        while True:
            request, seconds = requests.get()
            _end_after(seconds + GRACE_SECONDS)
            found = answer(request)
            _end_after(0)
            _send(answers, found)
    except BaseException:  # this process cannot go on; it reports why before it ends
        import traceback  # 3 ms, rarely needed

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _read(requests: "queue.SimpleQueue[tuple[bytes, float]]") -> None:
    """Runs in a thread, so that the end of the input is seen during a request."""
    while len(head := _exactly(REQUEST.size)) == REQUEST.size:
        length, seconds = REQUEST.unpack(head)
        requests.put((_exactly(length), seconds))
    # Skip the cleanup of libraries: it takes time, and some print errors.
    os._exit(0)


def _exactly(length: int) -> bytes:
    """Read so many bytes, fewer only at the end. Unbuffered, because a buffer's lock could block the exit."""
    found = bytearray()  # joining bytes would copy a large request many times
    while len(found) < length and (more := os.read(0, length - len(found))):
        found += more
    return bytes(found)


def _send(answers: int, found: bytes) -> None:
    left = memoryview(ANSWER.pack(len(found)) + found)
    try:
        while left:
            left = left[os.write(answers, left) :]
    except BrokenPipeError:
        os._exit(0)


def _end_after(seconds: float) -> None:
    """Let the kernel end this process after `seconds`; 0 cancels that. Windows has no such timer."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _widen(pipe: int) -> None:
    """Enlarge the pipe, so that most answers fit at once. Linux only, within the system's limit."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)


def restrict_process(largest_file: int = LARGEST_FILE) -> None:
    """Lower this process's priority for CPU and memory below its parent's, and limit its files.

    Also close inherited file descriptors, because uvloop does not.
    """
    os.closerange(3, _MOST_DESCRIPTORS)
    with suppress(OSError, AttributeError):
        os.nice(_NICER)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(_LIKELIER_KILLED)
    with suppress(ImportError):
        import resource

        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, largest_file)


def limit_memory(spare: int, *, beyond: int | None = None) -> bool:
    """Let this process allocate `spare` bytes more than it has now, or more than `beyond`, an earlier
    `memory_used`. Returns whether the system enforces the limit.

    Limits data, not address space: a library may reserve more addresses than it ever uses. Only Linux counts
    all data; macOS accepts the limit and ignores it, Windows has none.
    """
    if sys.platform != "linux":
        return False
    import resource

    _lower(resource.RLIMIT_DATA, (memory_used() if beyond is None else beyond) + spare)
    return True


def memory_used() -> int:
    """Bytes of writable memory that this process has allocated; 0 if the system does not count them."""
    if sys.platform != "linux":
        return 0
    pages = int(Path("/proc/self/statm").read_bytes().split()[5])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _lower(what: int, most: int) -> None:
    """Set the soft limit, which the process may raise again later."""
    import resource

    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
