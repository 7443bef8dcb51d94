"""`python -m bench.results`: the cost of shaping results.

Owns the command line. A full run writes its table into `docs/`.
"""

from __future__ import annotations

import argparse

from bench.__main__ import end_progress, progress
from bench.report import show
from bench.results import big, report, stage

CALLS, ROUNDS = 400, 40


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.results", description="Measure what shaping results costs."
    )
    parser.add_argument("--calls", type=int, default=CALLS, help="in a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the small ones (default: %(default)s)")
    parser.add_argument("--only", choices=("small", "big"), help="the others stay as they are")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows = []
    if options.only != "big":
        costs = stage.measured(calls=options.calls, rounds=options.rounds, progress=progress)
        rows += report.of_stage(costs)
    if options.only != "small":
        rows += report.of_big(big.measured(progress))
        rows += report.of_pages(big.pages(progress))
    end_progress()
    show(rows, "Results that fit")
    if not options.only:
        report.write(rows)


if __name__ == "__main__":
    main()
