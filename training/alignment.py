"""Which English words render a Portuguese one: word alignment (IBM model 1) over the bilingual sentences."""

from collections import defaultdict

import numpy as np

from toolyard.meaning.embedding import words

ROUNDS = 8
LONGEST = 25


def aligned(pairs: list[tuple[str, str]], most: int = 6) -> dict[str, list[tuple[str, float]]]:
    """p(English | Portuguese) for every Portuguese word, the likeliest first."""
    english, portuguese = _Numbers(), _Numbers()
    sides = [(english.of(words(en)), portuguese.of(words(pt))) for en, pt in pairs]
    sides = [(e, p) for e, p in sides if 0 < len(e) <= LONGEST and 0 < len(p) <= LONGEST]
    # One entry for each (English place, Portuguese word) of a sentence; `place` groups what must sum to one.
    e = np.concatenate([np.repeat(e, len(p)) for e, p in sides])
    p = np.concatenate([np.tile(p, len(e)) for e, p in sides])
    lengths = np.concatenate([np.full(len(e), len(p)) for e, p in sides])
    place = np.repeat(np.arange(len(lengths)), lengths)
    key = p.astype(np.int64) * len(english.words) + e
    entries, entry = np.unique(key, return_inverse=True)
    owner = entries // len(english.words)
    chance = np.full(len(entries), 1.0)
    for _ in range(ROUNDS):
        share = chance[entry]
        share /= np.bincount(place, share)[place]
        counts = np.bincount(entry, share)
        chance = counts / np.bincount(owner, counts)[owner]
    return _likeliest(entries, chance, counts, english.words, portuguese.words, most)


class _Numbers:
    def __init__(self) -> None:
        self.words: list[str] = []
        self._known: dict[str, int] = {}

    def of(self, found: list[str]) -> np.ndarray:
        for word in found:
            if word not in self._known:
                self._known[word] = len(self.words)
                self.words.append(word)
        return np.array([self._known[word] for word in dict.fromkeys(found)], np.int64)


def _likeliest(
    entries: np.ndarray,
    chance: np.ndarray,
    counts: np.ndarray,
    english: list[str],
    portuguese: list[str],
    most: int,
) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for i in np.argsort(-chance):
        if chance[i] > 0.04 and counts[i] > 0.5:
            renderings = found[portuguese[entries[i] // len(english)]]
            if len(renderings) < most:
                renderings.append((english[entries[i] % len(english)], float(chance[i])))
    return dict(found)
