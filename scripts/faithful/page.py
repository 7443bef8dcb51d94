"""The figures of the last whole run, and what is derived from them: the page and its picture.

`figures.json` is committed, so that a reader of a change sees what it gains or loses; the tables of the page
and the picture are written from it and from nothing else. A set that is run alone renews its own part.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from bench.chart import STYLE

from .causes import KINDS
from .sources import ROOT

FILE = Path(__file__).with_name("figures.json")
PAGE = ROOT / "docs" / "concepts" / "faithful.md"
PICTURE = ROOT / "docs" / "images" / "faithful.svg"
ROWS = {
    "fastmcp": "FastMCP's tests",
    "all": "… in the view all",
    "search": "… in the view search",
    "sdk": "The SDK's interaction tests",
    "stories": "The SDK's example stories",
    "raw legacy": "Raw JSON-RPC, 2025-11-25",
    "raw modern": "Raw JSON-RPC, 2026-07-28",
}
"""All sets in their order, as the picture names them."""


@dataclass(frozen=True)
class Row:
    """What could be lost, and what arrived. `before` is the step that is compared with: HTTP, or directly."""

    name: str
    what: str
    direct: int | None
    before: int
    through: int
    source: str
    """Which gateway it was: the day, and the beginning of git's name for its `src`."""


@dataclass(frozen=True)
class Lost:
    """A cause, and how much it explains in each set."""

    kind: str
    why: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Figures:
    versions: Mapping[str, str]
    rows: Sequence[Row]
    lost: Sequence[Lost]

    def renewed(self, later: "Figures") -> "Figures":
        """With what a later run of some sets found, in the order of all sets."""
        names = {row.name for row in later.rows}
        rows = {row.name: row for row in (*self.rows, *later.rows)}
        lost = [
            Lost(one.kind, one.why, {name: count for name, count in one.counts.items() if name not in names})
            for one in self.lost
        ]
        merged: dict[tuple[str, str], Lost] = {}
        for one in (*lost, *later.lost):
            known = merged.get((one.kind, one.why))
            counts = {**(known.counts if known is not None else {}), **one.counts}
            if counts:
                merged[one.kind, one.why] = Lost(one.kind, one.why, counts)
        ordered = sorted(rows.values(), key=lambda row: list(ROWS).index(row.name))
        return Figures({**self.versions, **later.versions}, ordered, list(merged.values()))

    def write(self, file: Path = FILE) -> None:
        file.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n", "utf-8")


def read(file: Path = FILE) -> Figures:
    if not file.is_file():
        return Figures({}, [], [])
    found = json.loads(file.read_text("utf-8"))
    rows = [Row(**row) for row in found["rows"]]
    return Figures(found["versions"], rows, [Lost(**lost) for lost in found["lost"]])


def page(text: str, figures: Figures) -> str:
    """The page with these figures in the place of those that it has."""
    for name, lines in (("table", _table(figures)), ("causes", _causes(figures))):
        start, end = f"<!-- {name}: written by `make faithful` -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = "\n".join([before + start, "", *lines, "", end + after])
    return text


def _table(figures: Figures) -> Iterator[str]:
    yield "| | directly | over HTTP | through | lost |"
    yield "|---|--:|--:|--:|--:|"
    for row in figures.rows:
        direct, over = (row.before, "") if row.direct is None else (row.direct, f"{row.before:,}")
        lost = row.before - row.through
        share = f" ({lost / row.before:.1%})" if lost else ""
        what = row.what.format(**figures.versions)
        yield f"| {row.name}: {what} | {direct:,} | {over} | {row.through:,} | {lost}{share} |"
    yield ""
    runs: dict[str, list[str]] = {}
    for row in figures.rows:
        runs.setdefault(row.source, []).append(row.name)
    theirs = ", ".join(f"{name} {version}" for name, version in figures.versions.items())
    yield (
        f"Of {theirs}. Run on "
        + "; ".join(f"{source} ({', '.join(names)})" for source, names in runs.items())
        + "."
    )


KIND_TITLES = {
    "ours": "Ours: it could arrive, and does not yet",
    "inherent": "Inherent: what is between two cannot be as if it were not",
    "theirs": "Theirs: the test asks for more than the protocol promises",
}


def _causes(figures: Figures) -> Iterator[str]:
    for kind in KINDS:
        causes = [lost for lost in figures.lost if lost.kind == kind]
        if causes:
            yield f"**{KIND_TITLES[kind]}**"
            yield ""
            for lost in sorted(causes, key=lambda lost: -sum(lost.counts.values())):
                where = ", ".join(f"{name} {count}" for name, count in lost.counts.items())
                yield f"- {lost.why} ({where})"
            yield ""


WIDTH, MARGIN, LABELS, VALUES = 820, 28, 250, 150
BAR, STEP, TOP = 18, 30, 64
PARTS = ("arrived", *KINDS)
COLOURS = """
  .arrived { fill: #0969da }
  .inherent { fill: #afb8c1 }
  .theirs { fill: #d4a72c }
  .ours { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    .arrived { fill: #4493f8 }
    .inherent { fill: #57606a }
    .theirs { fill: #9e6a03 }
    .ours { fill: #f85149 }
  }
"""


def picture(figures: Figures) -> str:
    height = TOP + STEP * len(figures.rows) + 40
    title = "Others' tests: of what passes without a gateway, what passes through it"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        f'<title id="title">{title}</title>',
        f"<style>{STYLE}{COLOURS}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="34">{title}</text>',
    ]
    for number, row in enumerate(figures.rows):
        lines += _bar(row, _parts(row, figures.lost), TOP + number * STEP)
    lines += _legend(figures, height - 18)
    return "\n".join([*lines, "</svg>", ""])


def _parts(row: Row, lost: Iterable[Lost]) -> dict[str, int]:
    parts = dict.fromkeys(PARTS, 0) | {"arrived": row.through}
    for one in lost:
        parts[one.kind] += one.counts.get(row.name, 0)
    return parts


def _bar(row: Row, parts: Mapping[str, int], top: float) -> Iterator[str]:
    room = WIDTH - 2 * MARGIN - LABELS - VALUES
    middle = top + BAR / 2 + 4.5
    yield f'<text x="{MARGIN}" y="{middle:g}">{escape(ROWS[row.name])}</text>'
    x = float(MARGIN + LABELS)
    for kind, count in parts.items():
        width = room * count / row.before
        if count:
            yield f'<rect class="{kind}" x="{x:.1f}" y="{top:g}" width="{max(width, 1):.1f}" height="{BAR}"/>'
        x += width
    said = f"{row.through:,} of {row.before:,}"
    yield f'<text class="value" x="{x + 8:.1f}" y="{middle:g}">{said}</text>'


def _legend(figures: Figures, y: float) -> Iterator[str]:
    kinds = [kind for kind in KINDS if any(lost.kind == kind for lost in figures.lost)]
    x = MARGIN + LABELS
    for kind in ("arrived", *kinds):
        word = "passes" if kind == "arrived" else f"lost: {kind}"
        yield f'<rect class="{kind}" x="{x}" y="{y - 10:g}" width="12" height="12" rx="2"/>'
        yield f'<text class="faint" x="{x + 18}" y="{y:g}">{word}</text>'
        x += 120


def write(later: Figures) -> None:
    figures = read().renewed(later)
    figures.write()
    PAGE.write_text(page(PAGE.read_text("utf-8"), figures), "utf-8")
    PICTURE.write_text(picture(figures), "utf-8")
