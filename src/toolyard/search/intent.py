"""Reads a query: its terms, its clauses, its words in English, what it wants done and what it does not.

A request for a whole task names several capabilities. Each clause is searched for by itself too, so
that the tool for one step does not drown in the words of the others.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from .acts import acts_of_request
from .documents import ToolQuery
from .literals import has_identifier, named, values
from .terms import Translate, add_english, language_of_query, stem, stop_words, words
from .wordlists import (
    ACTS,
    ARTICLES,
    LIGHT,
    MAY_WRITE,
    PLACE_WORDS,
    PLURAL_SYNONYMS,
    QUESTIONS,
    READS,
    STOP_WORDS,
    SYNONYMS,
    WRITES,
)

MAX_TEXT, MAX_SIDE = 2000, 500
"""The characters read of a use case, and of the other fields."""
MAX_CLAUSES = 8
FEWEST_TERMS = 2
"""A clause of fewer terms belongs to the one before it."""
SIDE = 0.4
"""The weight of a term of the known fields or the category; terms of the use case weigh 1."""
SYNONYM = 0.6
"""The weight of a synonym of a word in the query."""
VALUE = 0.4
"""The weight of a word in quotes, or of the name of a host."""
WHERE = 0.6
LIGHT_WEIGHT = 0.7
"""The weight of a word that tells little of what is wanted."""
PARTICIPLES = ("ed", "ado", "ada", "ido", "ida", "ados", "adas", "idos", "idas")
"""Endings of words such as `modified` in "files modified today", which ask for no change."""
TERSE = 6
"""Words; a longer request surely has a verb, even if we do not know it."""
READS_WITHOUT_VERB = 0.3
"""How far a request without a known verb counts as a question."""

RENDERED = 1
"""Renderings of a word that are embedded in its place."""
EMBEDDED = "pt"
"""The language that the embedding knows beside English."""

Bag = dict[str, float]

_CUT = re.compile(
    r"[.!?;:\n]+(?:\s|$)|,\s+|\s{1,20}(?:and|then|also|additionally|plus|e|depois|tambem|também)\s+",
    re.IGNORECASE,
)
_WRITES = frozenset(map(stem, WRITES))
_LIGHT = frozenset(map(stem, LIGHT))
_SYNONYMS = {stem(word): tuple(map(stem, others)) for word, others in SYNONYMS.items()}


class QueryIntent(Struct, frozen=True):
    texts: tuple[str, ...]
    """The whole request, then its clauses if there are several."""
    bags: tuple[Bag, ...]
    """The terms of each text, and their weights."""
    stems: frozenset[str]
    """The stems of all words of the request."""
    reads: float
    """How far it asks for information and not for a change, from 0 to 1."""
    wanted: int
    """What it wants done, as bits of `acts`; 0 if no word tells."""
    avoided: int
    """What it says not to do."""
    has_id: bool
    """Whether it has a value that may identify something: a number, a key, a link."""
    has_verb: bool
    """Whether it names an action, and not only a thing."""


def read_intent(query: ToolQuery, translate: Translate) -> QueryIntent:
    written = query.use_case[:MAX_TEXT]
    language = language_of_query(written, words(written), translate)
    text = named(written)
    parts = clauses(text)
    category = query.category[:MAX_SIDE]
    side = f"{query.known_fields[:MAX_SIDE]} {category}"
    said = words(text)
    bags = [bag_of_terms(part, translate, language) for part in (text, *parts)]
    light = frozenset(map(stem, words(" ".join(values(written)))))
    for bag in bags if light else ():
        bag.update({term: weight * VALUE for term, weight in bag.items() if term in light})
    bags[0].update({term: VALUE for term in light if term not in bags[0]})
    for term, weight in bag_of_terms(side, translate, language).items():
        bags[0][term] = max(bags[0].get(term, 0.0), weight * SIDE)
    pieces = [words(part) for part in parts] or [words(text)]
    acts = acts_of_request(_renderings(piece, translate, language) for piece in pieces)
    if acts.unsaid:
        refused = {stem(word) for word in acts.unsaid}
        bags = [{term: weight for term, weight in bag.items() if term not in refused} for bag in bags]
    reads = _reads(pieces)
    texts = [f"{text} {category}".strip(), *parts]
    if language and language != EMBEDDED:
        texts = [in_english(each, translate, language) for each in texts]
    return QueryIntent(
        texts=tuple(texts),
        bags=tuple(bags),
        stems=frozenset(map(stem, said)),
        reads=READS_WITHOUT_VERB if reads is None else reads,
        wanted=acts.wanted,
        avoided=acts.avoided,
        has_id=has_identifier(written),
        has_verb=reads is not None or len(said) > TERSE,
    )


def _reads(clauses: Sequence[Sequence[str]]) -> float | None:
    """Returns how far a request only reads; a clause that writes decides. None if no word tells."""
    each = [reads for said in clauses if (reads := _reads_clause(said)) is not None]
    return min(each, default=None)


def _reads_clause(said: Sequence[str]) -> float | None:
    """A verb that writes decides; in a question only one that names the wanted action ("is there a way to
    delete a branch"). Of words that may also be nouns (post, set, list), the first decides."""
    if said and said[0] in QUESTIONS:
        return float(WRITES.isdisjoint(said) or "did" in said)
    wanted = [word for word in said if not word.endswith(PARTICIPLES)]
    if any(stem(word) in _WRITES for word in wanted):
        return 0.0
    first = next((word for word in wanted if word in READS or word in MAY_WRITE or word in ACTS), None)
    return None if first is None else float(first in READS)


def clauses(text: str) -> list[str]:
    """Splits a request into the parts that ask for separate things; empty if there is only one."""
    parts: list[str] = []
    for part in _CUT.split(text):
        if parts and (_is_short(part) or _is_short(parts[-1])):
            parts[-1] = f"{parts[-1]} {part}"
        else:
            parts.append(part)
    return parts[:MAX_CLAUSES] if len(parts) > 1 else []


def _is_short(part: str) -> bool:
    return len({word for word in words(part) if word not in STOP_WORDS}) < FEWEST_TERMS


def _places(said: Sequence[str]) -> set[str]:
    """Return the words that only say where: the noun phrase behind a preposition of place."""
    found: set[str] = set()
    for at in range(1, len(said) - 2):
        if said[at] in PLACE_WORDS and said[at + 1] in ARTICLES and said[at + 2] not in STOP_WORDS:
            found.add(said[at + 2])
    return found


def _renderings(said: Sequence[str], translate: Translate, language: str) -> list[list[str]]:
    """Return for each word the ways to say it in English, the word itself last."""
    if not language:
        return [[word] for word in said]
    found = translate(said, language)
    return [[*" ".join(each).split(), word] for word, each in zip(said, found, strict=True)]


def in_english(text: str, translate: Translate, language: str) -> str:
    """Return a text word for word in English, as far as its words are known, without its function words."""
    stop = stop_words(language)
    said = [word for word in words(text) if word not in stop]
    return " ".join(
        " ".join(found[:RENDERED]) or word
        for word, found in zip(said, translate(said, language), strict=True)
    )


def bag_of_terms(text: str, translate: Translate, language: str) -> Bag:
    every = words(text)
    said = [word for word in dict.fromkeys(every) if word not in stop_words(language)]
    where = _places(every)
    found = {stem(word): WHERE if word in where else 1.0 for word in said}
    if language:
        found = add_english(said, found, translate, language)
    for word in PLURAL_SYNONYMS.keys() & set(said):
        found.update(dict.fromkeys(map(stem, PLURAL_SYNONYMS[word]), SYNONYM))
    for term in found.keys() & _LIGHT:
        found[term] *= LIGHT_WEIGHT
    for term, weight in list(found.items()):
        for other in _SYNONYMS.get(term, ()):
            found[other] = max(found.get(other, 0.0), weight * SYNONYM)
    return found
