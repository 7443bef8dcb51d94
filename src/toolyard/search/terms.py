"""Turns text into the terms that lexical search compares: words of names, folded, stemmed, and translated.

One light stemmer serves English and Portuguese, because neither a name nor a query of three words says
which of the two it is. Words of other languages get English terms beside their own, so that each language
finds the other.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from ..wire.text import without_marks
from .wordlists import EITHER, ENGLISH, FUNCTION_WORDS, OTHER_STOP_WORDS, STOP_WORDS

T = TypeVar("T")

MAX_WORD = 40
_REMEMBERED = 100_000
"""The most words cached: they come from outside."""

_RUN = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Plurals: (ending, replacement). The endings ss, us and is are kept.
_PLURALS = (
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("coes", "cao"),
    ("soes", "sao"),
    ("xes", "x"),
    ("zes", "z"),
    ("ies", "y"),
    ("s", ""),
)
# Other endings: (ending, letters that must remain, replacement), the longest first.
_ENDINGS = (
    ("ization", 3, "iz"),
    ("isation", 3, "iz"),
    ("amento", 3, ""),
    ("imento", 3, ""),
    ("idade", 3, ""),
    ("ation", 3, ""),
    ("ating", 3, ""),
    ("mente", 3, ""),
    ("acao", 3, ""),
    ("ador", 3, ""),
    ("icao", 3, ""),
    ("ator", 3, ""),
    ("ated", 3, ""),
    ("ando", 3, ""),
    ("endo", 3, ""),
    ("indo", 3, ""),
    ("ment", 4, ""),
    ("ness", 3, ""),
    ("tion", 3, "t"),
    ("sion", 3, "s"),
    ("ate", 3, ""),
    ("ing", 3, ""),
    ("ada", 4, ""),
    ("ado", 4, ""),
    ("ida", 4, ""),
    ("ido", 4, ""),
    ("ed", 3, ""),
    ("ly", 4, ""),
    ("er", 4, ""),
    ("or", 4, ""),
    ("ar", 4, ""),
    ("ir", 4, ""),
)
_KEPT = frozenset(("news", "station"))
_KEPT_S = ("ss", "us", "is")

_words: dict[str, tuple[str, ...]] = {}
_terms: dict[str, tuple[str, ...]] = {}
_stems: dict[str, str] = {}


def words(text: str) -> list[str]:
    """Returns the words of a text or name without case or accents; splits `camelCase` and `snake_case`."""
    found: list[str] = []
    for run in _RUN.findall(text):
        found += _words.get(run) or _remembered(_words, run, _taken_apart(run))
    return found


def terms(text: str) -> list[str]:
    """Returns the stems of a text's words, without stop words."""
    found: list[str] = []
    for run in _RUN.findall(text):
        known = _terms.get(run)
        if known is None:
            kept = tuple(stem(word) for word in words(run) if word not in STOP_WORDS)
            known = _remembered(_terms, run, kept)
        found += known
    return found


def stem(word: str) -> str:
    return _stems.get(word) or _remembered(_stems, word, _stem(word))


def _remembered(memory: dict[str, T], key: str, value: T) -> T:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[key] = value
    return value


def _taken_apart(run: str) -> tuple[str, ...]:
    run = _CAMEL.sub(" ", run).casefold()
    return tuple(word[:MAX_WORD] for word in _RUN.findall(without_marks(run)))


def _stem(word: str) -> str:
    if not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    if word in _KEPT:
        return word
    # Twice, so that `filtering` and `filter` have the same stem.
    word = _plain_end(_cut(_plain_end(_cut(word))))
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" else word


def _plain_end(word: str) -> str:
    """Removes a doubled letter or an unstable vowel at the end."""
    if len(word) > 3 and word[-1] == word[-2] and (len(word) > 5 or word[-1] not in "lsz"):
        return word[:-1]
    if (word[-1] == "e" and len(word) > 3) or (word[-1] in "ao" and len(word) > 4):
        return word[:-1]
    return word


def _singular(word: str) -> str:
    if word in _KEPT or not word.endswith("s") or word.endswith(_KEPT_S) or len(word) < 3:
        return word
    ending, instead = next(pair for pair in _PLURALS if word.endswith(pair[0]))
    return word[: -len(ending)] + instead if len(word) - len(ending) >= 2 else word


def _cut(word: str) -> str:
    for ending, left, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= left:
            return word[: -len(ending)] + instead
    return word


RENDERINGS = (1.0, 0.8, 0.6, 0.4)
"""The weights of the first four English translations of a word."""
OWN = 0.6
"""The weight of the foreign word itself: `data` means date in Portuguese, and something else in English."""
LETTERS = {
    "pt": frozenset("ãõçáéíóúâêôàÃÕÇÁÉÍÓÚÂÊÔÀ"),
    "es": frozenset("ñ¿¡áéíóúÑÁÉÍÓÚ"),
    "fr": frozenset("éèêëàâîïôûùçœÉÈÊÀÂÎÔÛÇŒ"),
    "de": frozenset("äöüßÄÖÜ"),
}
LANGUAGES = tuple(LETTERS)
HINT = 0.4
"""The weight of an ambiguous word in detecting the language; a word of one language weighs 1."""
SURE = 0.5

_FOREIGN = frozenset[str]().union(*FUNCTION_WORDS.values())


class Translate(Protocol):
    def __call__(self, words: Sequence[str], language: str = "pt") -> list[list[str]]:
        """Return English renderings of each word of a language."""
        ...


def language_of_prose(said: Sequence[str]) -> str:
    """Detect the language of a longer text by its function words; empty for English."""
    english = sum(map(ENGLISH.__contains__, said))
    if sum(map(_FOREIGN.__contains__, said)) <= english:
        return ""
    score, language = max((_function_words(said, each), each) for each in LANGUAGES)
    return language if score > english else ""


def _function_words(said: Sequence[str], language: str) -> float:
    ambiguous = sum(map(EITHER[language].__contains__, said))
    return sum(map(FUNCTION_WORDS[language].__contains__, said)) + HINT * ambiguous


def language_of_query(text: str, said: Sequence[str], translate: Translate) -> str:
    """Detect a query's language; empty for English. Letters and known words count, since it may lack
    function words."""
    english = sum(map(ENGLISH.__contains__, said))
    best, found = SURE, ""
    for language in LANGUAGES:
        stop = stop_words(language)
        content = [word for word in said if word not in stop and not word.isdigit()]
        letters = 0 if text.isascii() else sum(map(LETTERS[language].__contains__, text))
        score = _function_words(said, language) + letters - english
        # Most requests are in English: their words need not be looked up, since no number of them is enough.
        if score + HINT * len(content) > best:
            known = sum(
                bool(renderings) and word not in renderings
                for word, renderings in zip(content, translate(content, language), strict=True)
            )
            score += HINT * (2 * known - len(content))
            if score > best:
                best, found = score, language
    return found


def stop_words(language: str) -> frozenset[str]:
    return _STOP_WORDS.get(language, STOP_WORDS)


_STOP_WORDS = {language: STOP_WORDS | more for language, more in OTHER_STOP_WORDS.items()}


def add_english(
    said: Sequence[str], bag: dict[str, float], translate: Translate, language: str
) -> dict[str, float]:
    """Adds English terms to a bag of another language; a translated term weighs less itself."""
    both = dict(bag)
    for word, found in zip(said, translate(said, language), strict=True):
        if found and word not in found:
            both[stem(word)] = OWN
    for term, weight in english_terms(said, translate, language):
        both[term] = max(both.get(term, 0.0), weight)
    return both


def english_terms(said: Sequence[str], translate: Translate, language: str) -> Iterator[tuple[str, float]]:
    """Yields the English terms for words of another language, with their weights."""
    stop = stop_words(language)
    for renderings in translate([word for word in said if word not in stop], language):
        for rendering, weight in zip(renderings, RENDERINGS, strict=False):
            for word in words(rendering):
                yield stem(word), weight
