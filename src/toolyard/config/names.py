"""Names that nobody may mistake: which a server may have, and which names look alike.

A server's name stands in the names of its tools, in rules, and in front of what it says to people. So it has
plain letters only, and no two servers have names that look alike or lead to the same beginning of names.
"""

import re
import unicodedata
from collections.abc import Iterable

from .errors import ConfigError, ConfigValueError

MAX_SERVER_NAME = 64
MAX_PREFIX = 20
"""Characters of a server's name before a tool's that would be too long with all of it."""
_FIT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]| (?! ))*(?<![ ._-])")
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]+")
FORM = (
    "a server's name has letters a to z, digits and . _ - and single blanks between them;"
    f" it begins and ends with a letter or a digit, and has {MAX_SERVER_NAME} characters at most"
)


def check_server_name(name: str) -> None:
    if not name.strip():
        raise ConfigValueError("has no name")
    if len(name) > MAX_SERVER_NAME or not _FIT.fullmatch(name):
        raise ConfigValueError(f"cannot have the name {name[:80]!a}", FORM)


def fitting_server_name(name: str) -> str:
    """A name like this one that a server may have, and that stands in the names of its tools as it is."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return slug(plain)[:MAX_SERVER_NAME].rstrip("_-")


class ServerNames:
    """The names of the servers of one gateway."""

    def __init__(self) -> None:
        self._looks: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}

    def claim(self, name: str) -> None:
        """Take a name. Raises ConfigValueError if another server's is too much like it."""
        looks, prefix = {*lookalikes(name), *lookalikes(slug(name))}, lookalikes(cut_prefix(name))[0]
        taken = [self._looks.get(look) for look in (*looks, prefix)]
        taken += [self._prefixes.get(look) for look in looks]
        other = next((one for one in taken if one is not None and one != name), None)
        if other is not None:
            raise ConfigValueError(
                f"has the name {name!a}, which people or clients could take for {other!a}",
                "rename one of them: the names of its tools begin with a server's name",
            )
        self._looks |= dict.fromkeys(looks, name)
        self._prefixes.setdefault(prefix, name)


def check_server_names(names: Iterable[str]) -> None:
    """Check the names of a configuration that was not read from a file."""
    known = ServerNames()
    for name in names:
        try:
            check_server_name(name)
            known.claim(name)
        except ConfigValueError as error:
            raise ConfigError(f"a server {error.message}", error.hint) from None


def slug(text: str) -> str:
    """The text as it stands in the name of a tool."""
    return re.sub(r"__+", "_", _UNFIT.sub("_", text)).strip("_-") or "x"


def cut_prefix(server: str) -> str:
    return slug(server)[:MAX_PREFIX].rstrip("_-")


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
