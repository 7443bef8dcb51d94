"""What the four documents say is so: each statement's commands run, and the page says what they print."""

from pathlib import Path

import pytest

from tests.seeds.page import PAGE, page
from tests.seeds.seeds import SEEDS
from tests.seeds.showing import show
from tests.seeds.statements import Seed

COUNTS = {"000": 32, "001": 31, "002": 31, "003": 46}
OTHERWISE = 8
"""At most so many statements are otherwise than the documents say."""


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.number)
async def test_what_a_document_says_is_so(seed: Seed, tmp_path: Path):
    wrong = [
        f"{seed.number}.{shown.number} {shown.statement.says}\n$ {shown.step.text}\nprints\n"
        f"{shown.output[:2000]}\nand not\n{shown.step.expected}"
        async for shown in show(seed, tmp_path)
        if not shown.fits
    ]
    assert not wrong, "\n\n".join(wrong)


def test_the_page_is_written_from_the_statements():
    assert PAGE.read_text("utf-8") == page(SEEDS), "hint: python -m tests.seeds"


def test_every_statement_is_shown_and_few_are_otherwise():
    statements = [statement for seed in SEEDS for _, statement in seed.numbered()]
    assert {seed.number: len(list(seed.numbered())) for seed in SEEDS} == COUNTS
    assert sum(1 for statement in statements if statement.otherwise) <= OTHERWISE
    for seed in SEEDS:
        known = dict(seed.numbered())
        for number, statement in known.items():
            shows = known[statement.as_in] if statement.as_in else statement
            printed = "".join(step.expected for step in shows.steps)
            assert statement.pending or any(letter.isalnum() for letter in printed), (seed.number, number)
