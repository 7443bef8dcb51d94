"""Every loss has a cause, and every cause a loss."""

import pytest

from scripts.faithful.causes import Cause, CausesError, explain, matches, read

ONE = """
[[cause]]
kind = "inherent"
why = "A server that wants a login gets it from the gateway."
tests = ["stories *oauth-*", "sdk tests/a.py::test_b[c]"]
"""


def test_a_star_stands_for_anything_and_a_bracket_for_itself():
    assert matches("sdk tests/*::test_x[a-2026*", "sdk tests/a/b.py::test_x[a-2026-07-28]")
    assert not matches("sdk tests/a.py::test_x[ab]", "sdk tests/a.py::test_xa")


def test_a_loss_has_the_cause_whose_pattern_fits():
    (cause,) = read(ONE)
    found = explain({"stories test_story[oauth-http]": "401"}, [cause], set())
    assert found.of == {"stories test_story[oauth-http]": cause}
    assert found.unexplained == ()


def test_a_loss_without_a_cause_is_named():
    assert explain({"sdk other": "?"}, read(ONE), set()).unexplained == ("sdk other",)


def test_a_pattern_that_fits_no_loss_is_named_if_its_set_ran_as_a_whole():
    lost = {"stories test_story[oauth-http]": "401"}
    assert explain(lost, read(ONE), {"stories", "sdk"}).stale == ("sdk tests/a.py::test_b[c]",)
    assert explain(lost, read(ONE), {"stories"}).stale == ()


def test_what_is_not_lost_in_every_run_need_not_be_lost():
    causes = read(ONE + "sometimes = true\n")
    assert explain({}, causes, {"stories", "sdk"}).stale == ()


def test_the_first_cause_that_fits_is_the_one():
    first, second = Cause("ours", "A.", ("sdk a*",)), Cause("theirs", "B.", ("sdk *",))
    assert explain({"sdk ab": ""}, [first, second], set()).of == {"sdk ab": first}


@pytest.mark.parametrize(
    ("old", "new"), [('"inherent"', '"unknown"'), ("A server that", "because a server that")]
)
def test_a_cause_of_no_kind_or_without_a_sentence_is_refused(old: str, new: str):
    with pytest.raises(CausesError):
        read(ONE.replace(old, new))
