"""docs/guides/team.md does what it says: followed word for word, through nginx, with each store."""

import pytest

from scripts import team_page
from tests.programs import needs


@needs("nginx")
@needs("redis")
@pytest.mark.parametrize("store", ["postgresql", "redis"])
def test_the_page_for_a_team_is_followed_word_for_word(store: str):
    assert team_page.follow(store, verbose=False) > 20


def test_output_that_differs_from_the_page_is_noticed():
    page = "```console run\n$ echo one\ntwo\n```\n"
    (step,) = team_page.steps(page)
    assert (step.text, step.expected) == ("echo one", "two\n")


def test_text_on_the_page_is_not_run():
    page = "```sh\nrm -r /\n```\n```toml file=a.toml\nx = 1\n```\n```sh run\ntrue\n```\n"
    assert [(step.kind, step.text) for step in team_page.steps(page)] == [
        ("file", "x = 1\n"),
        ("run", "true\n"),
    ]
