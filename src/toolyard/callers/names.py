"""Names of agents, tenants, groups, users and keys: their canonical form.

Data, rights and limits belong to names, so two names that a person cannot tell apart must not both exist.
Owns no list of names: who keeps one compares by `config.names.lookalikes`.
"""

import unicodedata

from ..wire.text import normalized

MAX_NAME = 100
MAX_USER = 200
_MARKS = frozenset("._@+-")


class CallerNameError(ValueError):
    """The message quotes the name and says what it may have."""


def canonical_name(name: str, what: str = "name") -> str:
    """The form in which a name is kept: NFKC. Letters, digits and `. _ @ + -` only."""
    text = normalized("NFKC", name.strip())
    if not text or len(text) > MAX_NAME:
        raise CallerNameError(f"a {what} has 1 to {MAX_NAME} characters, not {len(text)}")
    for character in text:
        if character not in _MARKS and unicodedata.category(character)[0] not in "LNM":
            raise CallerNameError(
                f"the {what} {text[:MAX_NAME]!a} has {character!a}; use letters, digits and . _ @ + -"
            )
    return text


def canonical_user(user: str) -> str:
    """Users are named by others, as in `auth0|5f7c` and `anna@example.com`: anything but blanks."""
    text = normalized("NFKC", user.strip())
    if not text or len(text) > MAX_USER:
        raise CallerNameError(f"a user has 1 to {MAX_USER} characters, not {len(text)}")
    if not text.isprintable() or any(character.isspace() for character in text):
        raise CallerNameError(f"the user {text[:MAX_NAME]!a} has blanks or invisible characters")
    return text
