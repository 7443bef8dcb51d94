"""The cost of a result of 50 MiB: shaping compared with decoding once, memory, and reading pages.

Owns the results and their processes: one for each, so that its peak memory is its own.
`python -m bench.results.big KIND` is such a process; it prints what it measured.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from bench.process import ROOT
from toolyard.artifacts.local import LocalArtifactStore
from toolyard.artifacts.store import ResultLinks
from toolyard.config import ResultsConfig
from toolyard.results.limits import Limits
from toolyard.results.query.reader import ResultReader
from toolyard.results.shaper import ResultPolicy, ResultShaper, ShapeRequest
from toolyard.search.feedback import ResultSizes
from toolyard.telemetry.usage import UsageLedger
from toolyard.upstream.messages.spool import Spool, Spooled
from toolyard.wire.call import Caller, Identity, Principal
from toolyard.wire.seal import Sealer

MEBIBYTES = 50
SIZE = MEBIBYTES * 2**20
ROUNDS = 3
PAGES = 20
ORDINARY = (2**19, 4 * 2**20)
"""Bytes of lists whose pages are waited for."""
PAGE_ROUNDS = 15
TENANT = "bench"
KINDS = ("list as structured content", "list as text", "list as both", "text")


class Big(Struct, frozen=True):
    kind: str
    size: int
    shape_s: float
    """CPU, of all threads."""
    decode_s: float
    """Of decoding what it says once with msgspec; of a text, its result."""
    peak: int
    """The most that was resident while it was shaped, beyond what was before."""
    first_page_s: float
    """Of the worker too, from its start to its end."""
    page_s: float
    """The slowest after the first."""


class Pages(Struct, frozen=True):
    """Waiting times for pages of a stored list."""

    size: int
    first_s: float
    """Nothing has been asked before."""
    warm_s: float
    """The first of another result, just after that one."""
    page_s: float


def measured(progress: Callable[[str], None]) -> list[Big]:
    found: list[Big] = []
    for kind in KINDS:
        progress(f"big: a {kind} of {MEBIBYTES} MiB")
        done = subprocess.run(
            [sys.executable, "-m", "bench.results.big", kind], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        found.append(msgspec.json.decode(done.stdout, type=Big))
    return found


def _records(most: int = SIZE) -> bytes:
    rows: list[bytes] = []
    size = 0
    while size < most:
        at = len(rows)
        rows.append(
            msgspec.json.encode(
                {
                    "id": at,
                    "state": ("open", "closed", "draft")[at % 3],
                    "title": f"Thing number {at} is not as it was",
                    "author": {"login": f"user{at % 977}", "id": at % 977},
                    "labels": ["bug", "ui"][: at % 3],
                    "score": at / 7,
                    "closed_at": None if at % 3 == 0 else f"2026-{at % 12 + 1:02}-{at % 28 + 1:02}T10:00:00Z",
                }
            )
        )
        size += len(rows[-1]) + 1
    return b"[" + b",".join(rows) + b"]"


def _lines() -> Iterator[bytes]:
    written = at = 0
    while written < SIZE:
        line = b"2026-11-15T10:%02d:%02d INFO worker %d took \\u00e9 item %d\\n" % (
            at // 60 % 60,
            at % 60,
            at % 8,
            at,
        )
        yield line
        written += len(line)
        at += 1


def _spooled(kind: str) -> Spooled:
    """A result in a file, as an upstream leaves it."""
    spool = Spool(bound=2**20, limit=8 * SIZE)
    if kind == "text":
        spool.write(b'{"content":[{"type":"text","text":"')
        for line in _lines():
            spool.write(line)
        spool.write(b'"}]}')
    else:
        body = _records()
        text = json.dumps(body.decode()).encode() if "structured" not in kind else b'""'
        spool.write(b'{"content":[' + (b'{"type":"text","text":' + text + b"}" if text != b'""' else b""))
        spool.write(b"]")
        if kind != "list as text":
            spool.write(b',"structuredContent":{"result":' + body + b"}")
        spool.write(b"}")
    found = spool.finish()
    assert isinstance(found, Spooled)
    return found


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def _shaped(shaper: ResultShaper, result: Spooled) -> dict[str, Any]:
    wanted = ShapeRequest(
        Caller("2026-07-28", {}, identity=Identity(Principal(TENANT))),
        ResultPolicy("mcp__up__big", "up", Limits()),
        "{id}",
    )
    return json.loads(bytes(await shaper.fit(result, wanted)))["structuredContent"]


async def _measure(kind: str, folder: Path) -> Big:
    store = LocalArtifactStore(folder, 3600, 100 * SIZE, ResultLinks(Sealer(b"0" * 32), ""))
    await store.start()
    shaper = ResultShaper(store, UsageLedger(None), ResultSizes())
    await _shaped(shaper, _warm())
    sizes: list[int] = []
    shaping: list[float] = []
    peak = 0
    answer: dict[str, Any] = {}
    for _ in range(ROUNDS):
        # Made in a separate process, whose memory would hide that of shaping.
        result = _from_child(kind)
        sizes.append(result.size)
        _forget_peak()
        before, started = _resident("VmRSS"), time.process_time()
        answer = await _shaped(shaper, result)
        shaping.append(time.process_time() - started)
        peak = max(peak, _resident("VmHWM") - before)
    first, page = await _pages(store, answer["storage"]["resource"].rpartition("/")[2])
    return Big(kind, sizes[0], median(shaping), await _decoding(kind), peak, first, page)


def _warm() -> Spooled:
    spool = Spool(bound=1000, limit=SIZE)
    spool.write(
        b'{"content":[],"structuredContent":{"result":' + msgspec.json.encode([{"a": 1}] * 5000) + b"}}"
    )
    found = spool.finish()
    assert isinstance(found, Spooled)
    return found


def _from_child(kind: str) -> Spooled:
    spool = Spool(bound=2**20, limit=8 * SIZE)
    command = [sys.executable, "-m", "bench.results.big", kind, "--write"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        while chunk := child.stdout.read(2**18):
            spool.write(chunk)
    found = spool.finish()
    assert isinstance(found, Spooled)
    return found


async def _decoding(kind: str) -> float:
    """CPU of decoding the list alone, not the result around it."""
    is_text = kind == "text"
    body = b"".join([chunk async for chunk in _spooled(kind).chunks()]) if is_text else _records()
    taken: list[float] = []
    for _ in range(ROUNDS):
        started = time.process_time()
        msgspec.json.decode(body)
        taken.append(time.process_time() - started)
    return median(taken)


async def _pages(store: LocalArtifactStore, id: str) -> tuple[float, float]:
    reader = ResultReader(store, ResultsConfig())
    started = _cpu()
    await _page(reader, id, 0)
    await reader.close()  # from here on the worker counts
    first = _cpu() - started
    reader = ResultReader(store, ResultsConfig())
    try:
        await _page(reader, id, 0)
        taken: list[float] = []
        for at in range(1, PAGES):
            started = time.process_time()
            await _page(reader, id, at * 9_973)
            taken.append(time.process_time() - started)
        return first, max(taken)
    finally:
        await reader.close()


async def _page(reader: ResultReader, id: str, offset: int) -> None:
    answer = await reader.read(TENANT, {"id": id, "offset": offset, "limit": 20})
    assert answer["shown"] > 0


def _cpu() -> float:
    """CPU of this process and of its ended children."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_children.ru_utime + of_children.ru_stime


def pages(progress: Callable[[str], None]) -> list[Pages]:
    found: list[Pages] = []
    for size in ORDINARY:
        progress(f"pages of a list of {size / 2**20:g} MiB")
        with tempfile.TemporaryDirectory() as folder:
            found.append(asyncio.run(_waits(_records(size), Path(folder))))
    return found


async def _waits(body: bytes, folder: Path) -> Pages:
    store = LocalArtifactStore(folder, 3600, 100 * SIZE, ResultLinks(Sealer(b"0" * 32), ""))
    await store.start()
    taken: list[tuple[float, float, float]] = []
    for _ in range(PAGE_ROUNDS):
        reader = ResultReader(store, ResultsConfig())
        id, other = await _stored(store, body), await _stored(store, body)
        try:
            taken.append(
                (
                    await _waited(reader, id, 0),
                    await _waited(reader, other, 0),
                    await _waited(reader, id, 500),
                )
            )
        finally:
            await reader.close()
    await store.close()
    return Pages(len(body), *map(median, zip(*taken, strict=True)))


async def _stored(store: LocalArtifactStore, body: bytes) -> str:
    writing = await store.begin(TENANT, "tool", "application/json")
    await writing.write(body)
    return (await writing.finish()).artifact.id


async def _waited(reader: ResultReader, id: str, offset: int) -> float:
    started = time.perf_counter()
    await _page(reader, id, offset)
    return time.perf_counter() - started


async def _write(kind: str) -> None:
    async for chunk in _spooled(kind).chunks():
        sys.stdout.buffer.write(chunk)


def main() -> None:
    kind = sys.argv[1]
    if "--write" in sys.argv:
        asyncio.run(_write(kind))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_measure(kind, Path(folder)))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
