"""`python -m tests.seeds` writes docs/seeds.md; `python -m tests.seeds run 000 3 4` shows what is printed."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.seeds.page import PAGE, page
from tests.seeds.seeds import SEEDS
from tests.seeds.showing import show


async def run(number: str, only: list[int]) -> int:
    seed = next(seed for seed in SEEDS if seed.number == number)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        async for shown in show(seed, Path(folder), only, pending=True):
            mark = "" if shown.fits else f"    ^ NOT {shown.step.expected!r}\n"
            wrong += not shown.fits
            if shown.fits and "-q" in sys.argv:
                continue
            print(f"[{number}.{shown.number}] {shown.statement.pending} {shown.statement.says}")
            print(f"$ {shown.step.text}\n{shown.output}{mark}")
    print(f"{wrong} do not print what they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        raise SystemExit(
            asyncio.run(run(sys.argv[2], [int(word) for word in sys.argv[3:] if word.isdigit()]))
        )
    PAGE.write_text(page(SEEDS), "utf-8")
