"""Names of agents, tenants, groups, users and keys: their canonical form, and which of them look alike.

Data, rights and limits belong to names, so two names that a person cannot tell apart must not both exist.
Owns no list of names: who keeps one compares by `lookalikes`.
"""

import unicodedata

MAX_NAME = 100
MAX_USER = 200
_MARKS = frozenset("._@+-")


class CallerNameError(ValueError):
    """The message quotes the name and says what it may have."""


def canonical_name(name: str, what: str = "name") -> str:
    """The form in which a name is kept: NFKC. Letters, digits and `. _ @ + -` only."""
    text = unicodedata.normalize("NFKC", name.strip())
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
    text = unicodedata.normalize("NFKC", user.strip())
    if not text or len(text) > MAX_USER:
        raise CallerNameError(f"a user has 1 to {MAX_USER} characters, not {len(text)}")
    if not text.isprintable() or any(character.isspace() for character in text):
        raise CallerNameError(f"the user {text[:MAX_NAME]!a} has blanks or invisible characters")
    return text


def lookalikes(name: str) -> tuple[str, str]:
    """Two names that share either text differ only by case, by Unicode form or by look."""
    text = unicodedata.normalize("NFKC", name)
    return unicodedata.normalize("NFKC", text.casefold()), _look(text)


def _look(text: str) -> str:
    """As it looks in most typefaces, whatever the letters are."""
    plain = text.translate(_CAPITALS).casefold().translate(_LETTERS)
    # Accents are easily overlooked. Marks of other scripts make words, so they stay.
    bare = "".join(each for each in unicodedata.normalize("NFD", plain) if not "\u0300" <= each <= "\u036f")
    return bare.replace("rn", "m").replace("vv", "w")


# Letters of other scripts that look like Latin ones, in either case.
_CAPITALS = str.maketrans("I1|0ΙІӀΥΗ", "lllolllyh")  # noqa: RUF001 (that is the point of them)
_CYRILLIC = ("авекмнорстухѕіјһԁԛԝьӏүґ", "abekmhopctyxsijhdqwblyr")
_GREEK = ("αβεζηικνορτυχγωϲϳ", "abeznikvoptuxywcj")
_ARMENIAN = ("օոսհցզ", "onuhgq")  # noqa: RUF001
_LATIN = ("ıɑɡɩʟᴏᴄᴠᴡᴢſ", "iagilocvwzs")
_LETTERS = {
    ord(letter): like
    for letters, likes in (_CYRILLIC, _GREEK, _ARMENIAN, _LATIN)
    for letter, like in zip(letters, likes, strict=True)
}
