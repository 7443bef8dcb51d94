"""The crawler: how close it comes to what its politeness allows, its memory, and how it finds main content.

200 pages of 50 ms each, on ten hosts of loopback, with the limits as they come. The web runs in a process of
its own, and so does the crawl, whose memory is the peak of the process and its workers together. Main content
is measured on pages with known text (`tests/crawler/pages.py`): `dev`, where the extraction was tuned, and
`held_out`. `TOOLYARD_BENCH_PAGES` may name a folder of real ones: `ground-truth.json` and
`html/NAME.html.gz`, as in scrapinghub's article-extraction-benchmark.
Other extractors are measured if they are installed:
`python -m venv build/envs/crawl-peers && build/envs/crawl-peers/bin/pip install crawl4ai readability-lxml`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from bench.process import ROOT
from bench.report import Row
from tests.crawler.pages import known_pages
from tests.crawler.scoring import plain, score

PAGES, HOSTS, PAGE_SECONDS = 200, 10, 0.05
MOST_RATIO, MOST_MIB = 1.5, 200.0
PEERS = ROOT / "build" / "envs" / "crawl-peers" / "bin" / "python"


def rows(progress: Callable[[str], None]) -> list[Row]:
    return [*_speed(progress), *_quality(progress)]


def _speed(progress: Callable[[str], None]) -> list[Row]:
    progress(f"crawl: {PAGES} pages of {PAGE_SECONDS * 1000:g} ms on {HOSTS} hosts")
    command = [sys.executable, "-m", "bench.servers.crawl"]
    web = subprocess.Popen([*command, "web"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert web.stdout is not None
        port = web.stdout.readline().strip()
        found = [_run([*command, "run", port, mode]) for mode in ("default", "fast")]
    finally:
        web.kill()
        web.wait()
    default, fast = found
    target = f"<= {MOST_RATIO:g}x"
    ratio, ratio_of_fast = default["seconds"] / default["allowed"], fast["seconds"] / fast["allowed"]
    memory = max(one["mebibytes"] for one in found)
    return [
        Row(
            "crawl",
            f"crawl: {PAGES} pages, limits as they come",
            "s",
            default["seconds"],
            ratio,
            "what politeness allows",
            target,
            ratio <= MOST_RATIO,
        ),
        Row(
            "crawl",
            f"crawl: {PAGES} pages, no delay, {fast['per_host']:.0f} connections a host",
            "s",
            fast["seconds"],
            ratio_of_fast,
            "what politeness allows",
        ),
        Row(
            "crawl",
            "crawl: memory with its workers, at most",
            "MiB",
            memory,
            target=f"<= {MOST_MIB:g} MiB",
            met=memory <= MOST_MIB,
        ),
    ]


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return json.loads(done.stdout.splitlines()[-1])


async def _serve() -> None:
    """The web: any path is an article that takes its time."""
    from tests.crawler.web import Web

    web = Web()
    known = list(known_pages("held_out"))
    for number in range(PAGES):
        page = known[number % len(known)]
        web.pages[f"/p{number}"] = page.html
    web.slow = PAGE_SECONDS
    async with web.open():
        print(web.port, flush=True)
        await asyncio.Event().wait()


async def _crawl(port: int, mode: str) -> None:
    from toolyard.crawler.crawler import Crawler, CrawlLimits, CrawlRequest
    from toolyard.egress import AddressRules

    limits = CrawlLimits(render=False) if mode == "default" else CrawlLimits(render=False, delay=0.0)
    each = PAGES // HOSTS + 1  # with robots.txt
    by_delay = (each - 1) * limits.delay + PAGE_SECONDS
    by_host = each * PAGE_SECONDS / limits.per_host
    by_all = each * HOSTS * PAGE_SECONDS / limits.concurrency
    urls = [f"http://host{n % HOSTS}.example:{port}/p{n}" for n in range(PAGES)]

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def on_page(page: Any) -> None:
        pass

    with tempfile.TemporaryDirectory(prefix="toolyard-bench-crawl-") as folder:
        crawler = Crawler(AddressRules(["127.0.0.1"]), limits, cache_folder=Path(folder), resolve=resolve)
        try:
            began = time.perf_counter()
            summary = await crawler.crawl(CrawlRequest(urls=urls), on_page)
            seconds = time.perf_counter() - began
            assert summary.successful == PAGES, summary.failures[:3]
            mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + _of_children()
        finally:
            await crawler.close()
    allowed = max(by_delay, by_host, by_all)
    print(
        json.dumps(
            {"seconds": seconds, "allowed": allowed, "mebibytes": mebibytes, "per_host": limits.per_host}
        )
    )


def _of_children() -> float:
    """The peaks of the workers, in MiB."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            said = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
        except OSError:  # it ended while we looked
            continue
        if said["PPid"].strip() == str(os.getpid()) and "VmHWM" in said:
            total += float(said["VmHWM"].split()[0]) / 1024
    return total


def _quality(progress: Callable[[str], None]) -> list[Row]:
    found: list[Row] = []
    sets = {
        split: [(page.html, page.title, page.text) for page in known_pages(split)]
        for split in ("dev", "held_out")
    }
    if folder := os.environ.get("TOOLYARD_BENCH_PAGES"):
        sets["real"] = _real(Path(folder))
    for name, pages in sets.items():
        progress(f"crawl: main content of {len(pages)} pages, {name}")
        texts = _extracted([html for html, _, _ in pages])
        scores = {
            way: mean(
                score(plain(text, title), known).f1
                for text, (_, title, known) in zip(got, pages, strict=True)
            )
            for way, got in texts.items()
        }
        theirs = scores["trafilatura's default"]
        for way, value in scores.items():
            is_ours = way == "Toolyard"
            found.append(
                Row(
                    "crawl",
                    f"crawl: F1 of {len(pages)} pages, {name}: {way}",
                    "F1",
                    value,
                    target=f">= {theirs:.3f}" if is_ours else "",
                    met=value >= theirs if is_ours else None,
                )
            )
    return found


def _extracted(pages: list[str]) -> dict[str, list[str]]:
    import trafilatura

    from toolyard.crawler.extraction.document import Body, read_body

    kind = "text/html; charset=utf-8"
    bodies = (Body(url="http://a.example/", data=page.encode(), content_type=kind) for page in pages)
    ours = [read_body(body).markdown for body in bodies]
    found = {"Toolyard": ours, "trafilatura's default": [trafilatura.extract(page) or "" for page in pages]}
    if PEERS.exists():
        script = str(Path(__file__).with_name("crawl_peers.py"))
        done = subprocess.run(
            [str(PEERS), script], input=json.dumps(pages), capture_output=True, text=True, check=True
        )
        found |= {name: said["texts"] for name, said in json.loads(done.stdout.splitlines()[-1]).items()}
    return found


def _real(folder: Path) -> list[tuple[str, str, str]]:
    known = json.loads((folder / "ground-truth.json").read_text())
    found: list[tuple[str, str, str]] = []
    for name, said in known.items():
        packed = (folder / "html" / f"{name}.html.gz").read_bytes()
        found.append((gzip.decompress(packed).decode("utf-8", "replace"), "", said["articleBody"]))
    return found


if __name__ == "__main__":
    if sys.argv[1] == "web":
        asyncio.run(_serve())
    else:
        asyncio.run(_crawl(int(sys.argv[2]), sys.argv[3]))
