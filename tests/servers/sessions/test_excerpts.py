"""A few words around a hit: cut between words, the hit marked, never longer than asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.servers.sessions.answers import LENGTH, excerpt
from toolyard.servers.sessions.words import words

LONG = " ".join(f"word{at}" for at in range(400))


def test_a_hit_in_the_middle_has_whole_words_on_both_sides():
    shown = excerpt(LONG, ["word200"])
    assert shown.startswith("…word")
    assert shown.endswith("…")
    assert "**word200**" in shown
    inner = shown.strip("…").replace("**", "")
    assert f" {inner} " in f" {LONG} "
    assert LENGTH - 50 <= len(inner) <= LENGTH


@pytest.mark.parametrize(
    ("wanted", "begins", "ends"), [("word0", "**word0**", "…"), ("word399", "…", "**word399**")]
)
def test_at_an_end_of_the_text_nothing_is_left_out_there(wanted: str, begins: str, ends: str):
    shown = excerpt(LONG, [wanted])
    assert shown.startswith(begins)
    assert shown.endswith(ends)


def test_a_whole_word_is_shown_rather_than_one_that_only_begins_so():
    text = f"the portal {LONG} the port {LONG}"
    assert "the **port** word0" in excerpt(text, ["port"])
    assert "the **portal** word0" in excerpt(text, ["porta"])


def test_a_text_without_the_words_is_shown_from_its_beginning_in_one_line():
    assert excerpt("one\n\n  two\tthree", ["zebra"]) == "one two three"
    assert excerpt("", ["zebra"]) == ""


@given(st.text(max_size=1_500), st.text(min_size=1, max_size=12))
def test_whatever_the_text_it_is_never_longer_than_asked_for(text: str, query: str):
    shown = excerpt(text, words(query), length=120)
    assert len(shown.replace("*", "").strip("…")) <= 120
