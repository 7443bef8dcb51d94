"""What is known of a tool beside its words (pinned, heavy, deprecated, …), and what that does to its score.

Every adjustment is a share of the score so far, and one upwards also of what is left to a perfect score, so
nothing that does not fit is lifted and none leaves 0 to 1.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .asked import Asked
from .documents import Document
from .terms import stem, words
from .wordlists import ACTS, DESTROYS, HEAVY, MAY_WRITE, NEITHER, READS, TAKES, WHOLE, WRITES

PINNED = 0.25
HEAVIEST = -0.25
DESTRUCTIVE = -0.6
DEPRECATED = -0.4
WRITING = -0.25
"""For a tool that changes something, when a request only wants to know."""
UNNAMED = -0.15
"""For a tool that does something special, such as to convert, when a request has no verb at all: who says no
more than "time in Tokyo" wants to see it."""
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
        ("deprecated", np.bool_),
        ("writes", np.bool_),
        ("action", np.uint16),  # what it does by its name, if that is special, as a place in _ACTIONS
        ("heavy", np.uint8),  # the word in its name that says so, as a place in _PROMISES
        ("size", np.float32),  # running mean of its results' sizes in bytes; 0 until one was seen
    ]
)
_READING = READS | TAKES
_WRITING = (WRITES | MAY_WRITE | DESTROYS) - _READING - NEITHER
_ACTIONS = ("", *sorted((WRITES | MAY_WRITE | DESTROYS | ACTS) - _READING))
_ACTION_STEMS = tuple(map(stem, _ACTIONS))
_ACTION_PLACES = {action: place for place, action in enumerate(_ACTIONS)}
_PROMISES = ("", *sorted(HEAVY | WHOLE))
_PROMISE_STEMS = tuple(map(stem, _PROMISES))
_DEPRECATED = re.compile(
    r"""
    \bDEPRECATED\b
    | ^\W* (?i:deprecated|obsolete|descontinuad[oa]|obsolet[oa]) \s* [^\w\s]
    | [\[(] \s* (?i:deprecated|obsolete|descontinuad[oa]|obsolet[oa]) \b
    | (?i: \b deprecated \b \W* (?:please\s+)? (?:use|in\ favou?r\ of|since) \b)
    | (?i: \b (?:this|the) \s+ (?:tool|function|method|command|endpoint|action) \s+
           (?:is|has\ been|was) \s+ (?:now\s+)? (?:deprecated|obsolete) \b)
    | (?i: \b est[ea] \s+ \w+ \s+ (?:está|foi|é) \s+ (?:descontinuad[oa]|obsolet[oa]) \b)
    """,
    re.VERBOSE,
)
"""How descriptions say it of the tool itself, and not of what it lists or of an argument."""


def traits_of(document: Document) -> tuple[bool, bool, bool, bool, int, int]:
    """All but the size, which nobody knows yet."""
    said = words(document.name)
    verb = _verb(said, words(document.server))
    return (
        document.pinned,
        _destroys(document, said),
        document.deprecated or _says_deprecated(document),
        _writes(document, verb),
        _ACTION_PLACES.get(verb, 0),
        _PROMISES.index(_promise(said)),
    )


def _verb(name: list[str], server: list[str]) -> str:
    """The first word of its own, `git_commit` of `git`; else one further on that is surely a verb."""
    own = [word for word in name if word not in server] or name
    sure = (word for word in own if word in TAKES or word in WRITES or word in DESTROYS)
    leads = (word for word in own[:1] if word in _READING or word in _ACTION_PLACES)
    return next(leads, None) or next(sure, "")


def _writes(document: Document, verb: str) -> bool:
    """By its own word; by its name when it says nothing of itself."""
    return verb in _WRITING if document.read_only is None else not document.read_only


def _says_deprecated(document: Document) -> bool:
    return any(_DEPRECATED.search(text) for text in (document.title, document.description))


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
    yield "deprecated", DEPRECATED * known["deprecated"].astype(np.float32)
    if asked.reads > 0:
        yield "destructive", DESTRUCTIVE * asked.reads * known["destructive"].astype(np.float32)
        yield "writes", WRITING * asked.reads * known["writes"].astype(np.float32)
    if not asked.has_verb:
        yield "unnamed", UNNAMED * _unnamed(known["action"], asked) * ~known["writes"]
    if any(state in UNAVAILABLE for state in states):
        yield "unavailable", np.array([UNAVAILABLE.get(state, 0.0) for state in states], np.float32)
    if boosts is not None:
        yield "learnt", LEARNT * boosts


def _unnamed(actions: npt.NDArray[np.uint16], asked: Asked) -> Floats:
    """1 for a tool whose action the request does not mention in any form."""
    unsaid = [float(bool(action) and action not in asked.stems) for action in _ACTION_STEMS]
    return np.array(unsaid, np.float32)[actions]


def _heaviness(sizes: Floats, promises: npt.NDArray[np.uint8], asked: Asked) -> Floats:
    """From 0 to 1. What was measured counts more than a name, and who asks for an export gets one."""
    unasked = [float(bool(word) and word not in asked.stems) for word in _PROMISE_STEMS]
    measured = np.clip((sizes - LIGHT_BYTES) / (HEAVY_BYTES - LIGHT_BYTES), 0.0, 1.0)
    return np.where(sizes > 0, measured, np.array(unasked, np.float32)[promises])
