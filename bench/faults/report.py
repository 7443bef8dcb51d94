"""Judges the times of a row: p99s, their ratio, a table, `build/faults.json`.

A row passes if the p99 of calls through the gateway during the fault is at most twice the quiet p99. The
quiet p99 is that of the same gateway before and after the fault, or that of the control during the fault,
whichever is longer: a p99 is a few milliseconds, and a busy machine delays every process. Both are in the
table, so that the strict ratio can be read too.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults.measuring import Samples, Times

LIMIT = 2.0
FEWEST = 300
"""Calls through the gateway; with fewer there is no p99 to speak of."""
KINDS = {"mcp__good_http__echo": "http", "mcp__good_stdio__echo": "stdio", "mcp__good_inside__echo": "inside"}


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def together(samples: Samples, place: str) -> list[float]:
    return [second for tool in samples[place].values() for second in tool]


@dataclass(frozen=True)
class Judged:
    """One row; milliseconds, p99 each."""

    row: str
    calls: int
    quiet: float
    during: float
    twin_quiet: float
    twin_during: float
    direct_quiet: float
    direct_during: float
    by_kind: dict[str, tuple[float, float, float]]
    """For each kind of good upstream: quiet, during the fault, and the control during the fault."""

    @property
    def strict(self) -> float:
        return self.during / self.quiet

    @property
    def ratio(self) -> float:
        return self.during / max(self.quiet, self.twin_during)

    @property
    def holds(self) -> bool:
        return self.ratio <= LIMIT and self.calls >= FEWEST

    @property
    def mark(self) -> str:
        if self.calls < FEWEST:
            return "too few calls"
        return "over" if not self.holds else "machine" if self.strict > LIMIT else ""


def judge(row: str, times: Times) -> Judged:
    def ms(samples: Samples, place: str, tool: str | None = None) -> float:
        return p99(together(samples, place) if tool is None else samples[place][tool]) * 1000

    return Judged(
        row,
        len(together(times.during, "gateway")),
        ms(times.quiet, "gateway"),
        ms(times.during, "gateway"),
        ms(times.quiet, "control"),
        ms(times.during, "control"),
        ms(times.quiet, "direct"),
        ms(times.during, "direct"),
        {
            kind: (
                ms(times.quiet, "gateway", tool),
                ms(times.during, "gateway", tool),
                ms(times.during, "control", tool),
            )
            for tool, kind in KINDS.items()
        },
    )


HEADER = (
    "row",
    "calls",
    "quiet",
    "fault",
    "control quiet",
    "control fault",
    "direct quiet",
    "direct fault",
    "strict",
    "ratio",
    "",
)


def cells(judged: Judged) -> tuple[str, ...]:
    times = (judged.quiet, judged.during, judged.twin_quiet, judged.twin_during)
    times += (judged.direct_quiet, judged.direct_during)
    ratios = (f"{judged.strict:.2f}", f"{judged.ratio:.2f}", judged.mark)
    return (judged.row, str(judged.calls), *(f"{time:.1f}" for time in times), *ratios)


def table(rows: Iterable[Judged]) -> str:
    found = [HEADER, *map(cells, rows)]
    widths = [max(len(row[column]) for row in found) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in found
    )


def markdown(rows: Iterable[Judged]) -> str:
    """The table of the documentation."""
    lines = [
        "| row | calls | quiet | during the fault | second gateway meanwhile | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = " | ".join(f"{time:.1f}" for time in (row.quiet, row.during, row.twin_during))
        lines.append(f"| {row.row} | {row.calls:,} | {times} | {row.ratio:.2f} |")
    return "\n".join(lines)


def write(rows: Iterable[Judged], file: Path, **settings: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    found = [
        {
            "row": row.row,
            "calls": row.calls,
            "p99_ms": {
                "quiet": row.quiet,
                "fault": row.during,
                "twin_quiet": row.twin_quiet,
                "twin_fault": row.twin_during,
                "direct_quiet": row.direct_quiet,
                "direct_fault": row.direct_during,
            },
            "by_kind": {
                kind: dict(zip(("quiet", "fault", "twin_fault"), times, strict=True))
                for kind, times in row.by_kind.items()
            },
            "strict": row.strict,
            "ratio": row.ratio,
            "holds": row.holds,
        }
        for row in rows
    ]
    file.write_text(json.dumps({**settings, "limit": LIMIT, "rows": found}, indent=2) + "\n", "utf-8")
