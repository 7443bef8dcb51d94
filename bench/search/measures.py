"""Measures of a ranking: recall, reciprocal rank of the first hit, and nDCG, averaged over the queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

DEPTH = 100
NAMES = ("recall@1", "recall@5", "recall@10", "MRR", "nDCG@10")

Ranking = Sequence[int]
Needed = Sequence[set[int]]


def measured(rankings: Sequence[Ranking], needed: Sequence[Needed]) -> dict[str, float]:
    """In percent."""
    each = [_one(ranking, groups) for ranking, groups in zip(rankings, needed, strict=True)]
    means = (100 * sum(column) / len(each) for column in zip(*each, strict=True))
    return dict(zip(NAMES, means, strict=True))


def _one(ranking: Ranking, groups: Needed) -> tuple[float, ...]:
    places = {tool: place for place, tool in enumerate(ranking[:DEPTH])}
    at = [min((places.get(tool, DEPTH) for tool in group), default=DEPTH) for group in groups]
    gain = sum(1 / math.log2(place + 2) for place in at if place < 10)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(groups))))
    recalls = (sum(place < k for place in at) / len(at) for k in (1, 5, 10))
    first = min(at)
    return (*recalls, 1 / (first + 1) if first < DEPTH else 0.0, gain / ideal)


def mean(rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in NAMES}
