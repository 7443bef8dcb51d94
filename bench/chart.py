"""`python -m bench.chart`: draws the figures of the kit in `build/` as bars in `docs/images`.

Owns the drawing; `bench.report` writes the figures. The chart has a background that follows the reader's
colour scheme, so it can be read on any page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.process import ROOT

WIDTH, MARGIN, GAP = 820, 28, 36
PANEL_WIDTH = (WIDTH - 2 * MARGIN - GAP) / 2
LABEL_WIDTH, VALUE_WIDTH = 96, 62
BAR, STEP, TITLE = 18, 28, 30
PANEL_HEIGHT = TITLE + 3 * STEP
TOP = 64
HEIGHT = TOP + 2 * PANEL_HEIGHT + GAP + 34

LABELS = {"bare": "bare ASGI", "kit": "Toolyard kit", "sdk": "MCP SDK"}
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  .panel { font-weight: 600 }
  .faint { fill: #59636e; font-size: 12px }
  .value { font-variant-numeric: tabular-nums }
  .bare, .sdk, .other { fill: #afb8c1 }
  .kit, .ours { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .faint { fill: #9198a1 }
    .bare, .sdk, .other { fill: #57606a }
    .kit, .ours { fill: #4493f8 }
  }
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """One small chart: the rows of the table that share a unit, on a scale of their own."""

    title: str
    unit: str
    rows: Sequence[str]


PANELS = (
    Panel("CPU per tools/call, 2026-07-28", "ms", ("bare modern", "kit modern", "sdk modern")),
    Panel("CPU per tools/call, 2025-11-25", "ms", ("bare legacy", "kit legacy", "sdk legacy")),
    Panel("CPU of the import", "ms", ("import kit", "import sdk")),
    Panel("Memory of 1,000 idle sessions", "MiB", ("1,000 sessions kit", "1,000 sessions sdk")),
)


def draw(record: dict[str, Any]) -> str:
    values: dict[str, float] = {
        row["name"]: row["value"] for row in record["rows"] if row["value"] is not None
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title">',
        '<title id="title">What one server costs: bare ASGI, Toolyard kit, MCP SDK</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="34">One echo tool, same uvicorn: shorter is better</text>',
    ]
    for number, panel in enumerate(PANELS):
        x = MARGIN + (number % 2) * (PANEL_WIDTH + GAP)
        y = TOP + (number // 2) * (PANEL_HEIGHT + GAP)
        lines += _panel(panel, values, x, y)
    lines.append(
        f'<text class="faint" x="{MARGIN}" y="{HEIGHT - 16}">{escape(_caption(record["setting"]))}</text>'
    )
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, values: dict[str, float], x: float, y: float) -> Iterator[str]:
    yield f'<text class="panel" x="{x:g}" y="{y + 13:g}">{escape(panel.title)}</text>'
    measured = [name for name in panel.rows if name in values]
    longest = max((values[name] for name in measured), default=0.0)
    room = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH
    for line, name in enumerate(measured):
        server = next(word for word in name.split() if word in LABELS)
        # Negative growth of memory is noise around zero; a bar has a minimum length.
        length = max(2.0, room * values[name] / longest) if longest > 0 else 2.0
        top = y + TITLE + line * STEP
        middle = top + BAR / 2 + 4.5
        yield f'<text x="{x:g}" y="{middle:g}">{LABELS[server]}</text>'
        place = f'x="{x + LABEL_WIDTH:g}" y="{top:g}" width="{length:.1f}" height="{BAR}"'
        yield f'<rect class="{server}" {place} rx="3"/>'
        value = f"{_short(values[name])} {panel.unit}"
        yield f'<text class="value" x="{x + LABEL_WIDTH + length + 7:.1f}" y="{middle:g}">{value}</text>'


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _caption(setting: dict[str, Any]) -> str:
    versions = setting["versions"]
    parts = [f"{name} {versions[name]}" for name in ("toolyard", "mcp", "uvicorn") if versions.get(name)]
    parts += [
        f"Python {setting['python']}",
        f"median of {setting['rounds']} rounds of {setting['calls']} calls",
    ]
    return ", ".join(parts)


def write(drawing: str, name: str) -> Path:
    out = ROOT / "docs" / "images" / f"{name}.svg"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(drawing, encoding="utf-8")
    return out


def main() -> None:
    from bench import gateway_chart

    argparse.ArgumentParser(
        prog="python -m bench.chart", description="Draw the figures of the last benchmark as SVG."
    ).parse_args()
    for name, drawn in (("bench", draw), ("bench-gateway", gateway_chart.draw)):
        figures = ROOT / "build" / f"{name}.json"
        if figures.exists():
            print(write(drawn(json.loads(figures.read_text(encoding="utf-8"))), name))
        else:
            print(f"'{figures}' is not there\nhint: run 'make bench' first", file=sys.stderr)


if __name__ == "__main__":
    main()
