"""docs/guides/team.md does what it says: followed word for word, through nginx, with each store."""

from pathlib import Path

import pytest

from scripts import team_page
from tests.programs import needs


@needs("nginx")
@needs("redis")
@pytest.mark.parametrize("store", ["postgresql", "redis"])
def test_the_page_for_a_team_is_followed_word_for_word(store: str):
    assert team_page.follow(store, verbose=False) > 20


@needs("nginx")
@pytest.mark.parametrize(
    "page",
    [
        "```console run\n$ echo one\ntwo\n```\n",
        "```console run\n$ echo one\n```\n",
        "```sh run\nfalse\ntrue\n```\n",
        "```sh run\nexit 0\n```\n",
    ],
)
def test_a_step_that_does_not_do_what_the_page_says_is_noticed(page: str, tmp_path: Path):
    with pytest.raises(team_page.PageError):
        team_page.follow_text(page, tmp_path)


@needs("nginx")
def test_steps_share_a_shell_and_an_ellipsis_stands_for_anything(tmp_path: Path):
    page = "```sh run\nA=b\n```\n```console run\n$ echo x   $A y; cat\nx b …\n$ pwd\n…/…\n```\n"
    assert team_page.follow_text(page, tmp_path) == 3


def test_text_on_the_page_is_not_run():
    page = "```sh\nrm -r /\n```\n```toml file=a.toml\nx = 1\n```\n```sh run\ntrue\n```\n"
    assert [(step.kind, step.text) for step in team_page.steps(page)] == [
        ("file", "x = 1\n"),
        ("run", "true\n"),
    ]
