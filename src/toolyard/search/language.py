"""Portuguese among English: telling which a text is, and what its words are in the other.

English is the common ground: a Portuguese query is looked for in English too, and a Portuguese tool can be
found by English words, because both are rendered into English terms beside their own.
"""

from collections.abc import Callable, Iterator, Sequence

from .terms import stem, words
from .wordlists import ENGLISH, PORTUGUESE, STOP_WORDS

RENDERINGS = (1.0, 0.6, 0.4)
"""What the first, second and third English renderings of a word weigh."""

Translate = Callable[[Sequence[str]], list[list[str]]]


def is_portuguese(said: Sequence[str]) -> bool:
    """By its small words; a text without any is taken for English."""
    return sum(word in PORTUGUESE for word in said) > sum(word in ENGLISH for word in said)


def rendered(said: Sequence[str], translate: Translate) -> Iterator[tuple[str, float]]:
    """The English terms for Portuguese words, and what each weighs."""
    for renderings in translate([word for word in said if word not in STOP_WORDS]):
        for rendering, weight in zip(renderings, RENDERINGS, strict=False):
            for word in words(rendering):
                yield stem(word), weight
