"""Ratios, targets, verdicts and tables of the kit's figures.

Owns the rows of the table and the shape of `build/bench.json`; it measures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.load import ERAS
from bench.measure import Idle

KIT_OVER_BARE = 2.0
SDK_OVER_KIT = 5.0
KIT_IMPORT_OVER_SDK = 0.25
IDLE_SESSIONS_MIB = 5.0
HEADINGS = ("", "figure", "ratio", "target", "")
RIGHT_ALIGNED = (1, 2)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; None for a server that could not be measured."""

    group: str
    name: str
    unit: str
    value: float | None
    ratio: float | None = None
    ratio_to: str = ""
    target: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        value = "not measured" if self.value is None else f"{_short(self.value)} {self.unit}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}x {self.ratio_to}"
        verdict = {True: "ok", False: "miss", None: "-" if self.target else ""}[self.met]
        return (self.name, value, ratio, self.target, verdict)


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def rows(
    calls: Mapping[int, Mapping[str, Sequence[float]]],
    imports: Mapping[str, Sequence[float]],
    idle: Mapping[str, Idle],
) -> list[Row]:
    """`calls` is by the number of connections; the first load is the one that charts show."""
    table: list[Row] = []
    first = next(iter(calls))
    for load, figures in calls.items():
        for era in ERAS:
            label = era if load == first else f"{era}, {load} connections"
            table += _call_rows(era, figures, label)
    return table + _import_rows(imports) + _idle_rows(idle)


def _call_rows(era: str, calls: Mapping[str, Sequence[float]], label: str) -> list[Row]:
    bare, kit, sdk = (calls.get(f"{name} {era}", ()) for name in ("bare", "kit", "sdk"))
    group, unit = f"calls {label}", "ms CPU/call"
    over_bare, over_kit = _ratio(kit, bare), _ratio(sdk, kit)
    return [
        Row(group, f"bare {label}", unit, _milliseconds(bare)),
        Row(
            group,
            f"kit {label}",
            unit,
            _milliseconds(kit),
            over_bare,
            "bare",
            target=f"<= {KIT_OVER_BARE:g}x bare",
            met=None if over_bare is None else over_bare <= KIT_OVER_BARE,
        ),
        Row(
            group,
            f"sdk {label}",
            unit,
            _milliseconds(sdk),
            over_kit,
            "kit",
            target=f">= {SDK_OVER_KIT:g}x kit",
            met=None if over_kit is None else over_kit >= SDK_OVER_KIT,
        ),
    ]


def _import_rows(imports: Mapping[str, Sequence[float]]) -> list[Row]:
    kit, sdk = (_above(imports["python"], imports.get(name, ())) for name in ("kit", "sdk"))
    over_sdk = _ratio(kit, sdk)
    return [
        Row("import", "import sdk", "ms CPU", _milliseconds(sdk)),
        Row(
            "import",
            "import kit",
            "ms CPU",
            _milliseconds(kit),
            over_sdk,
            "sdk",
            target=f"<= {KIT_IMPORT_OVER_SDK:g}x sdk",
            met=None if over_sdk is None else over_sdk <= KIT_IMPORT_OVER_SDK,
        ),
    ]


def _idle_rows(idle: Mapping[str, Idle]) -> list[Row]:
    kit, sdk = (_mebibytes(idle.get(name)) for name in ("kit", "sdk"))
    return [
        Row("sessions", "1,000 sessions sdk", "MiB", sdk),
        Row(
            "sessions",
            "1,000 sessions kit",
            "MiB",
            kit,
            kit / sdk if kit is not None and sdk else None,
            "sdk",
            target=f"<= {IDLE_SESSIONS_MIB:g} MiB",
            met=None if kit is None else kit <= IDLE_SESSIONS_MIB,
        ),
    ]


def _milliseconds(rounds: Sequence[float]) -> float | None:
    return median(rounds) * 1e3 if rounds else None


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The median of the ratios within each round: drift between rounds cancels out."""
    if not ours or not theirs:
        return None
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def _above(floor: Sequence[float], rounds: Sequence[float]) -> list[float]:
    return [taken - least for taken, least in zip(rounds, floor, strict=True)] if rounds else []


def _mebibytes(idle: Idle | None) -> float | None:
    return (idle.after - idle.before) / 2**20 if idle else None


def record(
    table: Sequence[Row],
    calls: Mapping[int, Mapping[str, Sequence[float]]],
    imports: Mapping[str, Sequence[float]],
    idle: Mapping[str, Idle],
    setting: Mapping[str, Any],
) -> dict[str, Any]:
    """All that was measured, in the shape of `build/bench.json`."""
    return {
        "setting": dict(setting),
        "rows": [asdict(row) for row in table],
        "met": all(row.met for row in table if row.target),
        "raw": {
            "cpu_s_per_call": {
                load: {name: list(rounds) for name, rounds in figures.items()}
                for load, figures in calls.items()
            },
            "import_cpu_s": {name: list(rounds) for name, rounds in imports.items()},
            "idle_sessions": {name: asdict(figures) for name, figures in idle.items()},
        },
    }


def show(table: Sequence[Row], title: str) -> None:
    if sys.stdout.isatty():
        show_rich(table, title)
    else:
        print(title)
        print(plain([HEADINGS, *(row.cells() for row in table)], RIGHT_ALIGNED) + "\n")


def show_lines(lines: Sequence[Sequence[str]]) -> None:
    """Any other table: headings first, a name and then figures."""
    print(plain(lines, range(1, len(lines[0]))) + "\n")


def plain(lines: Sequence[Sequence[str]], right: Container[int]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_plain_line(line, widths, right) for line in lines)


def _plain_line(cells: Sequence[str], widths: Sequence[int], right: Container[int]) -> str:
    padded = (
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def show_rich(table: Sequence[Row], title: str) -> None:
    # Only a terminal needs it, and importing it costs more than the measured kit.
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=title, title_justify="left")
    for column, heading in enumerate(HEADINGS):
        grid.add_column(heading, justify="right" if column in RIGHT_ALIGNED else "left")
    colours = {"ok": "[green]ok[/]", "miss": "[bold red]miss[/]"}
    for row, following in zip(table, [*table[1:], None], strict=True):
        *cells, verdict = row.cells()
        last = following is None or following.group != row.group
        grid.add_row(*cells, colours.get(verdict, verdict), end_section=last)
    Console().print(grid)
