"""What a snapshot of a page of 5,000 elements takes, once it is loaded: the whole call, in process.

As the server comes (the outline is cut at 20,000 characters) and with room for all of it. Wall time, because
most of it is the browser's work in another process; and beside it the CPU time of the server alone.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import median

from bench.report import Row
from toolyard import Client
from toolyard.servers.browser import Settings, build

ELEMENTS = 5_000
ROUNDS = 15
MOST_MILLISECONDS = 300.0


def rows(progress: Callable[[str], None]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="toolyard-bench-browser-") as folder:
        return asyncio.run(_rows(folder, progress))


async def _rows(folder: str, progress: Callable[[str], None]) -> list[Row]:
    found: list[Row] = []
    async with _site() as url:
        for name, most in (("as it comes", 20_000), ("all of it", 2_000_000)):
            progress(f"browser: snapshots of {ELEMENTS:,} elements, {name}")
            settings = Settings(folder=folder, allow="127.0.0.1", snapshot_chars=most)
            found += await _measured(settings, url, name)
    return found


async def _measured(settings: Settings, url: str, name: str) -> list[Row]:
    server = build(settings)
    walls: list[float] = []
    cpus: list[float] = []
    try:
        async with Client(server, timeout=None) as client:
            opened = await client.call_tool("browser_navigate", {"url": url})
            assert not opened.is_error, opened
            for _ in range(ROUNDS):
                wall, cpu = time.perf_counter(), time.process_time()
                await client.call_tool("browser_snapshot", {})
                walls.append((time.perf_counter() - wall) * 1e3)
                cpus.append((time.process_time() - cpu) * 1e3)
    finally:
        await server.close()
    wall, label = median(walls), f"browser: snapshot of {ELEMENTS:,} elements, {name}"
    target = f"<= {MOST_MILLISECONDS:g} ms"
    return [
        Row("browser", label, "ms", wall, target=target, met=wall <= MOST_MILLISECONDS),
        Row("browser", f"{label}, the slowest of {ROUNDS}", "ms", max(walls)),
        Row("browser", f"{label}, the server's part", "ms CPU", median(cpus)),
    ]


def page() -> bytes:
    """Sections of headings, paragraphs with links, lists, fields and tables: five elements a line."""
    line = (
        "<section><h2>Part {0}</h2><p>Some words about part {0} and "
        "<a href='/part/{0}'>a link</a></p><button>Use {0}</button></section>"
    )
    body = "".join(line.format(number) for number in range(ELEMENTS // 5))
    return f"<!doctype html><title>{ELEMENTS} elements</title>{body}".encode()


@asynccontextmanager
async def _site() -> AsyncIterator[str]:
    body = page()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
