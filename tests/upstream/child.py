"""`python child.py WHAT [ARGUMENT…]`: a child process that behaves in one of many ways, mostly badly."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

LONG = 600.0  # nobody should wait for it


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def echo() -> None:
    for line in sys.stdin:
        say({"echo": json.loads(line)})
    complain("end of input")


def show() -> None:
    say(
        {
            "env": dict(os.environ),
            "cwd": os.getcwd(),
            "argv": sys.argv,
            "group": os.getpgid(0),
            "pid": os.getpid(),
        }
    )
    for _ in sys.stdin:
        pass


def stubborn() -> None:
    """Ignores the end of its input and SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("ready")
    time.sleep(LONG)


def polite() -> None:
    """Ignores the end of its input, but not SIGTERM."""

    def leave(number: int, frame: object) -> None:
        complain("asked to leave")
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    say("ready")
    time.sleep(LONG)


def leave(code: str, *words: str) -> None:
    for line in words:
        complain(line)
    sys.exit(int(code))


def family(leader: str, *kind: str) -> None:
    """Starts a process that ignores SIGTERM, in the same group or one of its own; then lives or exits."""
    own_group = "own-group" in kind
    child = subprocess.Popen(
        [sys.executable, "-S", __file__, "stubborn"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if "quiet" in kind else None,
        process_group=0 if own_group else None,
    )
    if child.stdout is not None:
        child.stdout.readline()
    say({"grandchild": child.pid})
    if leader == "stays":
        time.sleep(LONG)


def daemon() -> None:
    """Leaves somebody behind, in another session, who holds the pipes."""
    child = subprocess.Popen([sys.executable, "-S", __file__, "stubborn"], start_new_session=True)
    say({"daemon": child.pid})


def flood(lines: str) -> None:
    for number in range(int(lines)):
        sys.stderr.write(f"line {number}\n")
    sys.stderr.flush()
    say("flooded")
    sys.stdin.read()


def dirty() -> None:
    sys.stderr.buffer.write(
        b"\x1b[31mred\x1b[0m \xff\xfe bell\x07 tab\tend\r\n\n" + b"long" * 5000 + b"\nlast\n"
    )
    sys.stderr.flush()
    say("ready")
    sys.stdin.read()


def big(size: str) -> None:
    """One line with a result of so many bytes."""
    piece = b"x" * 65536
    out = sys.stdout.buffer
    out.write(b'{"jsonrpc":"2.0","id":1,"result":{"text":"')
    for _ in range(int(size) // len(piece)):
        out.write(piece)
    out.write(b'"}}\n')
    out.flush()
    sys.stdin.read()


def close(stream: str) -> None:
    """Closes one while the test watches: input first of all, so that what is sent then meets nobody."""
    if stream == "stdin":
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
    say("ready")
    if stream == "stdout":
        os.close(1)
    time.sleep(LONG)


def eat(size: str) -> None:
    """Uses memory, in a child of its own."""
    pid = os.fork()
    if not pid:
        held = bytearray(int(size))
        held[::4096] = b"x" * len(held[::4096])
    say("eaten")
    time.sleep(LONG)


def deaf() -> None:
    say("ready")
    time.sleep(LONG)


def unfinished() -> None:
    sys.stdout.write('{"a":1}\n{"b":2}')
    sys.stdout.flush()


def die(number: str) -> None:
    os.kill(os.getpid(), int(number))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
