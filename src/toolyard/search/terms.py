"""From text to the terms that lexical search compares: words taken out of names, folded, and stemmed.

One light stemmer serves English and Portuguese, because neither a name nor a query of three words says which
of the two it is. It cuts endings that both have or that the other does not know; what it makes is compared,
never shown.
"""

import re
import unicodedata

from .wordlists import STOP_WORDS

MAX_WORD = 40
_REMEMBERED = 100_000
"""Words come from outside: what is remembered of them stays bounded."""

_RUN = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# (ending, letters that must be left, what takes its place), the longest ending first.
_ENDINGS = (
    ("ational", 3, "at"),
    ("ization", 3, "iz"),
    ("isation", 3, "iz"),
    ("idades", 3, ""),
    ("amento", 3, ""),
    ("imento", 3, ""),
    ("adores", 3, ""),
    ("idade", 3, ""),
    ("acoes", 3, ""),
    ("ation", 3, ""),
    ("ating", 3, ""),
    ("ators", 3, ""),
    ("mente", 3, ""),
    ("ments", 3, ""),
    ("acao", 3, ""),
    ("ador", 3, ""),
    ("icao", 3, ""),
    ("ator", 3, ""),
    ("ated", 3, ""),
    ("ates", 3, ""),
    ("ando", 3, ""),
    ("endo", 3, ""),
    ("indo", 3, ""),
    ("adas", 3, ""),
    ("ados", 3, ""),
    ("idas", 4, ""),
    ("idos", 4, ""),
    ("ment", 4, ""),
    ("ness", 3, ""),
    ("ings", 3, ""),
    ("ate", 4, ""),
    ("ies", 2, "y"),
    ("ing", 3, ""),
    ("ada", 4, ""),
    ("ado", 4, ""),
    ("ers", 3, ""),
    ("ors", 4, ""),
    ("ed", 3, ""),
    ("es", 3, ""),
    ("ly", 3, ""),
    ("er", 4, ""),
    ("or", 4, ""),
    ("ar", 4, ""),
    ("ir", 4, ""),
    ("s", 2, ""),
)
_KEPT = frozenset(("news",))
_KEPT_S = ("ss", "us", "is")

_apart: dict[str, tuple[str, ...]] = {}
_stems: dict[str, str] = {}


def words(text: str) -> list[str]:
    """The words of a text or name, without case or accents; `camelCase` and `snake_case` taken apart."""
    found: list[str] = []
    for run in _RUN.findall(text):
        apart = _apart.get(run)
        if apart is None:
            if len(_apart) >= _REMEMBERED:
                _apart.clear()
            apart = _apart[run] = _taken_apart(run)
        found += apart
    return found


def stem(word: str) -> str:
    known = _stems.get(word)
    if known is None:
        if len(_stems) >= _REMEMBERED:
            _stems.clear()
        known = _stems[word] = _stem(word)
    return known


def terms(text: str) -> list[str]:
    """The stems of a text's words, without those that say nothing."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def _taken_apart(run: str) -> tuple[str, ...]:
    run = _CAMEL.sub(" ", run).lower()
    if not run.isascii():
        run = "".join(c for c in unicodedata.normalize("NFKD", run) if not unicodedata.combining(c))
    return tuple(word[:MAX_WORD] for word in _RUN.findall(run))


def _stem(word: str) -> str:
    if len(word) < 3 or word in _KEPT or not word.isascii() or not word.isalpha():
        return word
    for ending, left, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= left:
            if ending == "s" and word.endswith(_KEPT_S):
                break
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    if len(word) > 3 and word[-1] in "aeo":
        word = word[:-1]
    if len(word) > 3 and word.endswith("y"):
        word = word[:-1] + "i"
    return word
