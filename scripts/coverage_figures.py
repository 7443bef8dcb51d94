"""Runs the tests under coverage.py and writes what they reach into CONTRIBUTING.md: `make coverage`.

A figure to read, not a gate: nothing fails because it is low, and no test is written for it. What is measured
is in pyproject.toml. The lines that no test reaches are in build/coverage/index.html.
"""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
REPORT = ROOT / "build" / "coverage"
MARKS = ("<!-- coverage: written by `make coverage` -->", "<!-- end of coverage -->")
COVERAGE = [sys.executable, "-m", "coverage"]


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    REPORT.mkdir(parents=True, exist_ok=True)
    # Whole, because tests start processes in folders of their own.
    os.environ["COVERAGE_FILE"] = str(REPORT / "data")
    subprocess.run([*COVERAGE, "erase"], cwd=ROOT, check=True)
    tests = subprocess.run([*COVERAGE, "run", "-m", "pytest", *arguments], cwd=ROOT)
    minutes = (time.monotonic() - started) / 60
    quiet = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*COVERAGE, "combine", "--quiet"], **quiet)
    subprocess.run([*COVERAGE, "html", "--quiet", "--directory", str(REPORT)], **quiet)
    subprocess.run([*COVERAGE, "json", "--quiet", "-o", str(REPORT / "coverage.json")], **quiet)
    files = json.loads((REPORT / "coverage.json").read_text("utf-8"))["files"]
    table = "\n".join(lines(files))
    print(f"{table}\n{minutes:.1f} minutes; every line: build/coverage/index.html")
    if any(not argument.startswith("-") for argument in arguments) or "-k" in arguments:
        print("a part of the tests says nothing about the whole, so CONTRIBUTING.md stays as it is")
    elif tests.returncode in (0, 1):  # all ran; one that fails because it is traced does not hide the figure
        PAGE.write_text(renewed(PAGE.read_text("utf-8"), table), "utf-8")
    return tests.returncode


def lines(files: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    """A row for each part of the package, and one for all of it."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, figures in files.items():
        part = Path(name).relative_to("src/toolyard").parts[0]
        for row in (part.removesuffix(".py"), "all"):
            counts[row][0] += figures["summary"]["covered_lines"]
            counts[row][1] += figures["summary"]["num_statements"]
    whole = counts.pop("all")
    rows = [f"| `{part}` | {share(reached)} |" for part, reached in sorted(counts.items()) if reached[1] > 50]
    return ["| part | lines that tests reach |", "|---|---|", *rows, f"| all | {share(whole)} |"]


def share(reached: list[int]) -> str:
    return f"{100 * reached[0] / reached[1]:.0f} % of {reached[1]:,}"


def renewed(page: str, table: str) -> str:
    before, found, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (found and end):
        sys.exit(f"error: {PAGE.name} has no lines {MARKS[0]!r} and {MARKS[1]!r}")
    return f"{before}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
