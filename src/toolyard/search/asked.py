"""What a query asks for: its terms, its clauses, its Portuguese words in English, and whether it only reads.

A request for a whole task names several capabilities. Each clause is looked for by itself too, so that the
tool for one step is not drowned by the words of the others.
"""

import re

from msgspec import Struct

from .documents import Query
from .language import Translate, asks_in_portuguese, in_english
from .terms import stem, words
from .wordlists import READS, STOP_WORDS, WRITES

MAX_TEXT = 4000
"""Characters of a query that are looked at."""
MAX_CLAUSES = 8
FEWEST_TERMS = 2
"""A clause of fewer terms belongs to the one before it."""
SIDE = 0.4
"""What a term of the known fields or the category weighs beside one of the use case."""

Bag = dict[str, float]

_CUT = re.compile(
    r"[.!?;:\n]+(?:\s|$)|,\s+|\s+(?:and|then|also|additionally|plus|e|depois|tambem|também)\s+", re.IGNORECASE
)
_READS = frozenset(map(stem, READS))
_WRITES = frozenset(map(stem, WRITES))


class Asked(Struct, frozen=True):
    texts: tuple[str, ...]
    """The whole request, then its clauses if there are several."""
    bags: tuple[Bag, ...]
    """Of each of these, the terms and what they weigh."""
    stems: frozenset[str]
    """Of the whole, every word."""
    reads: bool
    """It wants to know something and to change nothing."""


def understood(query: Query, translate: Translate) -> Asked:
    text = query.use_case[:MAX_TEXT]
    parts = clauses(text)
    side = f"{query.known_fields[:MAX_TEXT]} {query.category[:MAX_TEXT]}"
    foreign = asks_in_portuguese(text, words(text), translate)
    bags = [bag(part, translate, foreign) for part in (text, *parts)]
    for term, weight in bag(side, translate, foreign).items():
        bags[0][term] = max(bags[0].get(term, 0.0), weight * SIDE)
    stems = frozenset(map(stem, words(text)))
    return Asked(
        texts=(f"{text} {query.category[:MAX_TEXT]}".strip(), *parts),
        bags=tuple(bags),
        stems=stems,
        reads=bool(stems & _READS) and not stems & _WRITES,
    )


def clauses(text: str) -> list[str]:
    """The parts of a request that ask for something of their own; none when there is only one."""
    parts: list[str] = []
    short = False
    for part in _CUT.split(text):
        if not part or part.isspace():
            continue
        few = len({word for word in words(part) if word not in STOP_WORDS}) < FEWEST_TERMS
        if parts and (few or short):
            parts[-1] = f"{parts[-1]} {part}"
        else:
            parts.append(part)
            short = few
            continue
        short = False
    return parts[:MAX_CLAUSES] if len(parts) > 1 else []


def bag(text: str, translate: Translate, foreign: bool) -> Bag:
    said = [word for word in dict.fromkeys(words(text)) if word not in STOP_WORDS]
    found = {stem(word): 1.0 for word in said}
    return in_english(said, found, translate) if foreign else found
