"""What is known of a tool beside its words: pinned, heavy, destructive; and what that does to its score.

Every adjustment is a share of the score so far, and one upwards also of what is left to a perfect score, so
nothing that does not fit is lifted and none leaves 0 to 1. Each is named in the hit's parts.
"""

from collections.abc import Iterator

from msgspec import Struct

from .asked import Asked
from .documents import Document
from .terms import stem, words
from .wordlists import DESTROYS, HEAVY, TAKES, WHOLE

PINNED = 0.25
HEAVIEST = -0.25
DESTRUCTIVE = -0.6
LEARNT = 2.0
"""A boost is meant for a score of a half."""
UNAVAILABLE = {"down": -0.4, "unconnected": -0.2}
LIGHT_BYTES, HEAVY_BYTES = 20_000, 500_000
"""A result of the first size is no burden; one of the second is as heavy as it gets."""


class Traits(Struct, frozen=True):
    pinned: bool = False
    heavy: str = ""
    """The stem in its name that says so."""
    destructive: bool = False


def traits_of(document: Document) -> Traits:
    said = words(document.name)
    destroys = document.destructive if document.destructive is not None else _destroys(document, said)
    return Traits(document.pinned, _heavy_stem(said), destroys and document.read_only is not True)


def _destroys(document: Document, said: list[str]) -> bool:
    return document.read_only is None and any(word in DESTROYS for word in said)


def _heavy_stem(said: list[str]) -> str:
    for word in said:
        if word in HEAVY or (word in WHOLE and any(other in TAKES for other in said)):
            return stem(word)
    return ""


def adjustments(
    traits: Traits, size: float, state: str, asked: Asked, boost: float
) -> Iterator[tuple[str, float]]:
    """What moves a tool's score, each as a share of it.

    `size` is the tool's mean result in bytes, 0 if unknown; `boost` is what was learnt of it.
    """
    if traits.pinned:
        yield "pinned", PINNED
    weight = heaviness(traits, size, asked)
    if weight > 0:
        yield "heavy", HEAVIEST * weight
    if traits.destructive and asked.reads:
        yield "destructive", DESTRUCTIVE
    if state in UNAVAILABLE:
        yield "unavailable", UNAVAILABLE[state]
    if boost:
        yield "learnt", LEARNT * boost


def heaviness(traits: Traits, size: float, asked: Asked) -> float:
    """From 0 to 1. What was measured counts more than a name, and who asks for an export gets one."""
    if size > 0:
        return min(1.0, max(0.0, (size - LIGHT_BYTES) / (HEAVY_BYTES - LIGHT_BYTES)))
    return 1.0 if traits.heavy and traits.heavy not in asked.stems else 0.0
