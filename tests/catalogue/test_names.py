"""Names under which tools are shown: fit for every client, never two alike, and always the same."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolyard.catalogue.items import shown_name

FIT = re.compile(r"[a-zA-Z0-9_-]{1,64}")

# What could make two names meet: underscores at the seam, alphabets that are folded, lengths at the bound.
words = st.one_of(
    st.text(alphabet="ab_-", min_size=1, max_size=12),
    st.text(alphabet="aB_é.ü/ 字", min_size=1, max_size=12),
    st.text(min_size=1, max_size=8),
    st.builds(lambda letter, size: letter * size, st.sampled_from("ab_"), st.integers(1, 120)),
    st.builds(lambda start, size: start + "x" * size, st.text("ab_-", max_size=3), st.integers(50, 60)),
)
pairs = st.tuples(words, words)


@given(pairs)
def test_a_name_fits_every_client(pair: tuple[str, str]):
    assert FIT.fullmatch(shown_name(*pair))


@given(st.lists(pairs, max_size=30, unique=True))
@example([("a", "_b"), ("a_", "b")])
@example([("a__b", "c"), ("a", "b__c")])
@example([("a", "b c"), ("a", "b.c"), ("a", "b_c")])
@example([("x" * 100, "t"), ("x" * 101, "t")])
@example([("é", "t"), ("ü", "t"), ("", "t"), ("x", "t")])
def test_no_two_tools_share_a_name(many: list[tuple[str, str]]):
    assert len({shown_name(*pair) for pair in many}) == len(many)


@pytest.mark.parametrize(("server", "tool"), [("a b", "c"), ("a", "b c"), ("a__b", "c"), ("a", "x" * 80)])
def test_a_tool_whose_own_name_looks_like_a_shortened_one_is_still_another(server: str, tool: str):
    _, place, own = shown_name(server, tool).split("__")
    assert shown_name(place, own) != shown_name(server, tool)


@given(pairs)
def test_a_name_says_that_it_is_ours_and_is_the_same_every_time(pair: tuple[str, str]):
    name = shown_name(*pair)
    assert name.startswith("mcp__")
    assert shown_name(*pair) == name


@given(st.text("abcdefgh-", min_size=1, max_size=20), st.text("abcdefgh_-", min_size=1, max_size=30))
def test_plain_names_are_shown_plainly(server: str, tool: str):
    assert shown_name(server, tool) == f"mcp__{server}__{tool}"


@pytest.mark.parametrize(
    ("server", "tool", "start"),
    [
        ("git", "commit", "mcp__git__commit"),
        ("my files", "read file", "mcp__my_files__read_file_"),
        ("docs.example.com", "search", "mcp__docs_example_com__search_"),
        ("git", "x" * 80, "mcp__git__xxxxxxxxxxxxxxx"),
        (
            "a_very_long_name_of_a_server_indeed",
            "search_everything_twice",
            "mcp__a_very_long_name_of__search_",
        ),
        ("字", "字", "mcp__x__x_"),
    ],
)
def test_a_name_can_be_read(server: str, tool: str, start: str):
    assert shown_name(server, tool).startswith(start)
