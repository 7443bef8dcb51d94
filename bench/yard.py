"""The cost of many upstreams and of a huge result in our gateway: lists, memory, a restart, the peak.

Owns the yard of 100 upstreams with 10,000 tools, some of which hang after the restart, and the one
result of 100 MiB.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.connection import WrongReply
from bench.gateway import three_kinds, toolyard
from bench.load import ERAS, Client, Era, Target
from bench.process import (
    HOST,
    Process,
    cpu_seconds,
    forget_peak,
    free_port,
    peak_bytes,
    resident_bytes,
    running,
)
from bench.rounds import Progress, wait_for_tool

SERVERS, TOOLS, HANGING = 100, 100, 10
LIST_LIMIT_S = 120.0
WALKS = 5
MEBIBYTES = 100


@dataclass(slots=True)
class Yard:
    """Lists of 10,000 tools, before and after a restart."""

    page_cpu_s: dict[Era, float] = field(default_factory=dict[Era, float])
    pages: int = 0
    tools: int = 0
    resident: int = 0
    resident_after: int = 0
    first_page_s: float = 0.0
    first_list_s: float = 0.0
    since_start_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Huge:
    """One result of 100 MiB: the peak of resident memory above the start."""

    extra: int
    seconds: float
    cpu_s: float


def lists(*, progress: Progress) -> Yard:
    found = Yard()
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with farm(port, hang=0), toolyard(config(port), folder) as gateway:
            progress(f"yard: {SERVERS} upstreams with {SERVERS * TOOLS} tools")
            wait_for_all(gateway)
            _measure_pages(gateway, found, progress)
            found.resident = resident_bytes(gateway.pid)
        progress(f"yard: a restart while {HANGING} of {SERVERS} hang")
        with farm(port, hang=HANGING):
            started = time.perf_counter()
            with toolyard(config(port), folder) as gateway:
                asked = time.perf_counter()
                client = Client(Target(gateway.port), "modern")
                client.ask("tools/list")
                found.first_page_s = time.perf_counter() - asked
                tools = len(_walk(client)[0])
                found.first_list_s = time.perf_counter() - asked
                found.since_start_s = time.perf_counter() - started
                if tools != SERVERS * TOOLS:
                    raise WrongReply(f"the first list after the restart has {tools} tools")
                found.resident_after = resident_bytes(gateway.pid)
    return found


@contextmanager
def farm(port: int, hang: int) -> Generator[Process, None, None]:
    command = [sys.executable, "-m", "bench.farm", "--port", str(port), "--servers", str(SERVERS)]
    with running("farm", [*command, "--tools", str(TOOLS), "--hang", str(hang)], port) as process:
        yield process


def config(port: int) -> str:
    # Names that sort by number, so that the servers that hang are listed first.
    return '[gateway]\nview = "all"\n' + "\n".join(
        f'[servers.s{at:03d}]\nurl = "http://{HOST}:{port}/{at}/mcp"' for at in range(SERVERS)
    )


def _walk(client: Client) -> tuple[list[str], int]:
    """The names of all tools, and how many pages they came in."""
    client.connection.reopen_if_closed()
    names: list[str] = []
    page = client.ask("tools/list")
    pages = 1
    names += [tool["name"] for tool in page["tools"]]
    while cursor := page.get("nextCursor"):
        page = client.ask("tools/list", cursor=cursor)
        names += [tool["name"] for tool in page["tools"]]
        pages += 1
    return names, pages


def wait_for_all(gateway: Process, headers: Mapping[str, str] | None = None) -> None:
    """Waits until every tool is listed, for a caller with these headers."""
    deadline = time.monotonic() + LIST_LIMIT_S
    count = 0
    while time.monotonic() < deadline:
        gateway.check_alive()
        client = Client(Target(gateway.port, headers=headers or {}), "modern")
        count = len(set(_walk(client)[0]))
        client.close()
        if count == SERVERS * TOOLS:
            return
        time.sleep(0.5)
    raise WrongReply(f"{count} of {SERVERS * TOOLS} tools were listed after {LIST_LIMIT_S:.0f} s")


def _measure_pages(gateway: Process, found: Yard, progress: Progress) -> None:
    for era in ERAS:
        progress(f"yard: lists, {era}")
        client = Client(Target(gateway.port), era)
        if era == "legacy":
            client.open_session()
        names, found.pages = _walk(client)
        found.tools = len(set(names))
        before = cpu_seconds(gateway.pid)
        for _ in range(WALKS):
            _walk(client)
        found.page_cpu_s[era] = (cpu_seconds(gateway.pid) - before) / (WALKS * found.pages)
        client.close()


def huge(address: str, *, progress: Progress) -> dict[str, Huge]:
    """By transport and era, as "http modern"; the client compares every byte."""
    expected = "0123456789abcdef" * (MEBIBYTES * 65536)
    found: dict[str, Huge] = {}
    for way, tool in (("http", "mcp__up__big"), ("stdio", "mcp__child__big")):
        for era in ERAS:
            progress(f"huge: {MEBIBYTES} MiB through {way}, {era}")
            # One process each: memory left by one result would hide the need of the next.
            with tempfile.TemporaryDirectory() as name, toolyard(three_kinds(address), Path(name)) as gateway:
                wait_for_tool(gateway, Target(gateway.port, tool=tool), era)
                client = Client(Target(gateway.port), era)
                if era == "legacy":
                    client.open_session()
                _text(client.ask("tools/call", name=tool, arguments={"mebibytes": 0}))
                found[f"{way} {era}"] = _one(gateway, client, tool, expected)
                client.close()
    return found


def _one(gateway: Process, client: Client, tool: str, expected: str) -> Huge:
    before, cpu = resident_bytes(gateway.pid), cpu_seconds(gateway.pid)
    forget_peak(gateway.pid)
    started = time.perf_counter()
    result = client.ask("tools/call", huge=True, name=tool, arguments={"mebibytes": MEBIBYTES})
    seconds = time.perf_counter() - started
    taken = Huge(peak_bytes(gateway.pid) - before, seconds, cpu_seconds(gateway.pid) - cpu)
    if _text(result) != expected:
        raise WrongReply(f"the {MEBIBYTES} MiB came back changed")
    return taken


def _text(result: dict[str, Any]) -> str:
    if result.get("isError") or not result.get("content"):
        raise WrongReply(f"'big' failed: {str(result)[:300]}")
    return str(result["content"][0]["text"])
