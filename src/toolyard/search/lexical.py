"""The lexical side: which documents hold a query's terms, in which fields, and how rare those terms are.

Combines BM25 over weighted fields with coverage: how much of a tool's name, server and description is in the
query. BM25 measures how much of the query a tool matches. A request for a whole task is much longer than any
tool's words, so only coverage is fair to the tools for its parts.

Lengths are compared with fixed ones instead of current averages, so the weight of a term in a
document depends on that document alone: an index grown step by step equals one built at once. The rarity of
terms depends on all documents, and is recomputed when changes are merged.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .documents import ToolDocument
from .terms import Translate, english_terms, language_of_prose, terms, words

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]


class WeightedField(Struct, frozen=True):
    weight: float
    length: float
    """The reference length, in terms."""
    norm: float
    """How much length matters, from 0 (nothing) to 1."""
    mark: int = 0
    """The bit of a posting that says that the term is in this field."""
    cover: float = 0.0
    """The weight of coverage: how much of this field the query contains."""


SERVER = WeightedField(2.0, 1.5, 0.25, mark=1, cover=0.15)
ABOUT = WeightedField(1.0, 10.0, 0.5)
NAME = WeightedField(3.0, 3.0, 0.2, mark=2, cover=0.2)
TITLE = WeightedField(2.0, 3.0, 0.2)
DESCRIPTION = WeightedField(0.9, 20.0, 0.6, mark=4, cover=0.15)
PARAMETER = WeightedField(0.7, 8.0, 0.7)
PARAMETER_TEXT = WeightedField(0.5, 35.0, 0.8)
COVERED = (SERVER, NAME, DESCRIPTION)
TELLING = 400
"""The characters of a description from which its language is detected."""
SATURATION = 1.2
"""BM25's k1: how soon one more occurrence of a term says nothing new."""


class TermWeights(Struct, frozen=True, gc=False):
    """A document's terms, each with its weight from 0 to 1 and the marks of the fields that have it."""

    terms: list[str]
    weights: "array[float]"
    marks: bytes


def weigh_terms(document: ToolDocument, translate: Translate) -> TermWeights:
    """Weighs a document's terms; a document in another language gets English terms as well."""
    amounts: dict[str, float] = {}
    marks: dict[str, int] = {}
    language = language_of_prose(words(document.description[:TELLING]))
    for field, text in _fields(document):
        counted = terms(text)
        each = field.weight / (1 - field.norm + field.norm * len(counted) / field.length)
        for term in counted:
            amounts[term] = amounts.get(term, 0.0) + each
            marks[term] = marks.get(term, 0) | field.mark
        for term, share in english_terms(words(text), translate, language) if language else ():
            amounts[term] = amounts.get(term, 0.0) + each * share
    weights = array("f", [amount / (amount + SATURATION) for amount in amounts.values()])
    return TermWeights(list(amounts), weights, bytes(marks.get(term, 0) for term in amounts))


def _fields(document: ToolDocument) -> tuple[tuple[WeightedField, str], ...]:
    return (
        (SERVER, document.server),
        (ABOUT, document.about),
        (NAME, document.name),
        (TITLE, document.title),
        (DESCRIPTION, document.description),
        (PARAMETER, " ".join(name for name, _ in document.parameters)),
        (PARAMETER_TEXT, " ".join(text for _, text in document.parameters)),
    )


class Postings(Struct):
    """Flat arrays, sorted by term: term number n has the entries from `starts[n]` to `starts[n + 1]`."""

    words: dict[str, int]
    starts: Ints
    slots: Ints
    weights: Floats
    marks: Marks

    @classmethod
    def empty(cls) -> "Postings":
        none = np.zeros(0, np.int64)
        return cls({}, np.zeros(1, np.int64), none, none.astype(np.float32), none.astype(np.uint8))


class LexicalScores(Struct, frozen=True):
    """The scores of bags of terms: a row for each bag, a column for each slot."""

    scores: Floats
    most: Floats
    """The highest possible score of each bag."""
    covers: Floats
    """How much of each slot's own words the first bag contains."""


class LexicalIndex:
    def __init__(self, kept: Postings | None = None) -> None:
        self._kept = kept or Postings.empty()
        self._values = _Values(self._kept)
        self._new: dict[int, TermWeights] = {}
        self._gone: set[int] = set()

    def put(self, slot: int, document: TermWeights) -> None:
        """Puts a document into an empty slot."""
        self._new[slot] = document

    def remove(self, slot: int) -> None:
        if self._new.pop(slot, None) is None:
            self._gone.add(slot)

    def find(self, bags: Sequence[Mapping[str, float]], size: int) -> LexicalScores:
        """`bags` have terms and their weights; `size` is the number of slots."""
        kept, values = self.settled(), self._values
        scores = np.zeros((len(bags), size), np.float32)
        most = np.zeros(len(bags), np.float32)
        covers = np.zeros(size, np.float32)
        for row, bag in enumerate(bags):
            for term, weight in bag.items():
                number = kept.words.get(term)
                if number is None:
                    most[row] += weight * values.unknown
                    continue
                most[row] += weight * values.rarity[number]
                held = slice(kept.starts[number], kept.starts[number + 1])
                np.add.at(scores[row], kept.slots[held], values.gains[held] * np.float32(weight))
                if row == 0:
                    np.add.at(covers, kept.slots[held], values.covers[held] * np.float32(weight))
        return LexicalScores(scores, most, covers)

    def settled(self) -> Postings:
        """The postings with everything merged in."""
        if self._gone or self._new:
            kept = _remove_documents(self._kept, self._gone) if self._gone else self._kept
            self._kept = _add_documents(kept, self._new) if self._new else kept
            self._values = _Values(self._kept)
            self._new, self._gone = {}, set()
        return self._kept


class _Values:
    """The values that depend on all documents: the rarity of terms, the worth of postings."""

    def __init__(self, kept: Postings) -> None:
        held = np.diff(kept.starts)
        slots = np.bincount(kept.slots) if len(kept.slots) else kept.slots
        count = np.count_nonzero(slots)
        self.rarity: Floats = np.log1p((count - held + 0.5) / (held + 0.5)).astype(np.float32)
        self.unknown = float(np.log1p(2 * count + 1))
        rarity = np.repeat(self.rarity, held)
        self.gains: Floats = kept.weights * rarity
        self.covers: Floats = np.zeros_like(kept.weights)
        for field in COVERED:
            here = np.flatnonzero(kept.marks & field.mark)
            whole = np.bincount(kept.slots[here], weights=rarity[here], minlength=len(slots))
            share = rarity[here] / np.maximum(whole[kept.slots[here]], 1e-9)
            self.covers[here] += (field.cover * share).astype(np.float32)


def _remove_documents(kept: Postings, gone: set[int]) -> Postings:
    left = ~np.isin(kept.slots, np.fromiter(gone, np.int64, len(gone)))
    starts = np.concatenate(([0], np.cumsum(left)))[kept.starts]
    used = np.diff(starts) > 0
    words = kept.words
    if 2 * np.count_nonzero(used) < len(words):
        # A server whose words change all the time must not fill the memory with them.
        words = {word: number for number, word in enumerate(compress(words, used))}
        starts = np.concatenate(([0], starts[1:][used]))
    return Postings(words, starts, kept.slots[left], kept.weights[left], kept.marks[left])


def _add_documents(kept: Postings, new: Mapping[int, TermWeights]) -> Postings:
    words, documents = kept.words, new.values()
    ids = np.fromiter(
        (words.setdefault(term, len(words)) for one in documents for term in one.terms), np.int64
    )
    slots = np.repeat(np.fromiter(new, np.int64), [len(one.terms) for one in documents])
    weights = np.concatenate([np.frombuffer(one.weights, np.float32) for one in documents])
    marks = np.frombuffer(b"".join(one.marks for one in documents), np.uint8)
    order = np.argsort(ids, kind="stable")
    starts = np.concatenate((kept.starts, np.full(len(words) + 1 - len(kept.starts), kept.starts[-1])))
    places = starts[ids[order] + 1]
    added = np.concatenate(([0], np.cumsum(np.bincount(ids, minlength=len(words)))))
    return Postings(
        words,
        starts + added,
        np.insert(kept.slots, places, slots[order]),
        np.insert(kept.weights, places, weights[order]),
        np.insert(kept.marks, places, marks[order]),
    )
