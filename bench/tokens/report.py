"""The table and the picture, on the page about tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from bench.chart import MARGIN, STYLE, WIDTH
from bench.process import ROOT
from bench.tokens.cost import Figures

PAGE = ROOT / "docs" / "concepts" / "tokens.md"
START, END = "<!-- tokens: written by `make bench-tokens` -->", "<!-- end of tokens -->"
HEADINGS = (
    "tools", "everything listed", "searched for", "of that definitions", "search", "describe", "call",
    "searches", "saved",
)  # fmt: skip
TOP, BAR, STEP, GROUP = 66, 16, 22, 64
LABELS, VALUE = 190, 84


def lines(found: Sequence[Figures]) -> Iterator[tuple[str, ...]]:
    yield HEADINGS
    for one in found:
        ours, theirs = one.searched, one.listed
        yield (
            f"{one.tools:,}",
            f"{theirs.whole:,.0f}",
            f"{ours.whole:,.0f}",
            f"{ours.definitions:,.0f}",
            f"{ours.search:,.0f}",
            f"{ours.describe:,.0f}",
            f"{ours.call:,.0f}",
            f"{ours.searches:.1f}",
            f"{100 * (1 - ours.whole / theirs.whole):.1f}%",
        )


def write(found: Sequence[Figures]) -> None:
    head, *rows = lines(found)
    table = "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---:"] * len(head), *rows))
    body = PAGE.read_text(encoding="utf-8")
    before, _, rest = body.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def draw(found: Sequence[Figures], caption: str) -> str:
    """Bars on a logarithmic scale: on any other, ours would not be seen."""
    height = TOP + len(found) * GROUP + 34
    most = max(math.log10(one.listed.whole) for one in found)
    room = WIDTH - 2 * MARGIN - LABELS - VALUE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        '<title id="title">Tokens of a whole task: tools searched for, beside everything listed</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="34">Tokens of a whole task (logarithmic)</text>',
    ]
    for at, one in enumerate(found):
        y = TOP + at * GROUP
        parts.append(f'<text class="panel" x="{MARGIN}" y="{y + 13}">{one.tools:,} tools</text>')
        for row, (label, kind, value) in enumerate(
            (("searched for", "ours", one.searched.whole), ("everything listed", "other", one.listed.whole))
        ):
            top = y + row * STEP
            length = room * (math.log10(value) - 2) / (most - 2)
            x = MARGIN + LABELS
            parts += [
                f'<text x="{x - 10}" y="{top + 13}" text-anchor="end">{label}</text>',
                f'<rect class="{kind}" x="{x}" y="{top}" width="{length:.1f}" height="{BAR}" rx="3"/>',
                f'<text class="value" x="{x + length + 6:.1f}" y="{top + 13}">{value:,.0f}</text>',
            ]
    parts.append(f'<text class="faint" x="{MARGIN}" y="{height - 16}">{escape(caption)}</text>')
    return "\n".join([*parts, "</svg>", ""])
