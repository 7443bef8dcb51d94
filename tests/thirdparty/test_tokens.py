"""What the bundled servers and six ordinary ones answer costs a model no more through the gateway."""

import pytest

from bench.tokens.answers import MOST_MORE, answers
from tests.results.shelf import tokens

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_costs_more_through_the_gateway_and_long_ones_cost_far_less():
    found = await answers(tokens, lambda _: None)
    assert {one.server for one in found} >= {"filesystem", "memory", "everything", "git", "time", "fetch"}
    worse = {f"{one.server} {one.tool}, {one.asked}": one.tokens for one in found if one.ratio > MOST_MORE}
    assert worse == {}
    direct, through = (sum(one.tokens["text"][way] for one in found) for way in (0, 1))
    assert through < 0.8 * direct
