"""What is known of a tool beside its words: pinned, heavy, destructive; and what that does to its score.

Every adjustment is a share of the score so far, and one upwards also of what is left to a perfect score, so
nothing that does not fit is lifted and none leaves 0 to 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .asked import Asked
from .documents import Document
from .terms import stem, words
from .wordlists import DESTROYS, HEAVY, TAKES, WHOLE

PINNED = 0.25
HEAVIEST = -0.25
DESTRUCTIVE = -0.6
UNAVAILABLE = {"down": -0.4, "unconnected": -0.2}
LEARNT = 2.0
"""A boost is meant for a score of a half."""
LIGHT_BYTES, HEAVY_BYTES = 20_000, 500_000
"""A result of the first size is no burden; one of the second is as heavy as it gets."""
SIZE_MEMORY = 0.2
"""What a new result's size counts in the running mean of a tool's sizes."""

Traits = npt.NDArray[np.void]
Floats = npt.NDArray[np.float32]

TRAITS = np.dtype(
    [
        ("pinned", np.bool_),
        ("destructive", np.bool_),
        ("heavy", np.uint8),  # the word in its name that says so, as a place in _PROMISES
        ("size", np.float32),  # running mean of its results' sizes in bytes; 0 until one was seen
    ]
)
_PROMISES = ("", *sorted(HEAVY | WHOLE))
_PROMISE_STEMS = tuple(map(stem, _PROMISES))


def traits_of(document: Document) -> tuple[bool, bool, int]:
    """All but the size, which nobody knows yet."""
    said = words(document.name)
    return document.pinned, _destroys(document, said), _PROMISES.index(_promise(said))


def _destroys(document: Document, said: list[str]) -> bool:
    """By its own word; by its name when it says nothing of itself."""
    if document.read_only or document.destructive is not None:
        return bool(document.destructive) and not document.read_only
    return document.read_only is None and any(word in DESTROYS for word in said)


def _promise(said: list[str]) -> str:
    takes = any(word in TAKES for word in said)
    return next((word for word in said if word in HEAVY or (takes and word in WHOLE)), "")


def mean_size(known: float, size: int) -> float:
    return size if known == 0 else known + SIZE_MEMORY * (size - known)


def adjusted(scores: Floats, shares: Mapping[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
    """Scores after one adjustment after the other, and what each added or took."""
    parts: dict[str, Floats] = {}
    for name, share in shares.items():
        parts[name] = share * np.where(share < 0, scores, np.minimum(scores, 2.0 * (1.0 - scores)))
        scores = scores + parts[name]
    return scores, parts


def shares_of(
    traits: Traits, asked: Asked, states: Sequence[str], boosts: Floats | None
) -> Iterator[tuple[str, Floats]]:
    """What moves the scores of some tools, by name; each is a share of the score it moves."""
    known: Any = traits
    yield "pinned", PINNED * known["pinned"].astype(np.float32)
    yield "heavy", HEAVIEST * _heaviness(known["size"], known["heavy"], asked)
    if asked.reads > 0:
        yield "destructive", DESTRUCTIVE * asked.reads * known["destructive"].astype(np.float32)
    if any(state in UNAVAILABLE for state in states):
        yield "unavailable", np.array([UNAVAILABLE.get(state, 0.0) for state in states], np.float32)
    if boosts is not None:
        yield "learnt", LEARNT * boosts


def _heaviness(sizes: Floats, promises: npt.NDArray[np.uint8], asked: Asked) -> Floats:
    """From 0 to 1. What was measured counts more than a name, and who asks for an export gets one."""
    unasked = [float(bool(word) and word not in asked.stems) for word in _PROMISE_STEMS]
    measured = np.clip((sizes - LIGHT_BYTES) / (HEAVY_BYTES - LIGHT_BYTES), 0.0, 1.0)
    return np.where(sizes > 0, measured, np.array(unasked, np.float32)[promises])
