"""Runs the shipped evals in both views and writes their table into docs/guides/evals.md."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SUITE = "examples/evals/bundled.toml"
PAGE = ROOT / "docs" / "guides" / "evals.md"
START, END = "<!-- evals: written by `make evals` -->", "<!-- end of evals -->"


def main() -> None:
    command = [sys.executable, "-m", "toolyard", "eval", SUITE, "--compare", "view=all,view=search", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the evals ended with status {done.returncode}")
    table = "\n".join(lines(json.loads(done.stdout)))
    before, _, rest = PAGE.read_text().partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}")
    print(table)


def lines(found: dict[str, Any]) -> Iterator[str]:
    one, other = found["configurations"]
    yield "| task | turns, `all` | `search` | tokens in, `all` | `search` | tokens out, `all` | `search` |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    pairs = list(zip(one["cases"], other["cases"], strict=True))
    for first, last in [*pairs, (one["total"], other["total"])]:
        name = "**mean**" if first is one["total"] else first["name"]
        cells = [
            f"{side[figure]:,.1f}" if figure == "turns" else f"{side[figure]:,.0f}"
            for figure in ("turns", "input_tokens", "output_tokens")
            for side in (first, last)
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    comparison = found["comparison"]
    passed = f"{one['total']['passed']} and {other['total']['passed']} of {one['total']['attempts']} passed"
    yield ""
    yield (
        f"{passed}. `search` against `all`: {comparison['input_tokens_change']:+.0%} tokens in, "
        f"{comparison['output_tokens_change']:+.0%} tokens out, {comparison['turns_change']:+.0%} turns."
    )


if __name__ == "__main__":
    main()
