"""What the workers of the tests do: the first word of a request says what, the rest with what."""

import os
import sys
import time
from pathlib import Path

from toolyard.workers.process import limit_memory, restrict_process, serve


def answer(request: bytes) -> bytes:
    task, _, rest = request.decode().partition(" ")
    match task:
        case "pid":
            return str(os.getpid()).encode()
        case "say":
            print(rest)
            return rest.encode()
        case "long":
            return b"x" * int(rest)
        case "descriptors":
            return " ".join(sorted(os.listdir("/proc/self/fd"), key=int)).encode()
        case "arguments":
            return " ".join(sys.argv[1:]).encode()
        case "environment":
            return " ".join(sorted(os.environ)).encode()
        case "take":
            limit_memory(64 * 2**20)
            try:
                return str(len(bytearray(int(rest)))).encode()
            except MemoryError:
                return b"no memory"
        case "write":
            with Path(rest).open("wb") as file:
                file.truncate(2**30)
            return b"written"
        case "wait":
            """Say who it is, then wait: for ever, or until somebody makes the file."""
            mark, _, end = rest.partition(" ")
            Path(mark).write_text(str(os.getpid()))
            while not end or not Path(end).exists():
                time.sleep(0.01)
            return b"waited"
        case _:
            sys.exit(f"there is no task {task!r}")


if __name__ == "__main__":
    restrict_process()
    serve(answer)
