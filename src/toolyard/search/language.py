"""Portuguese among English: telling which a text is, and what its words are in the other.

English is the common ground: a Portuguese query is looked for in English too, and a Portuguese tool can be
found by English words, because both are rendered into English terms beside their own.
"""

from collections.abc import Callable, Iterator, Sequence

from .terms import stem, words
from .wordlists import EITHER, ENGLISH, PORTUGUESE, STOP_WORDS

RENDERINGS = (1.0, 0.8, 0.6, 0.4)
"""What the first, second, third and fourth English renderings of a word weigh."""
OWN = 0.6
"""What the Portuguese word itself weighs beside them: `data` is a date, and something else in English."""
ACCENTED = frozenset("ãõçáéíóúâêôàÃÕÇÁÉÍÓÚÂÊÔÀ")
HINT = 0.4
"""What a word that may be Portuguese, or has no rendering, says beside one that is of one language only."""
SURE = 0.5

Translate = Callable[[Sequence[str]], list[list[str]]]


def small_words(said: Sequence[str]) -> float:
    """Above 0 Portuguese, below English, by the small words of a text."""
    portuguese = sum(map(PORTUGUESE.__contains__, said)) + HINT * sum(map(EITHER.__contains__, said))
    return portuguese - sum(map(ENGLISH.__contains__, said))


def asks_in_portuguese(text: str, said: Sequence[str], translate: Translate) -> bool:
    """Of a query, which may be too short for small words: accents and known words count too."""
    content = [word for word in said if word not in STOP_WORDS and not word.isdigit()]
    known = sum(
        bool(found) and word not in found for word, found in zip(content, translate(content), strict=True)
    )
    accents = sum(map(ACCENTED.__contains__, text))
    return small_words(said) + accents + HINT * (2 * known - len(content)) > SURE


def in_english(said: Sequence[str], bag: dict[str, float], translate: Translate) -> dict[str, float]:
    """A Portuguese bag of terms with its English ones; a term that has those is less sure itself."""
    both = dict(bag)
    for word, found in zip(said, translate(said), strict=True):
        if found and word not in found:
            both[stem(word)] = OWN
    for term, weight in rendered(said, translate):
        both[term] = max(both.get(term, 0.0), weight)
    return both


def rendered(said: Sequence[str], translate: Translate) -> Iterator[tuple[str, float]]:
    """The English terms for Portuguese words, and what each weighs."""
    for renderings in translate([word for word in said if word not in STOP_WORDS]):
        for rendering, weight in zip(renderings, RENDERINGS, strict=False):
            for word in words(rendering):
                yield stem(word), weight
