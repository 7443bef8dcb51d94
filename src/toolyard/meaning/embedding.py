"""The embedding: turns a text into one unit vector, English and Portuguese in the same space.

Owns the shipped word vectors (`embedding.npz`), the word lists from other languages to English
(`lexicons/`) and how a text is cut into known words. The vector of a text is the sum of its words'
vectors; the length of a word's vector is its weight. Ranking is in `search`, training in `training/` at
the root of the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from ..wire.text import without_marks

_RUN = re.compile(r"[A-Za-z]+|[0-9]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Encoded data pasted into a text: taken apart it would look like a hundred words.
_BLOB = re.compile(r"[A-Za-z0-9+/=]{48,}")
_LONGEST = 32
_SHORTEST_PART = 3
_MOST_PARTS = 4
_COMPOUNDING = frozenset(("de",))
_SHORTEST_HALF = 4
# Words come from outside: what is remembered of them stays bounded.
_MOST_REMEMBERED = 50_000

# (ending, what stands in its place in a form that may be known), English and Portuguese.
_RESPELLINGS = (
    *(("s", ""), ("es", ""), ("ies", "y"), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"), ("ly", "")),
    *(("er", ""), ("er", "e"), ("ers", ""), ("oes", "ao"), ("ais", "al"), ("eis", "el"), ("ns", "m")),
    *(("ando", "ar"), ("endo", "er"), ("indo", "ir"), ("ado", "ar"), ("ada", "ar"), ("ados", "ar")),
    *(("adas", "ar"), ("ido", "er"), ("ida", "er"), ("ido", "ir"), ("ida", "ir"), ("que", "car")),
    *(("gue", "gar"), ("a", "ar"), ("e", "ar"), ("as", "ar"), ("am", "ar"), ("em", "ar"), ("ou", "ar")),
    *(("e", "er"), ("a", "er"), ("e", "ir"), ("a", "ir"), ("o", "ar"), ("a", "o"), ("as", "o")),
    *(("inho", "o"), ("inha", "a"), ("zinho", ""), ("mente", "")),
)


def plain(text: str) -> str:
    """Without accents, and without what has no Latin letter for it."""
    return without_marks(text).encode("ascii", "ignore").decode()


def words(text: str) -> list[str]:
    """Every word of a text, known or not, in lower case and with names taken apart."""
    return [part.lower() for part in _PART.findall(_BLOB.sub(" ", plain(text)))]


class Vocabulary:
    def __init__(self, known: Sequence[str]) -> None:
        self._known = {word: i for i, word in enumerate(known)}
        self._remembered: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def ids(self, text: str) -> list[int]:
        """The numbers of the known words of a text, in order, repeated as they are."""
        remembered = self._remembered
        found: list[int] = []
        for run in _RUN.findall(_BLOB.sub(" ", plain(text))):
            ids = remembered.get(run)
            if ids is None:
                ids = self._learnt(run)
            found += ids
        return found

    def _learnt(self, run: str) -> tuple[int, ...]:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        whole = self._known.get(run.lower())
        ids = (whole,) if whole is not None else self._of_parts(run)
        self._remembered[run] = ids
        return ids

    def _of_parts(self, run: str) -> tuple[int, ...]:
        found: list[int] = []
        for part in _PART.findall(run):
            word = part.lower()
            known = self._known.get(word)
            found += self._unknown(word) if known is None else (known,)
        return tuple(found)

    def _unknown(self, word: str) -> tuple[int, ...]:
        if not 4 <= len(word) <= _LONGEST or word.isdigit():
            return ()
        for ending, instead in _RESPELLINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                known = self._known.get(word[: -len(ending)] + instead)
                if known is not None:
                    return (known,)
        return self._joined(word)

    def _joined(self, word: str) -> tuple[int, ...]:
        """The fewest known words that make up the word, none of them very short."""
        # best[i]: the numbers of the words that make up the first i letters.
        best: list[tuple[int, ...] | None] = [None] * (len(word) + 1)
        best[0] = ()
        for end in range(_SHORTEST_PART, len(word) + 1):
            for start in range(end - _SHORTEST_PART + 1):
                before = best[start]
                known = self._known.get(word[start:end]) if before is not None else None
                if before is not None and known is not None:
                    made = (*before, known)
                    here = best[end]
                    if len(made) <= _MOST_PARTS and (here is None or len(made) < len(here)):
                        best[end] = made
        return best[-1] or ()


Vectors = npt.NDArray[np.float32]

# Rows looked up at once: what keeps the working set of a long batch inside the processor's cache.
_BATCH = 4_096


class TextEmbedding:
    """The shipped embedding. Cheap to keep: the table stays in eight bits."""

    def __init__(self, vocabulary: Vocabulary, rows: npt.NDArray[np.int8], scales: Vectors) -> None:
        self._vocabulary = vocabulary
        self._rows = rows
        self._scales = scales.reshape(-1, 1)
        self._lexicons: dict[str, dict[str, str]] = {}
        self.dim: int = int(rows.shape[1])

    @classmethod
    def load(cls) -> TextEmbedding:
        with resources.files("toolyard.meaning").joinpath("embedding.npz").open("rb") as file:
            table: Any = np.load(file, allow_pickle=False)
            vocabulary = Vocabulary(bytes(table["words"]).decode().split("\n"))
            return cls(vocabulary, table["rows"], table["scales"].astype(np.float32))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a row of zeros where nothing in the text is known."""
        sums = np.zeros((len(texts), self.dim), np.float32)
        ids: list[int] = []
        starts: list[int] = []
        at: list[int] = []
        for i, text in enumerate(texts):
            found = self._vocabulary.ids(text)
            if found:
                at.append(i)
                starts.append(len(ids))
                ids.extend(found)
            if len(ids) >= _BATCH:
                sums[at] = self._summed(ids, starts)
                ids, starts, at = [], [], []
        if ids:
            sums[at] = self._summed(ids, starts)
        lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
        sums /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
        return sums

    def translate(self, words: Sequence[str], language: str = "pt") -> list[list[str]]:
        """English renderings of each word, likeliest first; none for a word not in the language's list."""
        lexicon = self._lexicon(language)
        folded = (word if word.islower() and word.isascii() else plain(word).lower() for word in words)
        return [_rendered(word, lexicon, language) for word in folded]

    def _summed(self, ids: list[int], starts: list[int]) -> Vectors:
        taken = np.array(ids, np.intp)
        rows: Vectors = self._rows[taken] * self._scales[taken]
        ends = [*starts[1:], len(ids)]
        # One sum a text: twice as fast as one `np.add.reduceat` over all.
        return np.stack([rows[start:end].sum(axis=0) for start, end in zip(starts, ends, strict=True)])

    def _lexicon(self, language: str) -> dict[str, str]:
        known = self._lexicons.get(language)
        if known is None:
            place = resources.files("toolyard.meaning").joinpath(f"lexicons/{language}.txt")
            known = self._lexicons[language] = dict(_entries(place.read_text("utf-8").splitlines()))
        return known


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        word, _, renderings = line.partition("\t")
        if renderings:
            yield word, renderings


def _rendered(word: str, lexicon: dict[str, str], language: str) -> list[str]:
    found = lexicon.get(word)
    if found is not None:
        return found.split(",")
    parts = _halves(word, lexicon) if language in _COMPOUNDING else ()
    return [lexicon[part].partition(",")[0] for part in parts]


def _halves(word: str, lexicon: dict[str, str]) -> tuple[str, ...]:
    """The two known words of a compound (`Einkaufsliste`), the second as long as can be."""
    for at in range(_SHORTEST_HALF, min(len(word), _LONGEST) - _SHORTEST_HALF + 1):
        if word[at:] in lexicon:
            first = next((word[: at - cut] for cut in (0, 1, 2) if word[: at - cut] in lexicon), "")
            return (first, word[at:]) if len(first) >= _SHORTEST_HALF else (word[at:],)
    return ()
