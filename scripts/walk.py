"""Counts the functions and files that one call passes through: `make walk`.

Serves a gateway in this process as `toolyard serve` does, with one HTTP upstream in another process, and
sends it warm requests from a third. The interpreter's profiler records every function of `src/toolyard`
that runs between the request's first byte and the reply's last. Prints a table, and writes the paths,
function by function, to build/walk.json.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import json
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.process import HOST, free_port, running
from toolyard.app import Gateway, asgi
from toolyard.config import Config, GatewayConfig, Http, ServerConfig
from toolyard.edge.http.server import uvicorn_server

ROOT = Path(__file__).resolve().parent.parent
SOURCE = str(ROOT / "src" / "toolyard") + "/"
OUT = ROOT / "build" / "walk.json"
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
START, END = "<!-- walk -->\n", "<!-- end of walk -->"
WARM, RECORDED = 5, 5
PROTOCOL = "2026-07-28"

Step = tuple[str, str]
"""A file below src/toolyard and a function in it."""


class Recorder:
    """Records the entered functions of the package. Resuming a coroutine does not count."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __enter__(self) -> Recorder:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE) or self._is_resumed(frame, code):
            return
        self.steps.append((code.co_filename[len(SOURCE) :], code.co_qualname))

    def _is_resumed(self, frame: FrameType, code: CodeType) -> bool:
        if not code.co_flags & 0x2A0:  # neither coroutine nor generator
            return False
        return frame.f_lasti > _first(code)


def _first(code: CodeType) -> int:
    """The instruction at which a generator that has not begun stands."""
    return _FIRST.setdefault(code, _resume_offset(code))


_FIRST: dict[CodeType, int] = {}


def _resume_offset(code: CodeType) -> int:
    return next(at.offset for at in dis.get_instructions(code) if at.opname == "RESUME")


def measured(steps: list[Step]) -> dict[str, Any]:
    files = [file for file, _ in steps]
    return {
        "files": len(set(files)),
        "functions": len(set(steps)),
        "calls": len(steps),
        "switches": sum(one != other for one, other in pairwise(files)),
        "way": [f"{file}: {function}" for file, function in steps],
    }


@asynccontextmanager
async def served(view: Any, port: int) -> AsyncGenerator[int, None]:
    """Serves a gateway in this process; yields its port."""
    with tempfile.TemporaryDirectory() as folder:
        upstream = ServerConfig(name="up", where=Http(url=f"http://{HOST}:{port}/mcp"))
        settings = GatewayConfig(view=view, state_dir=folder)
        app = asgi(Gateway(Config(servers=(upstream,), gateway=settings), b"the key of the walk"))
        with socket.socket() as listening:
            listening.bind((HOST, 0))
            listening.listen()
            server = uvicorn_server(app, HOST, 0)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                yield listening.getsockname()[1]
            finally:
                server.should_exit = True
                await serving


class Connection:
    """One keep-alive connection. Not our own client, whose functions would be counted too."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, head: str, body: bytes = b"") -> bytes:
        """The body of the reply."""
        self._writer.write(f"{head}\r\nHost: {HOST}\r\n\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next(line for line in lines if line.startswith(b"content-length"))
        return await self._reader.readexactly(int(length.partition(b":")[2]))

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "walk", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": name, "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: {name}\r\nContent-Length: {len(body)}"
        )
        reply = json.loads(await self.send(head, body))
        if "error" in reply or reply["result"].get("isError"):
            raise SystemExit(f"the call of {name!r} failed: {reply}")
        return reply["result"]

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[Connection, None]:
    connection = Connection(*await asyncio.open_connection(HOST, port, limit=2**24))
    try:
        yield connection
    finally:
        connection.close()


async def walk(port: int, name: str, arguments: dict[str, Any], proof: str) -> dict[str, Any]:
    """Records one call. `proof` is text that its result must contain."""
    result = ""
    async with connected(port) as connection:
        for _ in range(WARM):
            await connection.call(name, arguments)
        recorded: list[list[Step]] = []
        for _ in range(RECORDED):
            with Recorder() as recorder:
                result = json.dumps(await connection.call(name, arguments))
            recorded.append(recorder.steps)
    if proof not in result:
        raise SystemExit(f"{name!r} answered something else: {result[:500]}")
    # Whatever else ran on the loop meanwhile, such as a timer, is not part of the call.
    return measured(min(recorded, key=len))


async def wait_for_tools(port: int) -> None:
    async with connected(port) as connection:
        while not json.loads(await connection.send("GET /health HTTP/1.1")).get("tools"):
            pass


async def walks(upstream: int) -> dict[str, dict[str, Any]]:
    echo, text = "mcp__up__echo", {"text": "walked"}
    big = {"tool": "mcp__up__big", "arguments": {"mebibytes": 1}}
    found: dict[str, dict[str, Any]] = {}
    async with served("search", upstream) as port:
        await wait_for_tools(port)
        called = {"tool": echo, "arguments": text}
        found["call_tool, view search"] = await walk(port, "call_tool", called, proof="walked")
        found["direct call, view search"] = await walk(port, echo, text, proof="walked")
        wanted = {"queries": [{"use_case": "say it again"}]}
        found["search"] = await walk(port, "search_tools", wanted, proof=echo)
        found["call_tool, after a search"] = await walk(port, "call_tool", called, proof="walked")
        found["big result (1 MiB)"] = await walk(port, "call_tool", big, proof="read_result")
    async with served("all", upstream) as port:
        await wait_for_tools(port)
        found["direct call, view all"] = await walk(port, echo, text, proof="walked")
    return found


def write_page(found: dict[str, dict[str, Any]]) -> None:
    """Puts the figures into the page about the architecture."""
    figures = ("files", "functions", "switches")
    lines = ["| one warm call | files | functions | switches between files |", "|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(str(one[what]) for what in figures)} |" for name, one in found.items()]
    head, _, rest = PAGE.read_text().partition(START)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + START + "\n".join(lines) + "\n" + END + tail)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make walk", description="Count what one call passes through.")
    parser.add_argument("--way", metavar="NAME", help="print one way, function by function")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    options = parser.parse_args()
    port = free_port()
    with running("upstream", [sys.executable, "-m", "bench.upstream", "--port", str(port)], port):
        found = asyncio.run(walks(port))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    console = Console()
    if options.way is not None:
        for name, one in found.items():
            if options.way in name:
                console.print(f"[bold]{name}")
                console.print("\n".join(one["way"]), markup=False)
        return
    table = Table("one warm call", "files", "functions", "calls", "switches between files")
    for name, one in found.items():
        table.add_row(name, *(str(one[what]) for what in ("files", "functions", "calls", "switches")))
    console.print(table)
    if options.write:
        write_page(found)
    console.print(f"each function: {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
