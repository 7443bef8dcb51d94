"""The index: what is mounted, and what of it fits a query. In memory, in process, incremental.

Every tool has a slot: its row in the table of vectors and its number in the postings. Putting a server's
tools again touches only those that changed.

Not safe for two threads at once. What takes long, `prepared`, changes nothing and may run in a thread.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import Struct

from . import stored
from .asked import Asked, understood
from .documents import Document, Hit, Query
from .lexical import Floats, Lexical, weights_of
from .nearest import LIKE_ENOUGH, LOOKED_AT, bits_of, closeness, likeliest
from .ranking import Evidence, Fused
from .semantic import Semantic
from .slots import Row, Slots, digest_of
from .traits import adjustments, traits_of

DECIMALS = 4
"""Of a score: what differs by less is equal, however the sums were rounded."""
SHORTLIST = 40
"""How many more than asked for are adjusted for what is known of them beside their words."""
WIDENINGS = (1, 8, 1_000_000)
"""Of the candidates, when who asks may not see enough of them."""

Among = Callable[[str], bool]
StateOf = Callable[[str], str]


def up(server: str) -> str:
    """The state of a server when nobody says otherwise."""
    return "up"


class Prepared(Struct, frozen=True):
    """A server's tools, worked out and not yet in the index."""

    server: str
    tools: frozenset[str]
    rows: list[Row]
    weights: list[dict[str, float]]
    vectors: Floats
    """Rows, weights and vectors are of the tools that are new or changed."""


class Index:
    def __init__(self, semantic: Semantic | None = None) -> None:
        self._semantic = semantic or Semantic.load()
        self._lexical = Lexical()
        self._slots = Slots.empty(self._semantic.dim)
        self._servers: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def put(self, server: str, documents: Sequence[Document]) -> None:
        """These are the server's tools now; only what changed is encoded anew."""
        self.commit(self.prepared(server, documents))

    def prepared(self, server: str, documents: Sequence[Document]) -> Prepared:
        """The long part of `put`."""
        new: list[tuple[Document, bytes]] = []
        for document in documents:
            digest, known = digest_of(document), self._slots.row(document.tool)
            if known is None or known.digest != digest:
                new.append((document, digest))
        return Prepared(
            server=server,
            tools=frozenset(document.tool for document in documents),
            rows=[Row(document.tool, server, digest, traits_of(document)) for document, digest in new],
            weights=[weights_of(document, self._semantic.translate) for document, _ in new],
            vectors=self._semantic.encode([text_of(document) for document, _ in new]),
        )

    def commit(self, prepared: Prepared) -> None:
        """The short part of `put`."""
        for tool in sorted(self._servers.get(prepared.server, frozenset()) - prepared.tools):
            self._take_out(tool)
        for row, weights, vector in zip(prepared.rows, prepared.weights, prepared.vectors, strict=True):
            known = self._slots.row(row.tool)
            if known is not None:
                row.size = known.size
                self._take_out(row.tool)
            self._lexical.put(self._slots.put(row, vector, bits_of(row.tool)), weights)
        self._servers[prepared.server] = prepared.tools

    def remove(self, server: str) -> None:
        for tool in sorted(self._servers.pop(server, frozenset())):
            self._take_out(tool)

    def _take_out(self, tool: str) -> None:
        slot = self._slots.remove(tool)
        if slot is not None:
            self._lexical.remove(slot)

    def note_size(self, tool: str, size: int) -> None:
        """One result of a tool had so many bytes."""
        row = self._slots.row(tool)
        if row is not None:
            row.note_size(size)

    def nearest(self, name: str, limit: int = 3, *, among: Among | None = None) -> list[str]:
        """Tools with names like this one, the likest first."""
        rows = map(self._slots.rows.__getitem__, likeliest(name, self._slots.bits))
        tools = (row.tool for row in rows if row is not None and (among is None or among(row.tool)))
        close = sorted((-closeness(name, tool), tool) for tool in islice(tools, LOOKED_AT))
        return [tool for distance, tool in close if -distance >= LIKE_ENOUGH][:limit]

    def search(
        self,
        query: Query,
        limit: int,
        *,
        among: Among | None = None,
        state_of: StateOf = up,
        boosts: Mapping[str, float] = {},
    ) -> list[Hit]:
        """The tools that fit, the best first; `among` says of a tool whether who asks may see it."""
        if limit < 1 or not len(self):
            return []
        asked = understood(query, self._semantic.translate)
        evidence = self._evidence(asked)
        slots = self._candidates(evidence, limit, query.server, among)
        if not slots:
            return []
        found = evidence.fused(slots, self._slots.vectors)
        best: list[int] = np.argsort(-found.scores, kind="stable")[: limit + SHORTLIST].tolist()
        hits = [self._hit(slots[at], found, at, asked, state_of, boosts) for at in best]
        hits.sort(key=lambda hit: (-hit.score, hit.tool))
        return [hit for hit in hits if hit.score > 0][:limit]

    def _evidence(self, asked: Asked) -> Evidence:
        vectors = self._semantic.encode(asked.texts)
        lexical, most = self._lexical.scores(asked.bags, len(self._slots.rows), len(self))
        return Evidence(lexical, most, vectors, np.vecdot(self._slots.vectors, vectors[0]))

    def _candidates(self, evidence: Evidence, limit: int, server: str, among: Among | None) -> list[int]:
        """The slots worth a closer look; more of them when who asks may see few."""
        rows = self._slots.rows
        slots: list[int] = []
        for widening in WIDENINGS:
            wide = evidence.candidates(widening)
            slots = [slot for slot in wide if _fits(rows[slot], server, among)]
            if len(slots) >= limit + SHORTLIST or len(wide) >= len(rows):
                break
        return slots

    def _hit(
        self,
        slot: int,
        found: Fused,
        at: int,
        asked: Asked,
        state_of: StateOf,
        boosts: Mapping[str, float],
    ) -> Hit:
        row = self._slots.rows[slot]
        assert row is not None, "only slots that are taken are candidates"
        score = float(found.scores[at])
        lexical = score * float(found.lexical[at])
        parts = {"lexical": lexical, "semantic": score - lexical}
        moves = adjustments(row.traits, row.size, state_of(row.server), asked, boosts.get(row.tool, 0.0))
        for name, share in moves:
            parts[name] = share * (score if share < 0 else min(score, 2.0 * (1.0 - score)))
            score += parts[name]
        shown = {name: round(part, DECIMALS) for name, part in parts.items()}
        return Hit(row.tool, row.server, round(score, DECIMALS), shown)

    def save(self, path: Path) -> None:
        stored.write(path, self._fingerprint(), self._slots, self._lexical.settled())

    @classmethod
    def load(cls, path: Path, semantic: Semantic | None = None) -> "Index":
        """What was saved; UnusableIndex when that is missing, damaged or out of date."""
        index = cls(semantic)
        slots, postings = stored.read(path, index._fingerprint(), index._semantic.dim)
        index._slots, index._lexical = slots, Lexical(postings)
        servers: dict[str, set[str]] = {}
        for row in slots.rows:
            if row is not None:
                servers.setdefault(row.server, set()).add(row.tool)
        index._servers = {server: frozenset(tools) for server, tools in servers.items()}
        return index

    def _fingerprint(self) -> bytes:
        """Of the embedding: vectors of two do not compare."""
        return self._semantic.encode(["find the tools that fit", "encontrar ferramentas"]).tobytes()


def text_of(document: Document) -> str:
    """What of a document is given a meaning."""
    names = " ".join(name for name, _ in document.parameters)
    return f"{document.server} {document.name} {document.title} {document.description} {names}"


def _fits(row: Row | None, server: str, among: Among | None) -> bool:
    if row is None or (server and row.server != server):
        return False
    return among is None or among(row.tool)
