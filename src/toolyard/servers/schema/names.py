"""Finding a name among those that are there: as it is written, or else what is like it.

A name that somebody sends is only ever compared. What goes on from here is one of the known names.
"""

import unicodedata
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

MOST = 5
_COMPARED = 120
"""Characters of a name that are looked at; no database has longer ones."""
_SIMILAR = 0.55

# Letters of other alphabets that look like ours, as they come in when somebody means to be clever.
_LOOK_ALIKES = str.maketrans(
    "аеіјорсухѕкмтвнԁгαβεικνορτυχωɑı",
    "aeijopcyxskmtbhdrabeikvoptuxwai",
)


def find(name: str, known: Collection[str]) -> str | None:
    """The name as it is known; in another case only where that is one and plain."""
    if name in known:
        return name
    # Beyond ASCII, what is the same letter in another case is not for us to say.
    if not name.isascii():
        return None
    same = [other for other in known if other.isascii() and other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def similar(name: str, known: Iterable[str], most: int = MOST) -> list[str]:
    """What might have been meant, the likeliest first; accents, case and look-alikes do not count."""
    wanted = _folded(name)
    if not wanted:
        return []
    scored = [(_likeness(wanted, _folded(other)), other) for other in known]
    best = sorted((-score, other) for score, other in scored if score >= _SIMILAR)
    return [other for _, other in best[:most]]


def contains(part: str, name: str) -> bool:
    """For completions: whether a name has this in it, accents and case ignored."""
    return _folded(part) in _folded(name)


def _folded(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name[:_COMPARED]).casefold().translate(_LOOK_ALIKES)
    letters = ("_" if not char.isalnum() else char for char in plain if not unicodedata.combining(char))
    return "_".join(part for part in "".join(letters).split("_") if part)


def _likeness(wanted: str, name: str) -> float:
    if not name:
        return 0.0
    if wanted == name:
        return 3.0
    short, long = sorted((wanted, name), key=len)
    if short in long and len(short) > 1:
        return 1.0 + len(short) / len(long)
    matcher = SequenceMatcher(None, wanted, name, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= _SIMILAR else 0.0
