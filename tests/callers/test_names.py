"""Names that a person cannot tell apart share a form; names that they can tell apart do not."""

import pytest

from toolyard.callers.names import CallerNameError, canonical_name, canonical_user
from toolyard.config.names import lookalikes


def alike(one: str, other: str) -> bool:
    return bool(set(lookalikes(one)) & set(lookalikes(other)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("research", "Research"),
        ("research", "ｒｅｓｅａｒｃｈ"),  # noqa: RUF001
        ("caf\u00e9", "cafe\u0301"),
        ("paypal", "раураl"),  # noqa: RUF001 (Cyrillic)
        ("alpha", "αlpha"),  # noqa: RUF001 (Greek)
        ("AI", "Al"),
        ("agent1", "agentl"),
        ("b0t", "bot"),
        ("modern", "modem"),
        ("STRASSE", "straße"),
    ],
)
def test_names_that_differ_by_case_form_or_look_are_alike(one: str, other: str):
    assert alike(one, other)


@pytest.mark.parametrize(("one", "other"), [("research", "reader"), ("agent1", "agent2"), ("मकान", "मकन")])
def test_names_that_look_different_are_not(one: str, other: str):
    assert not alike(one, other)


def test_a_name_is_kept_in_its_canonical_form():
    assert canonical_name("  ｂｏｔ ") == "bot"  # noqa: RUF001
    assert canonical_user("auth0|5f7c") == "auth0|5f7c"


@pytest.mark.parametrize("name", ["", " ", "a b", "a\u200bb", "a\u202eb", "a*", "a:b", "a/b", "x" * 101])
def test_a_name_with_blanks_signs_or_invisible_characters_is_refused(name: str):
    with pytest.raises(CallerNameError):
        canonical_name(name)


@pytest.mark.parametrize("user", ["", "a b", "a\u200bb", "a\nb", "x" * 201])
def test_a_user_with_blanks_or_invisible_characters_is_refused(user: str):
    with pytest.raises(CallerNameError):
        canonical_user(user)
