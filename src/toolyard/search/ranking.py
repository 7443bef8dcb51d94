"""Ranks candidates: fuses lexical and semantic evidence into a score and adjusts it by the tool's traits.

A row stands for a text: the whole request first, then its clauses. Within a row lexical scores are
relative to the best one, unless even that is weak. At the end all scores are scaled so that the best one's
says how likely it is right. An adjustment (pinned, heavy, deprecated, ...) is a
share of the score so far, so a tool that does not fit is never lifted, and no score leaves 0 to 1.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .acts import ACT_WORDS, BITS, READING, acts_of_tool
from .documents import ToolDocument
from .intent import QueryIntent
from .lexical import Floats, LexicalScores
from .terms import stem, words
from .wordlists import ACTS, DESTROYS, HEAVY, MAY_WRITE, NEITHER, READS, TAKES, WHOLE, WRITES

SlotArray = npt.NDArray[np.intp]

MEANING = 2.0
"""The weight of a cosine relative to a lexical score, for a request of one clause."""
BLUR = 0.7
"""How fast that weight falls with the number of clauses: a vector of many words is vague."""
CLAUSE = 0.35
"""The weight of the best clause; the whole request weighs 1."""
COMPANY = 0.25
"""The weight of the best tool of the same server: tools for one task are often on one server."""
WEAK = 0.25
"""The share of the request's weight that the best lexical match must hold to count as a full one."""
BEST = 0.75
"""The score of the best candidate before adjustments and before scores are made comparable."""
TRUSTED = 0.3
"""The share of a request's words from which on a lead is trusted: by meaning alone one is always ahead."""
ALIKE = 0.8
"""How far a tool fits that is as good as others, by its words and meaning alone."""
MOST_LEAD = 0.6
"""A lead that says all that a lead can say."""
WIDTH_WHOLE, WIDTH_CLAUSE = 100, 32
"""The number of candidates from the whole request, and from each clause."""


class FusedScores(Struct, frozen=True):
    """The scores of the candidates."""

    scores: Floats
    """From 0 to 1."""
    lexical: Floats
    """The lexical part of each score; the rest is semantic."""


class Evidence(Struct, frozen=True):
    """The lexical and semantic evidence for every slot."""

    found: LexicalScores
    vectors: Floats
    """The vectors of the texts."""
    cosines: Floats
    """The cosines of every slot with the whole request; those of clauses are computed for candidates only."""

    def candidates(self, widening: int) -> list[int]:
        """Returns the best slots: of the whole request by both kinds of evidence, of each clause by words."""
        whole = _relative(self.found.scores[:1], self.found.most[:1])[0]
        whole += self.found.covers + self._meaning() * self.cosines
        chosen = [_top(whole, WIDTH_WHOLE * widening)]
        chosen += [_top(row, WIDTH_CLAUSE * widening) for row in self.found.scores[1:]]
        return np.unique(np.concatenate(chosen)).tolist()

    def fused(self, slots: Sequence[int], vectors: Floats, servers: Sequence[int]) -> FusedScores:
        """Returns the scores of some slots; `vectors` and `servers` have an entry for each of them."""
        lexical = self.found.scores[:, slots]
        cosines = np.maximum(np.vecdot(vectors[slots][None], self.vectors[:, None]), 0.0)
        words = _relative(lexical, self.found.most)
        told = words[0] + self.found.covers[slots] + _beside(words, servers)
        scores = told + self._meaning() * cosines[0] + _beside(cosines, servers)
        most = float(scores.max())
        if most <= 0:
            return FusedScores(np.zeros_like(scores), np.zeros_like(scores))
        return FusedScores(BEST / most * scores, BEST / most * told)

    def confidence(self, slot: int, vector: Floats, lead: float) -> float:
        """Estimates how likely the tool in a slot, the best one, is right; `lead` is its lead over the fifth.

        Fitted to the public sets, with whole catalogues and with those of a few servers.
        """
        covered = float((self.found.scores[:, slot] / np.maximum(self.found.most, 1e-9)).max())
        cosine = max(0.0, float(np.vecdot(self.vectors, vector).max()))
        cover = float(self.found.covers[slot])
        ahead = min(lead, MOST_LEAD) * min(1.0, covered / TRUSTED)
        alone = 1 / (1 + math.exp(3.41 - 3.38 * cosine - 2.96 * cover - 5.29 * ahead))
        # Of many tools that fit alike none is ahead, and each fits.
        return max(alone, ALIKE / (1 + math.exp(2.8 - 1.4 * covered - 5.3 * cosine)))

    def _meaning(self) -> float:
        return MEANING / max(1, len(self.vectors) - 1) ** BLUR


def _beside(rows: Floats, servers: Sequence[int]) -> Floats:
    """Returns what the clauses and other tools of the same server add to the whole request's row."""
    best = np.zeros(max(servers) + 1, np.float32)
    np.maximum.at(best, servers, rows[0])
    clauses = rows[1:] if len(rows) > 1 else rows
    return CLAUSE * clauses.max(axis=0) + COMPANY * best[servers]


def _relative(lexical: Floats, most: Floats) -> Floats:
    """Scales the lexical scores of each row to 0 to 1."""
    best: Floats = np.maximum(lexical.max(axis=1, initial=0.0), WEAK * most)
    best[best <= 0] = 1.0
    return lexical / best[:, None]


def _top(scores: Floats, count: int) -> SlotArray:
    # Remove zeros first: a partition of many equal numbers takes ten times as long.
    above = np.flatnonzero(scores > 0)
    return above if len(above) <= count else above[np.argpartition(scores[above], -count)[-count:]]


PINNED = 0.25
HEAVIEST = -0.25
DESTRUCTIVE = -0.6
DEPRECATED = -0.4
WRITING = -0.25
"""For a tool that changes something, if the request only asks for information."""
UNNAMED = -0.15
"""For a tool with a special action, such as `convert`, if the request has no verb: "time in Tokyo" only asks
for the time."""
SAME_ACT, OTHER_ACT, AVOIDED_ACT = 0.02, -0.13, -0.6
"""For a tool that does what the request wants, that does something else, or what must not be done."""
UNASKED = -0.02
"""For a tool whose name speaks of a thing that the request does not: `link` in `create_issue_link`."""
CROWD, CROWDED = 4, -0.15
"""Tools of a server that may stand in front, and what the others lose."""
NAMES_REMEMBERED = 20_000
FRONT = 20
"""The tools that are looked at more closely."""
NEEDS_ID = -0.1
"""For a tool that gets one thing by its identifier, if the request has none: another has to find it first."""
ONLY_READS = -0.18
"""For a tool that only reads, if the request wants something done."""
ACT_BLUR = 0.5
"""How fast their weight falls with the number of clauses, each of which may want something else."""
UNAVAILABLE = {"down": -0.4, "unconnected": -0.2}
LEARNT, MOST_LEARNT = 2.0, 0.1
"""Makes shares of feedback boosts, which are meant for a score of a half, and the largest share."""
LIGHT_BYTES, HEAVY_BYTES = 20_000, 500_000
"""Result sizes with no penalty, and with the full penalty."""

Traits = npt.NDArray[np.void]

TRAITS = np.dtype(
    [
        ("pinned", np.bool_),
        ("destructive", np.bool_),
        ("deprecated", np.bool_),
        ("writes", np.bool_),
        ("needs_id", np.bool_),
        ("action", np.uint16),  # index in _ACTIONS of a special action in its name
        ("acts", np.uint16),  # what it does, as bits of `acts`
        ("heavy", np.uint8),  # index in _PROMISES of the word in its name that promises much data
    ]
)
_PREFIX = ("mcp", "api")
_READING = READS | TAKES
_WRITING = (WRITES | MAY_WRITE | DESTROYS) - _READING - NEITHER
_ACTIONS = ("", *sorted((WRITES | MAY_WRITE | DESTROYS | ACTS) - _READING))
_ACTION_STEMS = tuple(map(stem, _ACTIONS))
_ACTION_PLACES = {action: place for place, action in enumerate(_ACTIONS)}
_HEAVY_WORDS = ("", *sorted(HEAVY | WHOLE))
_HEAVY_STEMS = tuple(map(stem, _HEAVY_WORDS))
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
"""Matches descriptions that call the tool itself deprecated, not an argument or what it lists."""


TraitValues = tuple[bool, bool, bool, bool, bool, int, int, int]


def traits_of(document: ToolDocument) -> TraitValues:
    said = words(document.name)
    server = words(document.server)
    verb = _verb(said, server)
    return (
        document.pinned,
        _is_destructive(document, said),
        document.deprecated or _is_called_deprecated(document),
        _writes(document, verb),
        document.needs_id,
        _ACTION_PLACES.get(verb, 0),
        acts_of_tool(_own(said, server), words(document.description[:80]), document.read_only),
        _HEAVY_WORDS.index(_heavy_word(said)),
    )


def _verb(name: list[str], server: list[str]) -> str:
    """Returns the first word after the server's name (`commit` in `git_commit`), or a later known verb."""
    own = _own(name, server)
    sure = (word for word in own if word in TAKES or word in WRITES or word in DESTROYS)
    leads = (word for word in own[:1] if word in _READING or word in _ACTION_PLACES)
    return next(leads, None) or next(sure, "")


def _own(name: list[str], server: list[str]) -> list[str]:
    return [word for word in name if word not in server] or name


def _writes(document: ToolDocument, verb: str) -> bool:
    """Uses the tool's `readOnlyHint`, or its name if it has none."""
    return verb in _WRITING if document.read_only is None else not document.read_only


def _is_called_deprecated(document: ToolDocument) -> bool:
    return any(_DEPRECATED.search(text) for text in (document.title, document.description))


def _is_destructive(document: ToolDocument, said: list[str]) -> bool:
    """Uses the tool's `destructiveHint`, or its name if it has none."""
    if document.read_only or document.destructive is not None:
        return bool(document.destructive) and not document.read_only
    return document.read_only is None and any(word in DESTROYS for word in said)


def _heavy_word(said: list[str]) -> str:
    takes = any(word in TAKES for word in said)
    return next((word for word in said if word in HEAVY or (takes and word in WHOLE)), "")


def adjust_scores(scores: Floats, shares: Mapping[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
    """Applies the adjustments in order; returns the scores and the effect of each adjustment."""
    parts: dict[str, Floats] = {}
    for name, share in shares.items():
        parts[name] = share * np.where(share < 0, scores, np.minimum(scores, 2.0 * (1.0 - scores)))
        scores = scores + parts[name]
    return scores, parts


def adjustments(
    traits: Traits, sizes: Floats, asked: QueryIntent, states: Sequence[str], boosts: Floats | None
) -> Iterator[tuple[str, Floats]]:
    """Yields the adjustments by name, each as a share of the score."""
    known: Any = traits
    yield "pinned", PINNED * known["pinned"].astype(np.float32)
    yield "heavy", HEAVIEST * _heaviness(sizes, known["heavy"], asked)
    yield "deprecated", DEPRECATED * known["deprecated"].astype(np.float32)
    if asked.reads > 0:
        yield "destructive", DESTRUCTIVE * asked.reads * known["destructive"].astype(np.float32)
        yield "writes", WRITING * asked.reads * known["writes"].astype(np.float32)
    if asked.wanted or asked.avoided:
        yield "act", _act_shares(known["acts"], asked) / max(1, len(asked.texts) - 1) ** ACT_BLUR
    if not asked.has_id:
        yield (
            "needs_id",
            NEEDS_ID * (known["needs_id"] & (known["acts"] & BITS["get"] != 0)).astype(np.float32),
        )
    if not asked.has_verb:
        yield "unnamed", UNNAMED * _unnamed(known["action"], asked) * ~known["writes"]
    if any(state in UNAVAILABLE for state in states):
        yield "unavailable", np.array([UNAVAILABLE.get(state, 0.0) for state in states], np.float32)
    if boosts is not None:
        yield "learnt", np.clip(LEARNT * boosts, -MOST_LEARNT, MOST_LEARNT)


def _act_shares(acts: npt.NDArray[np.uint16], asked: QueryIntent) -> Floats:
    """Returns a share up for tools that do what is wanted, down for those that do something else."""
    shares = np.zeros(len(acts), np.float32)
    if asked.wanted:
        shares = np.where(acts & asked.wanted, SAME_ACT, OTHER_ACT).astype(np.float32)
        only_reads = (acts & READING != 0) & (acts & ~np.uint16(READING) == 0) & (acts & asked.wanted == 0)
        shares[only_reads] = 0.0 if asked.wanted & READING else ONLY_READS
        shares[acts == 0] = 0.0
    if asked.avoided:
        shares[(acts & asked.avoided != 0) & (acts & asked.wanted == 0)] = AVOIDED_ACT
    return shares


def _unasked(tools: Sequence[str], servers: Sequence[str], asked: QueryIntent) -> Floats:
    """Returns 1 for a tool whose name has a thing that the request does not mention."""
    known = asked.bags[0].keys()
    unasked = [not known >= _things(tool, server) for tool, server in zip(tools, servers, strict=True)]
    return np.array(unasked, np.float32)


@lru_cache(maxsize=NAMES_REMEMBERED)
def _things(tool: str, server: str) -> frozenset[str]:
    """Returns the stems of what a tool's full name speaks of, without its server's name and verbs."""
    own = {*words(tool)} - {*words(server), *_PREFIX} - ACT_WORDS
    return frozenset(map(stem, own))


def _crowding(servers: Sequence[str], asked: QueryIntent) -> Floats:
    """Returns 1 for tools after the first four of a server, unless the request names the server."""
    counts: dict[str, int] = {}
    found = np.zeros(len(servers), np.float32)
    for at, server in enumerate(servers):
        counts[server] = counts.get(server, 0) + 1
        if counts[server] > CROWD:
            found[at] = asked.bags[0].keys().isdisjoint(map(stem, words(server)))
    return found


def adjust_front(
    scores: Floats, tools: Sequence[str], servers: Sequence[str], asked: QueryIntent
) -> tuple[Floats, dict[str, Floats]]:
    """Applies what only the front of the ranking is worth looking at for; `tools` are full names."""
    parts = {"unasked": np.zeros_like(scores), "crowded": np.zeros_like(scores)}
    front: SlotArray = np.argsort(-scores, kind="stable")[:FRONT]
    first: list[int] = front.tolist()
    named = _unasked([tools[at] for at in first], [servers[at] for at in first], asked)
    parts["unasked"][front] = UNASKED * scores[front] * named
    scores = scores + parts["unasked"]
    front = front[np.argsort(-scores[front], kind="stable")]
    first = front.tolist()
    parts["crowded"][front] = CROWDED * scores[front] * _crowding([servers[at] for at in first], asked)
    return scores + parts["crowded"], parts


def _unnamed(actions: npt.NDArray[np.uint16], asked: QueryIntent) -> Floats:
    """Returns 1 for a tool whose action the request does not mention."""
    unsaid = [float(bool(action) and action not in asked.stems) for action in _ACTION_STEMS]
    return np.array(unsaid, np.float32)[actions]


def _heaviness(sizes: Floats, promises: npt.NDArray[np.uint8], asked: QueryIntent) -> Floats:
    """Returns penalties from 0 to 1: by measured sizes, else by words in names that were not asked for."""
    unasked = [float(bool(word) and word not in asked.stems) for word in _HEAVY_STEMS]
    measured = np.clip((sizes - LIGHT_BYTES) / (HEAVY_BYTES - LIGHT_BYTES), 0.0, 1.0)
    return np.where(sizes > 0, measured, np.array(unasked, np.float32)[promises])
