"""Learns from calls: their outcomes adjust later rankings a little, and tools with big results sink.

Each tenant has one entry in the state: a value from -1 to 1 for each tool and term of the use cases it
was called for, changed by compare-and-set. Terms are kept as hashes. A boost is a mean over a query's
terms and never more than `MOST`. A store that is down means no boosts and nothing learned; it is never
an error.
"""

import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal
from zlib import crc32

import msgspec

from ..state.memory import MemoryState
from ..state.store import State, StateError
from .terms import terms

logger = logging.getLogger("toolyard.search")

FeedbackKind = Literal["success", "failure", "arguments"]

TARGETS: Mapping[FeedbackKind, float] = {"success": 1.0, "failure": -1.0, "arguments": -0.3}
"""Where an outcome pulls the value of a term; wrong arguments say little about the tool."""
STEP = 0.3
"""The share of the remaining distance that each outcome moves a value."""
MOST = 0.1
"""The largest boost, up or down."""
MAX_TERMS = 16
"""Terms kept of a use case, and of a tool."""
MAX_TOOLS = 300
"""Tools of a tenant; the one used least recently is forgotten."""
KEPT_SECONDS = 90 * 86400.0
ATTEMPTS = 5
MAX_REMEMBERED = 256
"""Tenants whose entry is kept decoded."""

SIZE_MEMORY = 0.2
"""The weight of a new result in the running mean of a tool's result sizes."""

LearnedValues = dict[str, dict[int, float]]
"""The values of terms by tool; tools and terms in the order of their latest outcome."""


class ResultSizes:
    """The running mean of the size of each tool's results, in bytes.

    The index adds and removes tools, so results of tools that it does not hold are not noted. A mean of 0
    stands for a tool without results so far.
    """

    def __init__(self) -> None:
        self.means: dict[str, float] = {}

    def note(self, tool: str, size: int) -> None:
        mean = self.means.get(tool)
        if mean is not None:
            self.means[tool] = mean + SIZE_MEMORY * (size - mean) if mean else float(size)


class SearchFeedback:
    """Keeps values in the state, or in this process's memory if there is none."""

    def __init__(self, state: State | None = None) -> None:
        self._state: State = state or MemoryState()
        self._read: dict[str, tuple[bytes, LearnedValues]] = {}

    async def note(self, tenant: str, use_case: str, tool: str, outcome: FeedbackKind) -> None:
        """Records the outcome of a call of a tool that was found for a use case."""
        asked, key = _asked(use_case), _key(tenant)
        if not asked:
            return
        try:
            for _ in range(ATTEMPTS):
                old = await self._state.get(key)
                new = msgspec.msgpack.encode(_moved(_decoded(old), asked, tool, TARGETS[outcome]))
                if await self._state.swap(key, old, new, KEPT_SECONDS):
                    return
        except StateError as error:
            logger.debug("the outcome of a call of %r was not recorded: %s", tool, error)

    async def boosts(self, tenant: str, use_case: str) -> Mapping[str, float]:
        """Returns the boosts by tool, from -MOST to MOST, without tools that have none."""
        asked = _asked(use_case)
        if not asked:
            return {}
        found: dict[str, float] = {}
        for tool, values in (await self._learnt(_key(tenant))).items():
            total = sum(values.get(term, 0.0) for term in asked)
            if total:
                found[tool] = MOST * total / len(asked)
        return found

    async def _learnt(self, key: str) -> LearnedValues:
        try:
            body = await self._state.get(key)
        except StateError as error:
            logger.debug("search feedback could not be read: %s", error)
            return {}
        known = self._read.get(key)
        if known is None or known[0] != body:
            if len(self._read) >= MAX_REMEMBERED:
                self._read.clear()
            known = self._read[key] = (body or b"", _decoded(body))
        return known[1]


def _key(tenant: str) -> str:
    return f"learnt:{blake2b(tenant.encode(errors='replace'), digest_size=16).hexdigest()}"


def _asked(use_case: str) -> list[int]:
    distinct = dict.fromkeys(terms(use_case))
    return [crc32(term.encode(errors="replace")) for term in list(distinct)[:MAX_TERMS]]


def _decoded(body: bytes | None) -> LearnedValues:
    """Returns an empty dict for data of another version."""
    try:
        return {} if body is None else msgspec.msgpack.decode(body, type=LearnedValues)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _moved(learnt: LearnedValues, asked: list[int], tool: str, target: float) -> LearnedValues:
    values = learnt.pop(tool, {})
    for term in asked:
        value = values.pop(term, 0.0)
        values[term] = value + STEP * (target - value)
    learnt[tool] = dict(list(values.items())[-MAX_TERMS:])
    for forgotten in list(learnt)[: max(0, len(learnt) - MAX_TOOLS)]:
        del learnt[forgotten]
    return learnt
