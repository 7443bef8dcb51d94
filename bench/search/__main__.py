"""`python -m bench.search`: the quality of tool search compared with others, and with --scale its cost.

Owns the command line and the order of things. A full run writes its tables and picture into `docs/`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import chart
from bench.__main__ import end_progress, progress
from bench.install import CannotInstall
from bench.process import ROOT
from bench.report import plain
from bench.search import drawing, fastmcp_search, ours, report, scale, sets
from bench.search.measures import DEPTH, measured
from bench.search.peers import Peers

FASTMCP = "FastMCP search"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.search", description="Measure how well and how fast tools are found."
    )
    parser.add_argument(
        "--data", type=Path, default=sets.DEFAULT, help="the folder of the sets (default: %(default)s)"
    )
    parser.add_argument("--set", nargs="+", metavar="NAME", help="only sets whose name begins so")
    parser.add_argument("--scale", action="store_true", help="only what 10,000 tools cost")
    parser.add_argument(
        "--minilm", action="store_true", help="all-MiniLM-L6-v2 too: about twenty minutes more"
    )
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder for the figures")
    options = parser.parse_args()
    # Tables of some figures would replace the tables of all.
    options.write = not options.set and not options.no_peers and (options.minilm or options.scale)
    return options


def run_quality(options: argparse.Namespace) -> None:
    tasks = [t for t in sets.tasks(options.data) if not options.set or t.name.startswith(tuple(options.set))]
    if not tasks:
        raise sets.NoData(f"no set in {str(options.data)!r} begins with {' or '.join(options.set)}")
    peers = _peers(options)
    quality: dict[str, dict[str, dict[str, float]]] = {}
    for task in tasks:
        rows = quality[task.name] = {}
        progress(f"{task.name}: ours")
        rows[report.OURS] = measured(ours.rankings(task), task.needed)
        if not options.no_peers:
            progress(f"{task.name}: FastMCP's search")
            rows[FASTMCP] = measured(fastmcp_search.rankings(task), task.needed)
        if peers is not None:
            progress(f"{task.name}: the others")
            rows |= {name: measured(found, task.needed) for name, found in peers.rankings(task).items()}
    end_progress()
    print(plain(list(report.full_lines(quality)), range(2, 7)) + "\n")
    for line in report.beaten(quality):
        print(line)
    _keep(options, "bench-search", {"setting": _setting(), "quality": quality})
    if options.write and peers is not None:
        report.write("quality", report.quality_table(quality))
        chart.write(drawing.draw(quality, _caption()), "bench-search")
    else:
        print(
            f"the tables in {report.PAGE.relative_to(ROOT)} are of a run with --minilm and stay as they are"
        )


def _peers(options: argparse.Namespace) -> Peers | None:
    if options.no_peers:
        return None
    progress("the others are installed, once")
    try:
        return Peers(["wordllama", *(["minilm"] if options.minilm else [])])
    except CannotInstall as error:
        print(f"warning: only FastMCP's search is beside ours: {error}", file=sys.stderr)
        return None


def run_scale(options: argparse.Namespace) -> None:
    progress(f"{scale.TOOLS:,} tools")
    figures = scale.measured(options.data)
    end_progress()
    print(plain(list(report.scale_lines(figures)), (1, 2)))
    _keep(options, "bench-search-scale", {"setting": _setting(), "figures": figures})
    if options.write:
        report.write("scale", report.scale_table(figures))


def _keep(options: argparse.Namespace, name: str, record: dict[str, object]) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _setting() -> dict[str, object]:
    names: Sequence[str] = ("toolyard", "fastmcp", "numpy")
    return {
        "python": platform.python_version(),
        "depth": DEPTH,
        "versions": {name: importlib.metadata.version(name) for name in names},
    }


def _caption() -> str:
    return (
        f"Ranking depth {DEPTH}; FastMCP {importlib.metadata.version('fastmcp')}; made by make bench-search"
    )


def main() -> int:
    options = arguments()
    try:
        (run_scale if options.scale else run_quality)(options)
    except KeyboardInterrupt:
        return 130
    except sets.NoData as error:
        print(f"error: {error}", file=sys.stderr)
        print(
            "hint: --data FOLDER, where each set is a folder with tools.jsonl and queries.jsonl",
            file=sys.stderr,
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
