"""The lexical side: which documents hold a query's terms, in which fields, and how rare those terms are.

BM25 over weighted fields. Lengths are measured against fixed ones instead of the averages of the day, so what
a term weighs in a document depends on that document alone: adding a server touches no other's postings, and
an index grown step by step equals one built at once. Only a term's rarity is counted when it is asked for.

Postings lie in flat arrays, sorted by term; what was put or removed since is merged in on the next look.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .documents import Document
from .language import Translate, is_portuguese, rendered
from .terms import stem, words
from .wordlists import STOP_WORDS

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


class Field(Struct, frozen=True):
    weight: float
    length: float
    """What counts as neither short nor long, in terms."""
    norm: float
    """How much length matters, from 0 (nothing) to 1."""


SERVER = Field(2.0, 1.5, 0.3)
NAME = Field(3.0, 3.0, 0.3)
TITLE = Field(2.0, 3.0, 0.3)
DESCRIPTION = Field(1.0, 20.0, 0.6)
PARAMETER = Field(0.7, 8.0, 0.7)
PARAMETER_TEXT = Field(0.4, 30.0, 0.7)
SATURATION = 1.2
"""BM25's k1: how soon one more occurrence of a term says nothing new."""


def weights_of(document: Document, translate: Translate) -> dict[str, float]:
    """What each term weighs in a document, from 0 to 1; a Portuguese one has English terms too."""
    found: defaultdict[str, float] = defaultdict(float)
    fields = [(field, words(text)) for field, text in _fields(document) if text]
    foreign = is_portuguese([word for _, said in fields for word in said])
    for field, said in fields:
        counted = [stem(word) for word in said if word not in STOP_WORDS]
        each = field.weight / (1 - field.norm + field.norm * len(counted) / field.length)
        for term in counted:
            found[term] += each
        for term, weight in rendered(said, translate) if foreign else ():
            found[term] += each * weight
    return {term: amount / (amount + SATURATION) for term, amount in found.items()}


def _fields(document: Document) -> tuple[tuple[Field, str], ...]:
    return (
        (SERVER, document.server),
        (NAME, document.name),
        (TITLE, document.title),
        (DESCRIPTION, document.description),
        (PARAMETER, " ".join(name for name, _ in document.parameters)),
        (PARAMETER_TEXT, " ".join(text for _, text in document.parameters)),
    )


class Postings(Struct):
    """Term number n has the entries from `starts[n]` to `starts[n + 1]`."""

    words: dict[str, int]
    starts: Ints
    slots: Ints
    weights: Floats


class Lexical:
    def __init__(self, kept: Postings | None = None) -> None:
        none = np.zeros(0, np.int32)
        self._kept = kept or Postings({}, np.zeros(1, np.int32), none, none.astype(np.float32))
        self._new: dict[int, dict[str, float]] = {}
        self._gone: set[int] = set()

    def put(self, slot: int, weights: dict[str, float]) -> None:
        """Take what a document's terms weigh into an empty slot."""
        self._new[slot] = weights

    def remove(self, slot: int) -> None:
        if self._new.pop(slot, None) is None:
            self._gone.add(slot)

    def scores(self, asked: Sequence[Mapping[str, float]], size: int, count: int) -> tuple[Floats, Floats]:
        """For each of some weighted bags of terms: what every slot scores, and the most that could be scored.

        `size` is the number of slots, `count` how many of them are taken.
        """
        kept = self.settled()
        found = np.zeros((len(asked), size), np.float32)
        most = np.zeros(len(asked), np.float32)
        for row, bag in enumerate(asked):
            for term, weight in bag.items():
                at = kept.words.get(term)
                start, end = (0, 0) if at is None else (kept.starts[at], kept.starts[at + 1])
                rarity = weight * _rarity(int(end - start), count)
                most[row] += rarity
                if end > start:
                    found[row, kept.slots[start:end]] += kept.weights[start:end] * np.float32(rarity)
        return found, most

    def settled(self) -> Postings:
        """The postings with everything merged in."""
        if self._gone:
            self._kept = _without(self._kept, self._gone)
            self._gone = set()
        if self._new:
            self._kept = _with(self._kept, self._new)
            self._new = {}
        return self._kept


def _rarity(documents: int, count: int) -> float:
    return math.log1p((count - documents + 0.5) / (documents + 0.5))


def _without(kept: Postings, gone: set[int]) -> Postings:
    left = ~np.isin(kept.slots, np.fromiter(gone, np.int32, len(gone)))
    before = np.concatenate(([0], np.cumsum(left, dtype=np.int32)))
    starts = before[kept.starts]
    used = np.diff(starts) > 0
    words = kept.words
    if 2 * np.count_nonzero(used) < len(words):
        # A server whose words change all the time must not fill the memory with them.
        words = {word: number for number, word in enumerate(compress(words, used))}
        starts = np.concatenate(([0], starts[1:][used]))
    return Postings(words, starts.astype(np.int32), kept.slots[left], kept.weights[left])


def _with(kept: Postings, new: Mapping[int, Mapping[str, float]]) -> Postings:
    words = kept.words
    ids = np.fromiter((words.setdefault(term, len(words)) for bag in new.values() for term in bag), np.int32)
    slots = np.repeat(np.fromiter(new, np.int32), [len(bag) for bag in new.values()])
    weights = np.fromiter((weight for bag in new.values() for weight in bag.values()), np.float32)
    order = np.argsort(ids, kind="stable")
    starts = np.concatenate((kept.starts, np.full(len(words) + 1 - len(kept.starts), kept.starts[-1])))
    places = starts[ids[order] + 1]
    added = np.concatenate(([0], np.cumsum(np.bincount(ids, minlength=len(words)))))
    return Postings(
        words,
        (starts + added).astype(np.int32),
        np.insert(kept.slots, places, slots[order]),
        np.insert(kept.weights, places, weights[order]),
    )
