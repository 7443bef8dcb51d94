"""`python -m tests.upstream.gateway [copy]`: keeps children as a gateway does and waits to be killed.

Prints their numbers. With `copy` it forks a copy of itself first, which lives on.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import uvloop
from msgspec import Struct

from toolyard.upstream.stdio.guardian import guardian
from toolyard.upstream.stdio.process import OutputLine, Process

CHILD = str(Path(__file__).with_name("child.py"))


class Program(Struct):
    args: tuple[str, ...]
    command: str = sys.executable
    env: dict[str, str] = {}
    cwd: str | None = None
    max_memory: int = 2**30


async def child(*args: str) -> tuple[Process, bytes]:
    lines: asyncio.Queue[OutputLine] = asyncio.Queue()
    program = Program(("-S", CHILD, *args))
    process = await Process.start(
        "kid", program, on_line=lines.put_nowait, on_end=lambda _: None, limit=2**20
    )
    line = await lines.get()
    assert isinstance(line, bytes)
    return process, line


async def main(copy: bool) -> None:
    gone, _ = await child("stubborn")
    stubborn, _ = await child("stubborn")
    family, line = await child("family", "stays", "quiet")
    own, other = await child("family", "stays", "own-group", "quiet")
    await gone.stop(grace=0.1)
    pids = [
        stubborn.pid,
        family.pid,
        own.pid,
        json.loads(line)["grandchild"],
        json.loads(other)["grandchild"],
    ]
    copied = os.fork() if copy else None
    if copied == 0:
        time.sleep(60)  # noqa: ASYNC251 (nobody else is in this copy)
        os._exit(0)
    print(json.dumps({"pids": pids, "guardian": guardian.pid, "copy": copied}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for process in (stubborn, family, own):
        await process.stop(grace=0.1)


if __name__ == "__main__":
    uvloop.run(main("copy" in sys.argv))
