"""The tables: on the terminal, and in `docs/concepts/search.md` between two marks.

Owns the form of the tables, and the targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.process import ROOT
from bench.search.measures import NAMES, mean

PAGE = ROOT / "docs" / "concepts" / "search.md"
OURS = "Toolyard"
MEAN = "mean"
SHOWN = ("recall@1", "recall@5", "nDCG@10")

Quality = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By set, by method, by measure."""

SCALE: tuple[tuple[str, str, str, float | None], ...] = (
    ("build the index", "build_s", "s", 2.0),
    ("a query, mean", "query_mean_ms", "ms", 5.0),
    ("a query, median", "query_p50_ms", "ms", 5.0),
    ("a query, 99 of 100", "query_p99_ms", "ms", 5.0),
    ("memory of the index", "index_mib", "MiB", 60.0),
    ("memory of numpy and the embedding", "embedding_mib", "MiB", None),
    ("start from disk", "load_ms", "ms", 200.0),
    ("size on disk", "disk_mib", "MiB", None),
    ("add a server of 100 tools", "add_ms", "ms", 100.0),
    ("remove it", "remove_ms", "ms", 100.0),
    ("import, with numpy", "import_ms", "ms", None),
)


def with_mean(quality: Quality) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """The sets, and last the mean over them for each method that was measured on all."""
    methods = [name for name in _methods(quality) if all(name in rows for rows in quality.values())]
    means = {name: mean([dict(rows[name]) for rows in quality.values()]) for name in methods}
    return {**quality, MEAN: means}


def full_lines(quality: Quality) -> Iterator[list[str]]:
    """Every measure, a line for each set and method."""
    yield ["set", "method", *NAMES]
    for name, rows in with_mean(quality).items():
        for method, row in rows.items():
            yield [name, method, *(f"{row[measure]:.1f}" for measure in NAMES)]


def quality_table(quality: Quality) -> str:
    """For the page: a line for each set, a column for each method, the best of each line in bold."""
    methods = _methods(quality)
    lines = [["set", *methods], ["---"] * (len(methods) + 1)]
    for name, rows in with_mean(quality).items():
        cells = [_cell(rows, method) for method in methods]
        lines.append([name, *cells])
    return _markdown(lines)


def _cell(rows: Mapping[str, Mapping[str, float]], method: str) -> str:
    if method not in rows:
        return ""
    best = {measure: max(row[measure] for row in rows.values()) for measure in SHOWN}
    return " / ".join(
        f"**{rows[method][measure]:.1f}**"
        if rows[method][measure] == best[measure]
        else f"{rows[method][measure]:.1f}"
        for measure in SHOWN
    )


def scale_table(figures: Mapping[str, float]) -> str:
    lines = [[f"{figures['tools']:,.0f} tools of {figures['servers']:,.0f} servers", "", "aim"], ["---"] * 3]
    for label, key, unit, aim in SCALE:
        lines.append([label, _figure(figures[key], unit), "" if aim is None else f"under {aim:g} {unit}"])
    return _markdown(lines)


def scale_lines(figures: Mapping[str, float]) -> Iterator[list[str]]:
    yield [f"{figures['tools']:,.0f} tools, {figures['queries']:,.0f} queries", "figure", "aim", ""]
    for label, key, unit, aim in SCALE:
        verdict = "" if aim is None else "ok" if figures[key] < aim else "miss"
        yield [label, _figure(figures[key], unit), "" if aim is None else f"< {aim:g} {unit}", verdict]


def beaten(quality: Quality) -> list[str]:
    """Where another method is better than ours."""
    found: list[str] = []
    for name, rows in quality.items():
        for method, row in rows.items():
            for measure in ("recall@5", "nDCG@10"):
                if row[measure] > rows[OURS][measure]:
                    found.append(
                        f"{name}: {method} has {measure} {row[measure]:.1f}, ours {rows[OURS][measure]:.1f}"
                    )
    return found


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Writes the tables into the page."""
    body = page.read_text(encoding="utf-8")
    start, end = f"<!-- {name}: written by `make bench-search` -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(body):
        raise ValueError(f"{str(page)!r} has no place for {name!r}; hint: add {start} and {end}")
    page.write_text(pattern.sub(lambda _: f"{start}\n\n{text}\n\n{end}", body), encoding="utf-8")


def _methods(quality: Quality) -> list[str]:
    return list(dict.fromkeys(method for rows in quality.values() for method in rows))


def _figure(value: float, unit: str) -> str:
    return (
        f"{value:.0f} {unit}"
        if value >= 20
        else f"{value:.1f} {unit}"
        if value >= 1
        else f"{value:.2f} {unit}"
    )


def _markdown(lines: Sequence[Sequence[Any]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
