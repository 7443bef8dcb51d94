"""Cuts a text into the words that the embedding knows. Owns what happens to a word that it does not know.

No case and no accents. `camelCase` and `snake_case` come apart, unless the whole is a word (`GitHub`). An
unknown word is taken for another form of a known one, or for several known ones written together; a word
that is neither counts for nothing, since a guess would only move the text's vector at random.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_RUN = re.compile(r"[A-Za-z]+|[0-9]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Encoded data pasted into a text: taken apart it would look like a hundred words.
_BLOB = re.compile(r"[A-Za-z0-9+/=]{48,}")
_LONGEST = 32
_SHORTEST_PART = 3
_MOST_PARTS = 4
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
    if text.isascii():
        return text
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


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
