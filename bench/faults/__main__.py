"""`python -m bench.faults`: measures each row, prints and writes the table; exits with 1 if a row is over
its limit."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bench.faults.measuring import play
from bench.faults.report import LIMIT, Judged, cells, judge, markdown, table, write
from tests.faults.rows import ROWS, Row
from tests.faults.yard import ROOT

REPORT = ROOT / "build" / "faults.json"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make faults", description="How long others' calls take while an upstream misbehaves."
    )
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="such as hungry-http, or a part of it; all without"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each window (3)")
    parser.add_argument("--rounds", type=int, default=2, help="of fault and quiet time (2)")
    parser.add_argument("--markdown", action="store_true", help="the table of the documentation")
    return parser.parse_args()


async def measure(row: Row, seconds: float, rounds: int) -> Judged:
    with tempfile.TemporaryDirectory(prefix=f"faults-{row.id}-") as folder:
        return judge(row.id, await play(row, Path(folder), seconds, rounds))


def main() -> None:
    options = arguments()
    rows = [row for row in ROWS if not options.rows or any(part in row.id for part in options.rows)]
    if not rows:
        sys.exit(f"error: no row {' '.join(options.rows)!r}\nhint: there are {', '.join(r.id for r in ROWS)}")
    found: list[Judged] = []
    for row in rows:
        found.append(asyncio.run(measure(row, options.seconds, options.rounds)))
        print("  ".join(cells(found[-1])), file=sys.stderr, flush=True)
    print(markdown(found) if options.markdown else table(found))
    print("p99 in ms; bench/faults/report.py says what is judged", file=sys.stderr)
    write(found, REPORT, seconds=options.seconds, rounds=options.rounds, cores=os.cpu_count())
    if bad := [f"{row.row} ({row.mark})" for row in found if not row.holds]:
        hint = "try --rounds 4 on a machine with nothing else to do; else something holds the event loop"
        sys.exit(f"error: not within {LIMIT:g} times the quiet p99: {', '.join(bad)}\nhint: {hint}")


if __name__ == "__main__":
    main()
