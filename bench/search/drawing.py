"""The picture: recall@5 of ours and of the others on each set, as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from bench.chart import STYLE
from bench.search.report import MEAN, OURS, Quality, with_mean

WIDTH, MARGIN, GAP = 820, 28, 36
COLUMNS = 2
LABELS, VALUE = 166, 36
BAR, STEP, TITLE = 14, 20, 26
TOP = 66
MEASURE = "recall@5"


def draw(quality: Quality, caption: str) -> str:
    panels = with_mean(quality)
    shown = [(name, _rows(rows)) for name, rows in panels.items()]
    tall = max(len(rows) for _, rows in shown) * STEP + TITLE + 14
    height = TOP + -(-len(shown) // COLUMNS) * tall + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        '<title id="title">How many of the needed tools are among the first five found</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="34">Needed tools among the first five, in percent</text>',
    ]
    width = (WIDTH - 2 * MARGIN - GAP) / COLUMNS
    for number, (name, rows) in enumerate(shown):
        x = MARGIN + number % COLUMNS * (width + GAP)
        lines += _panel(name, rows, x, TOP + number // COLUMNS * tall, width)
    lines.append(f'<text class="faint" x="{MARGIN}" y="{height - 16}">{escape(caption)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _rows(rows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {method: row[MEASURE] for method, row in rows.items()}


def _panel(name: str, rows: Mapping[str, float], x: float, y: float, width: float) -> Iterator[str]:
    title = "mean of the sets" if name == MEAN else name
    yield f'<text class="panel" x="{x:g}" y="{y + 13:g}">{escape(title)}</text>'
    room = width - LABELS - VALUE
    for line, (method, value) in enumerate(rows.items()):
        top = y + TITLE + line * STEP
        middle = top + BAR / 2 + 4.5
        length = max(2.0, room * value / 100)
        yield f'<text x="{x:g}" y="{middle:g}">{escape(method)}</text>'
        kind = "ours" if method == OURS else "other"
        place = f'x="{x + LABELS:g}" y="{top:g}" width="{length:.1f}" height="{BAR}"'
        yield f'<rect class="{kind}" {place} rx="3"/>'
        yield f'<text class="value" x="{x + LABELS + length + 6:.1f}" y="{middle:g}">{value:.0f}</text>'
