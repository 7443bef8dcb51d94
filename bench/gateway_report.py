"""Ratios, targets and tables of the gateway's figures, and `build/bench-gateway.json`.

Owns the targets of the gateway. Rows are those of `bench.report`; it measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.load import ERAS, Era
from bench.report import Row
from bench.rounds import Figures, Measured, as_json
from bench.yard import HANGING, MEBIBYTES, SERVERS, Huge, Yard

OVER_FORWARDER = 1.6
OTHERS_OVER_OURS: Mapping[str, float] = {
    "fastmcp": 100.0,
    "mcp-proxy": 10.0,
    "litellm": 10.0,
    "contextforge": 10.0,
}
STDIO_MS = 0.5
IN_PROCESS_MS = 0.15
PAGE_MS = 5.0
RESIDENT_MIB = 150.0
FIRST_LIST_S = 1.0
HUGE_EXTRA_MIB = 32.0
OURS, FLOOR = "toolyard", "forwarder"


@dataclass(frozen=True, slots=True)
class Everything:
    """One run of the gateway's part; `loads` are connections, the one for CPU figures first."""

    calls: Measured
    loads: Sequence[int]
    peers: Mapping[str, str]
    """Title by key, in the order of the table."""
    yard: Yard | None
    huge: Mapping[str, Huge]


def rows(found: Everything) -> list[Row]:
    return [
        *_forwarding(found),
        *_others(found),
        *_other_kinds(found),
        *_yard(found.yard),
        *_huge(found.huge),
    ]


def _forwarding(found: Everything) -> Iterator[Row]:
    for load in found.loads:
        for era in ERAS:
            group = f"forward {era} {load}"
            label = f"{era}, {load} connections"
            floor = found.calls.figures.get((FLOOR, era, load))
            yield Row(group, f"bare forwarder {label}", "ms CPU/call", _cpu_ms(floor))
            # Not a realistic setting, but it shows the share of the garbage collector.
            tuned = found.calls.figures.get(("forwarder tuned", era, load))
            name = f"bare forwarder, tuned GC, {label}"
            yield Row(group, name, "ms CPU/call", _cpu_ms(tuned), _over(tuned, floor), "forwarder")
            for name, shown in ((OURS, "toolyard"), ("toolyard bare view", "toolyard, bare view,")):
                mine = found.calls.figures.get((name, era, load))
                over = _over(mine, floor)
                yield Row(
                    group,
                    f"{shown} {label}",
                    "ms CPU/call",
                    _cpu_ms(mine),
                    over,
                    "forwarder",
                    target=f"<= {OVER_FORWARDER:g}x forwarder",
                    met=None if over is None else over <= OVER_FORWARDER,
                )


def _others(found: Everything) -> Iterator[Row]:
    """Peers are much slower than ours, so one figure of ours for each era is enough to compare with."""
    for key, title in found.peers.items():
        for era in ERAS:
            load = next((n for n in found.loads if (key, era, n) in found.calls.figures), found.loads[0])
            mine = _cpu_ms(found.calls.figures.get((OURS, era, load)))
            theirs = _cpu_ms(found.calls.figures.get((key, era, load)))
            ratio = theirs / mine if mine and theirs else None
            least = OTHERS_OVER_OURS.get(key)
            wanted = least is not None and theirs is not None
            yield Row(
                "peers",
                f"{title} {era}",
                "ms CPU/call",
                theirs,
                ratio,
                "toolyard",
                target=f">= {least:g}x toolyard" if wanted else "",
                met=None if ratio is None or not least else ratio >= least,
            )


def _other_kinds(found: Everything) -> Iterator[Row]:
    load = found.loads[0]
    for name, shown, most in (
        ("toolyard stdio", "to a stdio upstream", STDIO_MS),
        ("toolyard in process", "in process", IN_PROCESS_MS),
    ):
        for era in ERAS:
            taken = _cpu_ms(found.calls.figures.get((name, era, load)))
            yield _at_most("kinds", f"toolyard {shown} {era}", "ms CPU/call", taken, most)


def _yard(yard: Yard | None) -> Iterator[Row]:
    if yard is None:
        return
    for era in ERAS:
        name = f"a page of {yard.tools // yard.pages} of {yard.tools:,} tools {era}"
        yield _at_most("yard", name, "ms CPU", yard.page_cpu_s[era] * 1e3, PAGE_MS)
    most = max(yard.resident, yard.resident_after) / 2**20
    yield _at_most("yard", f"resident with {SERVERS} upstreams", "MiB", most, RESIDENT_MIB)
    hanging = f"{HANGING} of {SERVERS} hang"
    yield _at_most("yard", f"first page after a restart, {hanging}", "s", yard.first_page_s, FIRST_LIST_S)
    yield _at_most("yard", f"whole list after a restart, {hanging}", "s", yard.first_list_s, FIRST_LIST_S)
    yield Row("yard", "the same from the start of the process", "s", yard.since_start_s)


def _huge(huge: Mapping[str, Huge]) -> Iterator[Row]:
    for way, taken in huge.items():
        name = f"peak of a result of {MEBIBYTES} MiB, {way}"
        yield _at_most("huge", name, "MiB more", taken.extra / 2**20, HUGE_EXTRA_MIB)


def _at_most(group: str, name: str, unit: str, value: float | None, most: float) -> Row:
    target = f"<= {most:g} {unit.split()[0]}"
    return Row(group, name, unit, value, target=target, met=None if value is None else value <= most)


def _cpu_ms(figures: Figures | None) -> float | None:
    return median(figures.cpu_s) * 1e3 if figures and figures.cpu_s else None


def _over(ours: Figures | None, theirs: Figures | None) -> float | None:
    """The median of the ratios within each round: drift between rounds cancels out."""
    if not ours or not theirs:
        return None
    return median(a / b for a, b in zip(ours.cpu_s, theirs.cpu_s, strict=True))


@dataclass(frozen=True, slots=True)
class Speed:
    """One line of the second table: calls per second of a gateway, and its latency and memory."""

    name: str
    label: str
    cells: Mapping[str, float | None]
    """Calls per second by "8 modern", "64 legacy", …"""
    cpu_ms: Mapping[str, float | None]
    resident_mib: float | None


def speeds(found: Everything) -> list[Speed]:
    names = {FLOOR: "bare forwarder", OURS: "toolyard", **found.peers}
    loads = sorted(found.loads)
    return [Speed(name, label, *_by_load(found.calls, name, loads)) for name, label in names.items()]


def _by_load(
    calls: Measured, name: str, loads: Sequence[int]
) -> tuple[dict[str, float | None], dict[str, float | None], float | None]:
    keys: list[tuple[str, Era, int]] = [(name, era, load) for load in loads for era in ERAS]
    found = {f"{load} {era}": calls.figures.get((name, era, load)) for _, era, load in keys}
    rates = {key: median(figures.per_second) if figures else None for key, figures in found.items()}
    memory = calls.resident.get(name)
    return rates, {key: _cpu_ms(f) for key, f in found.items()}, memory / 2**20 if memory else None


def speed_lines(table: Sequence[Speed]) -> list[tuple[str, ...]]:
    """The table of calls per second as text, headings first."""
    keys = list(table[0].cells)
    lines = [("calls/s at connections, era", *keys, "MiB")]
    for line in table:
        cells = ["-" if value is None else f"{value:,.0f}" for value in line.cells.values()]
        memory = "-" if line.resident_mib is None else f"{line.resident_mib:.0f}"
        lines.append((line.label, *cells, memory))
    return lines


def notes(found: Everything) -> list[str]:
    """Why something was not measured, one line each."""
    return [
        f"not measured: {found.peers.get(key, key)} {what}".rstrip() + f": {' '.join(reason.split())[:240]}"
        for (key, what), reason in found.calls.missing.items()
    ]


def record(found: Everything, table: Sequence[Row], setting: Mapping[str, Any]) -> dict[str, Any]:
    """All that was measured, in the shape of `build/bench-gateway.json`."""
    return {
        "setting": dict(setting),
        "rows": [asdict(row) for row in table],
        "met": all(row.met for row in table if row.target),
        "speeds": [asdict(line) for line in speeds(found)],
        "notes": notes(found),
        "raw": {
            **as_json(found.calls),
            "yard": asdict(found.yard) if found.yard else None,
            "huge": {way: asdict(taken) for way, taken in found.huge.items()},
        },
    }
