"""Reads a query: its terms, its clauses, its Portuguese words in English, and whether it only reads.

A request for a whole task names several capabilities. Each clause is searched for by itself too, so
that the tool for one step does not drown in the words of the others.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from .documents import ToolQuery
from .terms import Translate, add_english, is_portuguese, stem, words
from .wordlists import ACTS, MAY_WRITE, QUESTIONS, READS, STOP_WORDS, SYNONYMS, WRITES

MAX_TEXT, MAX_SIDE = 2000, 500
"""Characters of a use case, and of the fields beside it, that are looked at."""
MAX_CLAUSES = 8
FEWEST_TERMS = 2
"""A clause of fewer terms belongs to the one before it."""
SIDE = 0.4
"""What a term of the known fields or the category weighs beside one of the use case."""
SYNONYM = 0.5
"""What a word that says the same weighs beside the one that was used."""
PARTICIPLES = ("ed", "ado", "ada", "ido", "ida", "ados", "adas", "idos", "idas")
"""What was changed already is not to be changed: files modified today."""
TERSE = 6
"""Words. What is longer has a verb, whether we know it or not."""
READS_WITHOUT_VERB = 0.3
"""How far a request without any verb that we know is taken for a question."""

Bag = dict[str, float]

_CUT = re.compile(
    r"[.!?;:\n]+(?:\s|$)|,\s+|\s+(?:and|then|also|additionally|plus|e|depois|tambem|também)\s+", re.IGNORECASE
)
_WRITES = frozenset(map(stem, WRITES))
_SYNONYMS = {stem(word): tuple(map(stem, others)) for word, others in SYNONYMS.items()}


class QueryIntent(Struct, frozen=True):
    texts: tuple[str, ...]
    """The whole request, then its clauses if there are several."""
    bags: tuple[Bag, ...]
    """Of each of these, the terms and what they weigh."""
    stems: frozenset[str]
    """Of the whole, every word."""
    reads: float
    """How far it wants to know something and to change nothing, from 0 to 1."""
    has_verb: bool
    """Whether it has a word that says what is wanted, and not only of what."""


def read_intent(query: ToolQuery, translate: Translate) -> QueryIntent:
    text = query.use_case[:MAX_TEXT]
    parts = clauses(text)
    category = query.category[:MAX_SIDE]
    side = f"{query.known_fields[:MAX_SIDE]} {category}"
    said = words(text)
    foreign = is_portuguese(text, said, translate)
    bags = [bag_of_terms(part, translate, foreign) for part in (text, *parts)]
    for term, weight in bag_of_terms(side, translate, foreign).items():
        bags[0][term] = max(bags[0].get(term, 0.0), weight * SIDE)
    reads = _reads([words(part) for part in parts] or [said])
    return QueryIntent(
        texts=(f"{text} {category}".strip(), *parts),
        bags=tuple(bags),
        stems=frozenset(map(stem, said)),
        reads=READS_WITHOUT_VERB if reads is None else reads,
        has_verb=reads is not None or len(said) > TERSE,
    )


def _reads(clauses: Sequence[Sequence[str]]) -> float | None:
    """How far a request reads: a clause that does something decides. None when no word says."""
    each = [reads for said in clauses if (reads := _reads_clause(said)) is not None]
    return min(each, default=None)


def _reads_clause(said: Sequence[str]) -> float | None:
    """A word that changes things decides, but in a question only one that stands for what is to be done
    ("is there a way to delete a branch"); of words that may be things (a post, a set, a list) the first."""
    if said and said[0] in QUESTIONS:
        return float(WRITES.isdisjoint(said) or "did" in said)
    wanted = [word for word in said if not word.endswith(PARTICIPLES)]
    if any(stem(word) in _WRITES for word in wanted):
        return 0.0
    first = next((word for word in wanted if word in READS or word in MAY_WRITE or word in ACTS), None)
    return None if first is None else float(first in READS)


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


def bag_of_terms(text: str, translate: Translate, foreign: bool) -> Bag:
    said = [word for word in dict.fromkeys(words(text)) if word not in STOP_WORDS]
    found = {stem(word): 1.0 for word in said}
    if foreign:
        found = add_english(said, found, translate)
    for term, weight in list(found.items()):
        for other in _SYNONYMS.get(term, ()):
            found[other] = max(found.get(other, 0.0), weight * SYNONYM)
    return found
