"""The tool index: takes the tools of each server and finds those that fit a query, in memory.

Every tool has a slot: its row in the table and its number in the postings. Putting a server's tools
again touches only those that changed. Not safe for two threads at once; `prepared` does the long work,
changes nothing, and may run in a thread.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import Struct

from ..meaning.embedding import TextEmbedding
from . import table
from .documents import ToolDocument, ToolHit, ToolQuery
from .feedback import ResultSizes
from .intent import QueryIntent, read_intent
from .lexical import Floats, LexicalIndex, TermWeights, weigh_terms
from .ranking import Evidence, TraitValues, adjust_front, adjust_scores, adjustments, traits_of
from .table import (
    LEAST_SIMILARITY,
    NAMES_COMPARED,
    Bits,
    SlotTable,
    ToolRow,
    digest_of,
    name_bits,
    name_similarity,
    similar_rows,
)

DECIMALS = 4
"""Scores are rounded to this many decimals, so that rounding errors do not order equal ones."""
ABOUT = 0.3
"""The weight of a server's description in a tool's vector; the tool's own words weigh 1."""
COMPARED = 4
"""The place, counted from 0, of the hit over which the lead of the best one is measured."""
ENOUGH = 40
"""Extra candidates beyond the limit: adjustments may move any of them to the front."""
WIDENINGS = (1, 8, 1_000_000)
"""Factors by which to widen the search if the caller may see too few of the candidates."""

Among = Callable[[str], bool]
StateOf = Callable[[str], str]


def always_up(server: str) -> str:
    """The default state of a server."""
    return "up"


class PreparedTools(Struct, frozen=True):
    """A server's tools, ready to be put into the index."""

    server: str
    tools: frozenset[str]
    rows: list[ToolRow]
    traits: list[TraitValues]
    terms: list[TermWeights]
    vectors: Floats
    bits: Bits
    """`rows` to `bits` cover only new and changed tools."""


class ToolIndex:
    def __init__(self, semantic: TextEmbedding | None = None, sizes: ResultSizes | None = None) -> None:
        self._semantic = semantic or TextEmbedding.load()
        self.sizes = sizes or ResultSizes()
        self._lexical = LexicalIndex()
        self._slots = SlotTable.empty(self._semantic.dim)
        self._servers: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def servers(self) -> list[str]:
        return list(self._servers)

    def put(self, server: str, documents: Sequence[ToolDocument]) -> None:
        """Replaces the server's tools; encodes only those that changed."""
        self.commit(self.prepared(server, documents))

    def prepared(self, server: str, documents: Sequence[ToolDocument]) -> PreparedTools:
        """Does the slow part of `put`; changes nothing."""
        rows = {document.tool: ToolRow(document.tool, server, digest_of(document)) for document in documents}
        new = [document for document in documents if self._slots.row(document.tool) != rows[document.tool]]
        return PreparedTools(
            server=server,
            tools=frozenset(rows),
            rows=[rows[document.tool] for document in new],
            traits=[traits_of(document) for document in new],
            terms=[weigh_terms(document, self._semantic.translate) for document in new],
            vectors=self._vectors(new),
            bits=name_bits([document.tool for document in new]),
        )

    def _vectors(self, documents: Sequence[ToolDocument]) -> Floats:
        """Returns a vector for each document, from its own words and a little of its server's description."""
        vectors = self._semantic.encode([text_of(document) for document in documents])
        if any(document.about for document in documents):
            vectors = vectors + ABOUT * self._semantic.encode([document.about for document in documents])
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors

    def commit(self, prepared: PreparedTools) -> None:
        """Does the fast part of `put`."""
        for tool in sorted(self._servers.get(prepared.server, frozenset()) - prepared.tools):
            self._remove_tool(tool)
        means = self.sizes.means
        for at, row in enumerate(prepared.rows):
            mean = self._remove_tool(row.tool)  # kept if the tool only changed
            slot = self._slots.put(row, prepared.vectors[at], prepared.traits[at], prepared.bits[at])
            self._lexical.put(slot, prepared.terms[at])
            means[row.tool] = mean
        self._servers[prepared.server] = prepared.tools

    def remove(self, server: str) -> None:
        for tool in sorted(self._servers.pop(server, frozenset())):
            self._remove_tool(tool)

    def _remove_tool(self, tool: str) -> float:
        """Removes a tool and returns the mean size of its results."""
        slot = self._slots.remove(tool)
        if slot is not None:
            self._lexical.remove(slot)
        return self.sizes.means.pop(tool, 0.0)

    def nearest(self, name: str, limit: int = 3, *, among: Among | None = None) -> list[str]:
        """Returns tools with similar names, most similar first."""
        rows = map(self._slots.rows.__getitem__, similar_rows(name, self._slots.bits))
        like = (row.tool for row in rows if row is not None)
        allowed = like if among is None else filter(among, like)
        close = sorted((-name_similarity(name, tool), tool) for tool in islice(allowed, NAMES_COMPARED))
        return [tool for distance, tool in close if -distance >= LEAST_SIMILARITY][:limit]

    def search(
        self,
        query: ToolQuery,
        limit: int,
        *,
        among: Among | None = None,
        state_of: StateOf = always_up,
        boosts: Mapping[str, float] = {},
    ) -> list[ToolHit]:
        """Returns the matching tools, best first. `among` filters tools that the caller may see."""
        if limit < 1 or not len(self):
            return []
        asked = read_intent(query, self._semantic.translate)
        evidence = self._evidence(asked)
        slots, rows = self._candidates(evidence, limit, query.server, among)
        if not slots:
            return []
        servers = [row.server for row in rows]
        found = evidence.fused(slots, self._slots.vectors, _numbered(servers))
        sizes = np.array([self.sizes.means[row.tool] for row in rows], np.float32)
        shares = adjustments(
            self._slots.traits[slots], sizes, asked, _states(rows, state_of), _boosts_of(rows, boosts)
        )
        scores, moved = adjust_scores(found.scores, dict(shares))
        scores, more = adjust_front(scores, [row.tool for row in rows], servers, asked)
        rounded: list[float] = np.round(scores.astype(np.float64), DECIMALS).tolist()
        wanted = max(limit, COMPARED + 1)
        least = sorted(rounded, reverse=True)[min(wanted, len(rounded)) - 1]
        front = [at for at, score in enumerate(rounded) if score >= least]
        order = sorted(front, key=lambda at: (-rounded[at], rows[at].tool))
        first = order[0]
        if rounded[first] <= 0:
            return []
        lead = 1 - (rounded[order[COMPARED]] if len(order) > COMPARED else 0.0) / rounded[first]
        likely = evidence.confidence(slots[first], self._slots.vectors[slots[first]], lead)
        scale = min(likely / float(found.scores[first]), 1 / rounded[first])
        parts = {"lexical": found.lexical, "semantic": found.scores - found.lexical, **moved, **more}
        return [
            ToolHit(rows[at].tool, servers[at], score, _parts(parts, scale, at))
            for at in order[:limit]
            if (score := round(scale * rounded[at], DECIMALS)) > 0
        ]

    def _evidence(self, asked: QueryIntent) -> Evidence:
        vectors = self._semantic.encode(asked.texts)
        found = self._lexical.find(asked.bags, len(self._slots.rows))
        return Evidence(found, vectors, np.vecdot(self._slots.vectors, vectors[0]))

    def _candidates(
        self, evidence: Evidence, limit: int, server: str, among: Among | None
    ) -> tuple[list[int], list[ToolRow]]:
        """Returns the candidate slots and their rows; widens the search if the caller may see too few."""
        rows, slots, before = self._slots.rows, list[int](), 0
        for widening in WIDENINGS:
            wide = evidence.candidates(widening)
            slots = [slot for slot in wide if _fits(rows[slot], server, among)]
            if len(slots) >= limit + ENOUGH or len(wide) == before or (among is None and not server):
                break
            before = len(wide)
        return slots, [row for slot in slots if (row := rows[slot]) is not None]

    def save(self, path: Path) -> None:
        table.write_index(
            path, self._fingerprint(), self._slots, self._lexical.settled(), dict(self.sizes.means)
        )

    @classmethod
    def load(
        cls, path: Path, semantic: TextEmbedding | None = None, sizes: ResultSizes | None = None
    ) -> "ToolIndex":
        """Loads a saved index. Raises UnusableIndexError if it is missing, damaged or out of date."""
        index = cls(semantic, sizes)
        slots, postings, means = table.read_index(path, index._fingerprint(), index._semantic.dim)
        index._slots, index._lexical = slots, LexicalIndex(postings)
        servers: dict[str, set[str]] = {}
        for row in slots.rows:
            if row is not None:
                servers.setdefault(row.server, set()).add(row.tool)
                index.sizes.means[row.tool] = means.get(row.tool, 0.0)
        index._servers = {server: frozenset(tools) for server, tools in servers.items()}
        return index

    def _fingerprint(self) -> bytes:
        """Identifies the embedding: vectors of different embeddings cannot be compared."""
        return self._semantic.encode(["find the tools that fit", "encontrar ferramentas"]).tobytes()


def text_of(document: ToolDocument) -> str:
    """Returns the text of a document that is embedded."""
    names = " ".join(name for name, _ in document.parameters)
    return f"{document.server} {document.name} {document.title} {document.description} {names}"


def _fits(row: ToolRow | None, server: str, among: Among | None) -> bool:
    if row is None or (server and row.server != server):
        return False
    return among is None or among(row.tool)


def _numbered(servers: Sequence[str]) -> list[int]:
    numbers = {server: number for number, server in enumerate(dict.fromkeys(servers))}
    return [numbers[server] for server in servers]


def _states(rows: Sequence[ToolRow], state_of: StateOf) -> list[str]:
    states = {server: state_of(server) for server in {row.server for row in rows}}
    return [states[row.server] for row in rows]


def _boosts_of(rows: Sequence[ToolRow], boosts: Mapping[str, float]) -> Floats | None:
    return np.array([boosts.get(row.tool, 0.0) for row in rows], np.float32) if boosts else None


def _parts(parts: Mapping[str, Floats], scale: float, at: int) -> dict[str, float]:
    """Returns the parts of one hit's score, without adjustments of zero."""
    return {
        name: round(scale * float(values[at]), DECIMALS)
        for name, values in parts.items()
        if values[at] or name in ("lexical", "semantic")
    }
