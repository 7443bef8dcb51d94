"""What a query asks for: its terms, its clauses, its Portuguese words in English, and whether it only reads.

A request for a whole task names several capabilities. Each clause is looked for by itself too, so that the
tool for one step is not drowned by the words of the others.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from .documents import Query
from .language import Translate, asks_in_portuguese, in_english
from .terms import stem, words
from .wordlists import MAY_WRITE, READS, STOP_WORDS, WRITES

MAX_TEXT, MAX_SIDE = 2000, 500
"""Characters of a use case, and of the fields beside it, that are looked at."""
MAX_CLAUSES = 8
FEWEST_TERMS = 2
"""A clause of fewer terms belongs to the one before it."""
SIDE = 0.4
"""What a term of the known fields or the category weighs beside one of the use case."""
UNSAID = 0.3
"""How far a request without any verb that we know is taken for a question."""

Bag = dict[str, float]

_CUT = re.compile(
    r"[.!?;:\n]+(?:\s|$)|,\s+|\s+(?:and|then|also|additionally|plus|e|depois|tambem|também)\s+", re.IGNORECASE
)
_READS = frozenset(map(stem, READS))
_WRITES = frozenset(map(stem, WRITES))
_MAY_WRITE = frozenset(map(stem, MAY_WRITE))


class Asked(Struct, frozen=True):
    texts: tuple[str, ...]
    """The whole request, then its clauses if there are several."""
    bags: tuple[Bag, ...]
    """Of each of these, the terms and what they weigh."""
    stems: frozenset[str]
    """Of the whole, every word."""
    reads: float
    """How far it wants to know something and to change nothing, from 0 to 1."""


def understood(query: Query, translate: Translate) -> Asked:
    text = query.use_case[:MAX_TEXT]
    parts = clauses(text)
    category = query.category[:MAX_SIDE]
    side = f"{query.known_fields[:MAX_SIDE]} {category}"
    said = words(text)
    foreign = asks_in_portuguese(text, said, translate)
    bags = [bag(part, translate, foreign) for part in (text, *parts)]
    for term, weight in bag(side, translate, foreign).items():
        bags[0][term] = max(bags[0].get(term, 0.0), weight * SIDE)
    stems = list(map(stem, said))
    return Asked(
        texts=(f"{text} {category}".strip(), *parts),
        bags=tuple(bags),
        stems=frozenset(stems),
        reads=_reads(stems),
    )


def _reads(stems: Sequence[str]) -> float:
    """A word that changes things decides; one that may be a thing (a post, a set) only when it leads."""
    if not _WRITES.isdisjoint(stems):
        return 0.0
    first = next((term for term in stems if term in _READS or term in _MAY_WRITE), None)
    return UNSAID if first is None else float(first in _READS)


def clauses(text: str) -> list[str]:
    """The parts of a request that ask for something of their own; none when there is only one."""
    parts: list[str] = []
    for part in _CUT.split(text):
        if parts and (_is_short(part) or _is_short(parts[-1])):
            parts[-1] = f"{parts[-1]} {part}"
        else:
            parts.append(part)
    return parts[:MAX_CLAUSES] if len(parts) > 1 else []


def _is_short(part: str) -> bool:
    return len({word for word in words(part) if word not in STOP_WORDS}) < FEWEST_TERMS


def bag(text: str, translate: Translate, foreign: bool) -> Bag:
    said = [word for word in dict.fromkeys(words(text)) if word not in STOP_WORDS]
    found = {stem(word): 1.0 for word in said}
    return in_english(said, found, translate) if foreign else found
