"""`python -m tests.upstream.measure BYTES` takes one line of that length from a child; prints the cost."""

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct

from toolyard.upstream.messages.envelope import read_message
from toolyard.upstream.messages.spool import Spooled
from toolyard.upstream.stdio.process import OutputLine, Process


class Program(Struct):
    args: tuple[str, ...]
    command: str = sys.executable
    env: dict[str, str] = {}
    cwd: str | None = None
    max_memory: int = 2**30


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(size: str) -> None:
    before = peak()
    lines: asyncio.Queue[OutputLine] = asyncio.Queue()
    program = Program(("-S", str(Path(__file__).with_name("child.py")), "big", size))
    process = await Process.start(
        "big", program, on_line=lines.put_nowait, on_end=lambda _: None, limit=2**30
    )
    line = await lines.get()
    assert isinstance(line, Spooled)
    result: Any = read_message(line).result
    assert isinstance(result, Spooled)
    length = 0
    async for chunk in result.chunks():
        length += len(chunk)
    await process.stop()
    print(json.dumps({"size": length, "grown": peak() - before}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
