"""Ratios, aims and the table of what callers cost, and `build/bench-callers.json`. It measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from bench.callers import BEFORE, CONNECTIONS, PLAIN, WITH_KEY, WITH_TOKEN, Calls, Lists, Lookups
from bench.load import ERAS, Era
from bench.report import Row

KNOWN_OVER_PLAIN = 1.15
PLAIN_OVER_BEFORE = 1.01
FIRST_PAGE_MS = 10.0
LATER_OVER_UNRESTRICTED = 1.1
"""As fast as without rules, but for what a single page can be measured to."""
MANY_OVER_FEW = 1.25
"""A B-tree with 100,000 times the rows is deeper by a page or two, and those pages are not in the cache."""


@dataclass(frozen=True, slots=True)
class Everything:
    calls: Calls
    lists: Lists | None
    lookups: Lookups | None


@dataclass(frozen=True, slots=True)
class Compared:
    """One way over another in one era: the median of all rounds, their quartiles, and the starts."""

    ratio: float
    quartiles: tuple[float, float]
    starts: tuple[float, ...]
    """The median of each start of the gateways."""


def compared(calls: Calls, way: str, with_way: str, era: Era) -> Compared | None:
    by_start: list[list[float]] = []
    for start in calls.starts:
        ours, theirs = (start.get((name, era, CONNECTIONS)) for name in (way, with_way))
        if ours and theirs:
            by_start.append([a / b for a, b in zip(ours, theirs, strict=True)])
    every = [ratio for start in by_start for ratio in start]
    if not every:
        return None
    low, _, high = quantiles(every, n=4) if len(every) > 1 else (every[0],) * 3
    # Of the starts: within one, all rounds share what that process happened to get.
    starts = tuple(median(start) for start in by_start)
    return Compared(median(starts), (low, high), starts)


PAIRS = ((PLAIN, BEFORE), (WITH_KEY, PLAIN), (WITH_TOKEN, PLAIN))
_SHORT = {BEFORE: "before", PLAIN: "without"}
_MOST = {BEFORE: PLAIN_OVER_BEFORE, PLAIN: KNOWN_OVER_PLAIN}


def rows(found: Everything) -> list[Row]:
    table = [row for era in ERAS for row in _call_rows(found.calls, era)]
    return [*table, *_list_rows(found.lists), *_lookup_rows(found.lookups)]


def _call_rows(calls: Calls, era: Era) -> Iterator[Row]:
    yield from (row for row in [_plain_row(calls, BEFORE, era)] if row.value is not None)
    for way, base in PAIRS:
        result = compared(calls, way, base, era)
        most = _MOST[base]
        row = _plain_row(calls, way, era)
        if result is None:
            yield row
            continue
        yield Row(
            row.group,
            row.name,
            row.unit,
            row.value,
            result.ratio,
            _SHORT[base],
            target=f"<= {most:g}x {_SHORT[base]}",
            met=result.ratio <= most,
        )


def _plain_row(calls: Calls, way: str, era: Era) -> Row:
    every = [value for start in calls.starts for value in start.get((way, era, CONNECTIONS), ())]
    return Row(f"callers {era}", f"{way}, {era}", "ms CPU/call", median(every) * 1e3 if every else None)


def _list_rows(lists: Lists | None) -> Iterator[Row]:
    if lists is None:
        return
    first, later, plain = (median(each) * 1e3 for each in (lists.first, lists.later, lists.unrestricted))
    yield Row("lists", "a page of 10,000 tools, no rules", "ms CPU", plain)
    yield Row(
        "lists",
        "the first page of a new principal",
        "ms CPU",
        first,
        target=f"<= {FIRST_PAGE_MS:g} ms",
        met=first <= FIRST_PAGE_MS,
    )
    yield Row(
        "lists",
        "its later pages",
        "ms CPU",
        later,
        later / plain,
        "no rules",
        target=f"<= {LATER_OVER_UNRESTRICTED:g}x no rules",
        met=later / plain <= LATER_OVER_UNRESTRICTED,
    )


def _lookup_rows(lookups: Lookups | None) -> Iterator[Row]:
    if lookups is None:
        return
    (few, fast), (many, slow) = ((count, median(each) * 1e3) for count, each in lookups.seconds.items())
    yield Row("keys", f"a look-up among {few:,} key", "ms CPU", fast)
    yield Row(
        "keys",
        f"a look-up among {many:,} keys",
        "ms CPU",
        slow,
        slow / fast,
        f"{few:,} key",
        target=f"<= {MANY_OVER_FEW:g}x {few:,} key",
        met=slow / fast <= MANY_OVER_FEW,
    )


def spread_lines(found: Everything) -> list[tuple[str, ...]]:
    """How far the ratios of the table can be trusted, headings first."""
    lines = [("ratio", "median", "quartiles of rounds", "starts")]
    for era in ERAS:
        for way, base in PAIRS:
            result = compared(found.calls, way, base, era)
            if result is not None:
                low, high = result.quartiles
                starts = " ".join(f"{each:.3f}" for each in sorted(result.starts))
                name = f"{way} over {_SHORT[base]}, {era}"
                lines.append((name, f"{result.ratio:.3f}", f"{low:.3f} to {high:.3f}", starts))
    return lines


def record(found: Everything, table: Sequence[Row], setting: Mapping[str, Any]) -> dict[str, Any]:
    """All that was measured, in the shape of `build/bench-callers.json`."""
    return {
        "setting": dict(setting),
        "rows": [asdict(row) for row in table],
        "met": all(row.met for row in table if row.target),
        "raw": {
            "calls": [
                [{"name": name, "era": era, "cpu_s_per_call": each} for (name, era, _), each in start.items()]
                for start in found.calls.starts
            ],
            "lists": asdict(found.lists) if found.lists else None,
            "lookups": dict(found.lookups.seconds) if found.lookups else None,
        },
    }
