"""The fusion: what lexical and semantic evidence together say of some candidates, and how sure that is.

A row stands for a text: the whole request first, then its clauses. Within a row the lexical scores are taken
relative to the best one, unless even that is weak: a chance hit on a common word must not look like a find.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .lexical import Floats, Found

Slots = npt.NDArray[np.intp]

MEANING = 2.0
"""What a cosine counts beside a lexical score of the same size, for a request of one clause."""
BLUR = 0.7
"""How fast that falls with the number of clauses: the sum of many words means a little of everything."""
CLAUSE = 0.35
"""What the best clause counts beside the whole request."""
COMPANY = 0.25
"""What the best tool of the same server counts: tools of one task often live together."""
WEAK = 0.25
"""The share of the request's weight that the best lexical match must hold to count as a full one."""
WIDTH_WHOLE, WIDTH_CLAUSE = 100, 32
"""How many candidates the whole request and each clause send in."""


class Fused(Struct, frozen=True):
    """Of each candidate."""

    scores: Floats
    """From 0 to 1."""
    lexical: Floats
    """What of it came from words; the rest came from meaning."""


class Evidence(Struct, frozen=True):
    """What both sides have to say of every slot."""

    found: Found
    vectors: Floats
    """Of the texts."""
    cosines: Floats
    """Of every slot with the whole request; those with the clauses are only worked out for candidates."""

    def candidates(self, widening: int) -> list[int]:
        """The slots worth a closer look: the best of the whole by both, of each clause by its words."""
        whole = _relative(self.found.scores[:1], self.found.most[:1])[0]
        whole += self.found.covers + self._meaning() * self.cosines
        chosen = [_top(whole, WIDTH_WHOLE * widening)]
        chosen += [_top(row, WIDTH_CLAUSE * widening) for row in self.found.scores[1:]]
        return np.unique(np.concatenate(chosen)).tolist()

    def fused(self, slots: Sequence[int], vectors: Floats, servers: Sequence[int]) -> Fused:
        """The scores of some slots, whose vectors are rows of `vectors`; `servers` numbers whose they are."""
        lexical = self.found.scores[:, slots]
        cosines = np.maximum(np.vecdot(vectors[slots][None], self.vectors[:, None]), 0.0)
        words = _relative(lexical, self.found.most)
        told = words[0] + self.found.covers[slots] + _beside(words, servers)
        scores = told + self._meaning() * cosines[0] + _beside(cosines, servers)
        first = int(scores.argmax())
        if scores[first] <= 0:
            return Fused(np.zeros_like(scores), np.zeros_like(scores))
        covered = float((lexical[:, first] / np.maximum(self.found.most, 1e-9)).max())
        factor = confidence(covered, float(cosines[:, first].max())) / float(scores[first])
        return Fused(factor * scores, factor * told)

    def _meaning(self) -> float:
        return MEANING / max(1, len(self.vectors) - 1) ** BLUR


def confidence(covered: float, cosine: float) -> float:
    """How likely the best candidate is right, by the share of the request it holds and its likeness.

    Fitted to the public sets: of the best hits with such a score, about that share was right.
    """
    return 1 / (1 + math.exp(2.8 - 1.4 * covered - 5.3 * cosine))


def _beside(rows: Floats, servers: Sequence[int]) -> Floats:
    """What the clauses and the other tools of the same server add to the whole request's row."""
    best = np.zeros(max(servers) + 1, np.float32)
    np.maximum.at(best, servers, rows[0])
    clauses = rows[1:] if len(rows) > 1 else rows
    return CLAUSE * clauses.max(axis=0) + COMPANY * best[servers]


def _relative(lexical: Floats, most: Floats) -> Floats:
    """Lexical scores from 0 to 1 in each row."""
    best: Floats = np.maximum(lexical.max(axis=1, initial=0.0), WEAK * most)
    best[best <= 0] = 1.0
    return lexical / best[:, None]


def _top(scores: Floats, count: int) -> Slots:
    # Without the zeros first: a partition of many equal numbers takes ten times as long.
    above = np.flatnonzero(scores > 0)
    return above if len(above) <= count else above[np.argpartition(scores[above], -count)[-count:]]
