"""The gateway's chart: CPU per forwarded call and calls per second, ours beside the peers.

Owns the drawing; `bench.gateway_report` writes the figures. It shows the legacy
era, the only one that all of them speak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from bench.chart import STYLE

WIDTH, MARGIN = 820, 28
LABELS, GAP, VALUE = 268, 16, 50
BAR, STEP, TOP = 16, 26, 92
ERA = "legacy"


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    unit: str
    figures: str
    load: int


COLUMNS = (
    Column("CPU per call", "ms", "cpu_ms", 64),
    Column("calls/s, 8 callers", "", "cells", 8),
    Column("calls/s, 64 callers", "", "cells", 64),
)
COLUMN_WIDTH = (WIDTH - 2 * MARGIN - LABELS - GAP * (len(COLUMNS) - 1)) / len(COLUMNS)


def draw(record: dict[str, Any]) -> str:
    lines = sorted(record["speeds"], key=_order)
    height = TOP + STEP * len(lines) + 62
    title = "One tools/call through a gateway, same upstream"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
            '<title id="title">What one forwarded call costs: Toolyard and other gateways</title>',
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
            f'<text class="title" x="{MARGIN}" y="34">{title}</text>',
            *_labels(lines),
            *(part for number, column in enumerate(COLUMNS) for part in _column(number, column, lines)),
            *_caption(record["setting"], height),
            "</svg>",
            "",
        ]
    )


def _labels(lines: list[dict[str, Any]]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f'<text x="{MARGIN}" y="{_middle(number):g}">{escape(_short_label(line["label"]))}</text>'


def _column(number: int, column: Column, lines: list[dict[str, Any]]) -> Iterator[str]:
    left = MARGIN + LABELS + number * (COLUMN_WIDTH + GAP)
    better = "shorter is better" if column.unit else "longer is better"
    yield f'<text class="panel" x="{left:g}" y="62">{escape(column.title)}</text>'
    yield f'<text class="faint" x="{left:g}" y="78">{better}</text>'
    values = [_value(line, column) for line in lines]
    longest = max((value for value in values if value is not None), default=1.0)
    room = COLUMN_WIDTH - VALUE
    for at, (line, value) in enumerate(zip(lines, values, strict=True)):
        if value is None:
            yield f'<text class="faint" x="{left:g}" y="{_middle(at):g}">not measured</text>'
            continue
        length = max(2.0, room * value / longest)
        kind = "ours" if line["name"] == "toolyard" else "other"
        place = f'x="{left:g}" y="{TOP + at * STEP:g}" width="{length:.1f}" height="{BAR}"'
        yield f'<rect class="{kind}" {place} rx="3"/>'
        text = f"{_figure(value)} {column.unit}".strip()
        x = left + length + 6
        yield f'<text class="value" x="{x:.1f}" y="{_middle(at):g}">{text}</text>'


def _value(line: Mapping[str, Any], column: Column) -> float | None:
    return line[column.figures].get(f"{column.load} {ERA}")


def _middle(number: int) -> float:
    return TOP + number * STEP + BAR / 2 + 4.5


def _short_label(label: str) -> str:
    return {"toolyard": "Toolyard", "bare forwarder": "bare aiohttp forwarder"}.get(label, label)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _order(line: Mapping[str, Any]) -> tuple[bool, float]:
    """The bare forwarder and ours first, then the others by cost; those without a figure last."""
    cpu = _value(line, COLUMNS[0])
    return line["name"] not in ("forwarder", "toolyard"), float("inf") if cpu is None else cpu


def _caption(setting: Mapping[str, Any], height: int) -> Iterator[str]:
    machine = setting["machine"].rpartition(", ")[2]
    said = (
        "Era 2025-11-25, which all of them speak. CPU of all processes of a gateway, with 64 callers.",
        f"Toolyard {setting['versions']['toolyard']}, Python {setting['python']}; "
        f"client, gateway and upstream share {machine}.",
    )
    for up, line in zip((32, 15), said, strict=True):
        yield f'<text class="faint" x="{MARGIN}" y="{height - up}">{escape(line)}</text>'
