"""What a text costs a model, held against a tokeniser."""

import json
from pathlib import Path

import bpe_openai
import pytest

from tests.results.shelf import records
from toolyard.results.measure import CHARS_COUNTED, estimate_tokens

TEXTS = {
    "JSON": json.dumps(records(60), separators=(",", ":")),
    "indented JSON": json.dumps(records(60), indent=2),
    "CSV": "\n".join(f"{at},2026-01-{at % 28 + 1:02}T10:00:00Z,{at * 1.37:.2f},open" for at in range(60)),
    "a plain table": "\n".join(f"{at} | open | {at * 1.37:.2f} | Thing {at}" for at in range(60)),
    "code": Path(__file__).read_text(encoding="utf-8"),
    "prose": Path("docs/guides/results.md").read_text(encoding="utf-8"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_is_within_a_tenth_of_what_a_tokeniser_counts(kind: str):
    looked = TEXTS[kind][:CHARS_COUNTED]
    counted = len(bpe_openai.get_encoding("o200k_base").encode(looked))
    assert abs(estimate_tokens(looked) - counted) <= counted / 10


def test_of_a_long_text_the_rest_is_taken_to_be_like_its_beginning():
    assert estimate_tokens("word " * 100_000) == pytest.approx(100_000, rel=0.01)
