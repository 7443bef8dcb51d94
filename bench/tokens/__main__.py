"""`python -m bench.tokens`: the cost of a whole task in tokens, compared with listing every tool.

Owns the command line. A full run writes its table and picture into `docs/`. With --estimate it holds our own
estimate of tokens against the tokeniser instead; with --answers it counts what tools answer, directly and
through the gateway, and writes that table.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

import bpe_openai

from bench import chart
from bench.__main__ import end_progress, progress
from bench.report import plain
from bench.search import sets
from bench.tokens import answers, estimate, report
from bench.tokens.cost import Figures, figures
from bench.tokens.sample import sample

SIZES = (100, 1_000, 10_000)
ENCODING = "o200k_base"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tokens", description="Measure what a task costs in tokens."
    )
    parser.add_argument(
        "--data", type=Path, default=sets.DEFAULT, help="the folder of the sets (default: %(default)s)"
    )
    parser.add_argument("--tools", type=int, nargs="+", default=SIZES, help="how many are mounted")
    parser.add_argument("--answers", action="store_true", help="what tools answer, directly and through us")
    parser.add_argument("--estimate", action="store_true", help="only how good our estimate of tokens is")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    logging.getLogger("toolyard").setLevel(logging.CRITICAL)
    encode = bpe_openai.get_encoding(ENCODING).encode

    def count(text: str) -> int:
        return len(encode(text))

    if options.estimate:
        print(plain(list(estimate.lines(options.data, count)), range(1, 5)))
        return
    if options.answers:
        told = asyncio.run(answers.answers(count, progress))
        end_progress()
        print(plain(list(report.answer_lines(told)), range(2, 7)))
        report.write_answers(told)
        worse = [f"{one.server} {one.tool}" for one in told if one.ratio > answers.MOST_MORE]
        if worse:
            sys.exit(f"error: over {answers.MOST_MORE - 1:.0%} more through the gateway: {', '.join(worse)}")
        return
    found: list[Figures] = []
    for size in options.tools:
        progress(f"{size:,} tools")
        found.append(asyncio.run(figures(sample(options.data, size), count)))
    end_progress()
    print(plain(list(report.lines(found)), range(9)))
    if tuple(options.tools) == SIZES:
        report.write(found)
        caption = f"{found[-1].tasks} tasks of LiveMCPBench, {ENCODING}; what tools answer is not counted"
        chart.write(report.draw(found, caption), "bench-tokens")


if __name__ == "__main__":
    try:
        main()
    except sets.NoData as error:
        sys.exit(f"error: {error}\nhint: --data FOLDER; docs/concepts/search.md says what has to be in it")
