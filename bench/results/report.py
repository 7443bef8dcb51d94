"""The rows, their targets, and the table on the page about results."""

from __future__ import annotations

from collections.abc import Sequence

from bench.process import ROOT
from bench.report import HEADINGS, Row
from bench.results.big import Big, Pages
from bench.results.stage import Cost

PAGE = ROOT / "docs" / "guides" / "results.md"
START, END = "<!-- results: written by `make bench-results` -->", "<!-- end of results -->"
STAGE = 1.05
OVER_DECODING = 3.0
OVER_SIZE = 3.0
TEXT_MIB = 8.0
PAGE_MS = 50.0


def of_stage(costs: Sequence[Cost]) -> list[Row]:
    return [
        Row(
            "stage",
            f"{cost.kind}, {cost.size}",
            "ms CPU/call",
            cost.without_ms * cost.ratio,
            cost.ratio,
            "without the stage",
            f"<= {STAGE:g}x",
            cost.ratio <= STAGE,
        )
        for cost in costs
    ]


def of_big(found: Sequence[Big]) -> list[Row]:
    return [row for one in found for row in _rows(one)]


def of_pages(found: Sequence[Pages]) -> list[Row]:
    return [
        Row("pages", f"list, {one.size / 2**20:.1f} MiB: {name}", "ms", seconds * 1e3)
        for one in found
        for name, seconds in (
            ("the very first page", one.first_s),
            ("the first page after another result's", one.warm_s),
            ("another page", one.page_s),
        )
    ]


def _rows(one: Big) -> list[Row]:
    size, group = one.size / 2**20, one.kind
    name = f"{one.kind}, {size:.0f} MiB"
    peak = one.peak / 2**20
    pages = [
        Row(group, f"{name}: first page", "ms CPU", one.first_page_s * 1e3),
        Row(
            group,
            f"{name}: another page",
            "ms CPU",
            one.page_s * 1e3,
            None,
            "",
            f"<= {PAGE_MS:g} ms",
            one.page_s * 1e3 <= PAGE_MS,
        ),
    ]
    if one.kind == "text":
        return [
            Row(group, f"{name}: shaped", "s CPU", one.shape_s),
            Row(group, f"{name}: peak", "MiB more", peak, None, "", f"<= {TEXT_MIB:g} MiB", peak <= TEXT_MIB),
            *pages,
        ]
    times, share = one.shape_s / one.decode_s, one.peak / one.size
    return [
        Row(
            group,
            f"{name}: shaped",
            "s CPU",
            one.shape_s,
            times,
            "decoding it once",
            f"<= {OVER_DECODING:g}x",
            times <= OVER_DECODING,
        ),
        Row(
            group,
            f"{name}: peak",
            "MiB more",
            peak,
            share,
            "its size",
            f"<= {OVER_SIZE:g}x",
            share <= OVER_SIZE,
        ),
        *pages,
    ]


def write(rows: Sequence[Row]) -> None:
    cells = [HEADINGS, ("---", "---:", "---:", "---", "---"), *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    body = PAGE.read_text(encoding="utf-8")
    before, _, rest = body.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")
