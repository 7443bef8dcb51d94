"""What runs in a worker: reads requests from standard input, writes answers, and limits itself.

Imports little, because every worker pays for it at start. A worker ends with the process that started it,
and by itself when a request takes too long.
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
"""Before a request: its length, and the seconds that it may take."""
ANSWER = struct.Struct("!Q")
"""Before an answer: its length. The first has none; it says that the worker is ready."""

GRACE_SECONDS = 5.0
"""Beyond the time of a request, before the worker ends itself: whoever started it is stopped, or stuck."""
LARGEST_FILE = 64 * 2**20
"""Bytes of a file that a worker may write, unless it says otherwise."""
_MOST_DESCRIPTORS = 2**20
_NICER = 5
_LIKELIER_KILLED = b"500"
_PIPE_BYTES = 2**20
_F_SETPIPE_SZ = 1031


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer requests until standard input ends. What a library prints goes to stderr."""
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
    except BaseException:  # this process is no use any more, and says why before it ends
        import traceback  # 3 ms, for what hardly happens

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _read(requests: "queue.SimpleQueue[tuple[bytes, float]]") -> None:
    """In a thread of its own, so that the end of the input is seen in the middle of a request."""
    while len(head := _exactly(REQUEST.size)) == REQUEST.size:
        length, seconds = REQUEST.unpack(head)
        requests.put((_exactly(length), seconds))
    # Without taking libraries apart: that takes time, and some complain of each other then.
    os._exit(0)


def _exactly(length: int) -> bytes:
    """Fewer only where the input ends. Unbuffered: the lock of a buffer would be in the way of an exit."""
    found = b""
    while len(found) < length and (more := os.read(0, length - len(found))):
        found += more
    return found


def _send(answers: int, found: bytes) -> None:
    left = memoryview(ANSWER.pack(len(found)) + found)
    try:
        while left:
            left = left[os.write(answers, left) :]
    except BrokenPipeError:
        os._exit(0)


def _end_after(seconds: float) -> None:
    """By the kernel, whatever this process does then; 0 is never. Windows has no such timer."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _widen(pipe: int) -> None:
    """So that most answers fit into it at once. Linux only, and only as far as it is allowed."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)


def restrict_process(largest_file: int = LARGEST_FILE) -> None:
    """Give way to the process that started this: for the CPU, in a shortage of memory, and on the disk.

    And hold nothing of it: uvloop does not close what a child would inherit.
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
    """Let this process set aside so many bytes more than it has now, or had when `memory_taken` was asked;
    whether that is a limit here.

    Of data, not of addresses: a library may reserve more of those than it ever uses. Only Linux counts all
    data: macOS takes the limit and ignores it, Windows has none.
    """
    if sys.platform != "linux":
        return False
    import resource

    _lower(resource.RLIMIT_DATA, (memory_used() if beyond is None else beyond) + spare)
    return True


def memory_used() -> int:
    """Bytes that this process has set aside to write to; 0 where nothing counts them."""
    if sys.platform != "linux":
        return 0
    pages = int(Path("/proc/self/statm").read_bytes().split()[5])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _lower(what: int, most: int) -> None:
    """The limit that a process may raise again: it is changed when more is known."""
    import resource

    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
