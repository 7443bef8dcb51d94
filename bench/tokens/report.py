"""The table and the picture, on the page about tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from xml.sax.saxutils import escape

from bench.chart import MARGIN, STYLE, WIDTH
from bench.process import ROOT
from bench.tokens.answers import FORMS, Answer
from bench.tokens.cost import Figures

PAGE = ROOT / "docs" / "concepts" / "tokens.md"
START, END = "<!-- tokens: written by `make bench-tokens` -->", "<!-- end of tokens -->"
ANSWERS = "<!-- answers: written by `make bench-tokens ARGS=--answers` -->"
END_OF_ANSWERS = "<!-- end of answers -->"
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


def answer_lines(found: Sequence[Answer]) -> Iterator[tuple[str, ...]]:
    """A line for each answer, and what they come to."""
    yield ("server", "asked for", "text: directly", "through", "data: directly", "through", "saved")
    for one in found:
        yield (one.server, f"{one.asked} (`{one.tool}`)", *_counts(one.tokens), _saved(one.tokens))
    whole = {form: _sum([one.tokens[form] for one in found]) for form in FORMS}
    yield ("**together**", f"{len(found)} answers", *_counts(whole), _saved(whole))
    each = mean(1 - through / max(1, direct) for one in found for direct, through in one.tokens.values())
    yield ("**mean of each**", "", "", "", "", "", f"{100 * each:.1f}%")


def _counts(tokens: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    return (f"{count:,}" for form in FORMS for count in tokens[form])


def _sum(pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(direct for direct, _ in pairs), sum(through for _, through in pairs)


def _saved(tokens: Mapping[str, tuple[int, int]]) -> str:
    direct, through = _sum(list(tokens.values()))
    return f"{100 * (1 - through / max(1, direct)):.1f}%".replace("-0.0%", "0.0%")


def write(found: Sequence[Figures]) -> None:
    _write(list(lines(found)), ["---:"] * len(HEADINGS), START, END)


def write_answers(found: Sequence[Answer]) -> None:
    _write(list(answer_lines(found)), ["---", "---", *["---:"] * 5], ANSWERS, END_OF_ANSWERS)


def _write(rows: Sequence[Sequence[str]], align: Sequence[str], start: str, end: str) -> None:
    table = "\n".join(f"| {' | '.join(line)} |" for line in (rows[0], align, *rows[1:]))
    body = PAGE.read_text(encoding="utf-8")
    before, _, rest = body.partition(start)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{start}\n\n{table}\n\n{end}{after}", encoding="utf-8")


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
