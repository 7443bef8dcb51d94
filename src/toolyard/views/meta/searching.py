"""Queries answered: by our index, and beside it by the remotes that search by themselves.

Owns what our own index is asked, and what the answers of all come to.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ...catalogue.catalogue import TOOLS
from ...search.documents import Query
from ...sessions.leases import Lease
from ...state.errors import StateError
from ...wire.call import Call
from .answers import Finding, Found
from .asking import Asking
from .describing import described
from .known import Known
from .merging import cut, merged, recommend, with_schemas
from .supplies import Supplies

if TYPE_CHECKING:
    from ...search.index import Index

MAX_LIMIT = 25
MAX_SHOWN = 100
"""Tools in one answer, of all its queries; each says how many there are beside those that it shows."""
CONSIDERED = 25
"""How many of a query are counted."""
DONE_HERE = frozenset(
    f"COMPOSIO_{job}"
    for job in (
        "SEARCH_TOOLS",
        "GET_TOOL_SCHEMAS",
        "MULTI_EXECUTE_TOOL",
        "EXECUTE_TOOL",
        "MANAGE_CONNECTIONS",
        "INITIATE_CONNECTION",
        "WAIT_FOR_CONNECTION",
        "WAIT_FOR_CONNECTIONS",
        "LIST_TOOLKITS",
    )
)
"""What a remote lists for others to search it with. Our own meta tools do that, and do not find these."""
NOTHING, WEAK = 0.05, 0.3
"""Scores below which a tool has nothing to do with a query, or little."""


class Searched(Struct, kw_only=True):
    findings: list[Finding]
    source: str
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None
    """As a remote gave it."""


class Searching:
    def __init__(self, supplies: Supplies, known: Known) -> None:
        self._supplies = supplies
        self._known = known

    async def answer(self, call: Call, queries: Sequence[Query]) -> Searched:
        most = max(1, MAX_SHOWN // len(queries))
        limits = [min(self._limit(query), most) for query in queries]
        with Asking(self._supplies, call, queries, limits) as asking:
            local = await self._local(call, queries)
            heard = await asking.heard()
            is_fallback = bool(asking.asked) and not any(heard.results)
            if is_fallback and not any(found and found[0].score >= WEAK for found in local):
                heard.results = await asking.by_toolkits()
        findings = [
            self._finding(query, limit, ours, theirs)
            for query, limit, ours, theirs in zip(queries, limits, local, heard.results, strict=True)
        ]
        with_schemas(findings, self._supplies.settings.schema_tokens)
        return Searched(
            findings=findings,
            source="fallback" if is_fallback else _source(findings, local, heard.results),
            missing=self._known.missing() | self._strangers(queries, bool(asking.asked)) | heard.missing,
            guidance=heard.guidance,
            session=heard.session,
        )

    def _finding(self, query: Query, limit: int, local: list[Found], remote: list[Found]) -> Finding:
        found = merged(local, remote)
        recommend(found)
        return Finding(query=query, results=found[:limit], total=len(found))

    def _limit(self, query: Query) -> int:
        return max(1, min(query.limit or self._supplies.settings.limit, MAX_LIMIT))

    # Our index

    async def _local(self, call: Call, queries: Sequence[Query]) -> list[list[Found]]:
        """In what is known now: `missing` names the servers that are still starting."""
        self._supplies.yard.touch()
        index = await self._supplies.index()
        return [await self._hits(index, call, query) for query in queries]

    async def _hits(self, index: "Index", call: Call, query: Query) -> list[Found]:
        hits = index.search(
            query,
            max(CONSIDERED, self._limit(query)),
            among=self._among(),
            state_of=self._known.state_of,
            boosts=await self._boosts(call, query),
        )
        found: list[Found] = []
        for at, hit in enumerate(hit for hit in hits if hit.score >= NOTHING):
            # Only what can be shown is decoded.
            one = Found(tool=hit.tool, server=hit.server, score=hit.score, parts=hit.parts)
            found.append(self._described(one) if at < self._limit(query) else one)
        await asyncio.sleep(0)  # many queries are no reason for others to wait
        return found

    def _among(self) -> Callable[[str], bool]:
        catalogue, remotes = self._supplies.yard.catalogue, self._supplies.remotes()

        def shows(tool: str) -> bool:
            entry = catalogue.find(TOOLS, tool)
            return entry is not None and not (entry.server in remotes and entry.item.own in DONE_HERE)

        return shows

    async def _boosts(self, call: Call, query: Query) -> Mapping[str, float]:
        if self._supplies.outcomes is None:
            return {}
        try:
            return await self._supplies.outcomes.boosts(call.caller.tenant, query.use_case)
        except StateError:
            return {}

    def _described(self, found: Found) -> Found:
        entry = self._supplies.yard.catalogue.find(TOOLS, found.tool)
        if entry is not None:
            told = described(entry)
            found.title, found.description = told.title, cut(told.description)
            found.input_schema = told.input_schema
            found.connected = self._known.state_of(found.server) == "up"
        return found

    def _strangers(self, queries: Sequence[Query], asked: bool) -> dict[str, str]:
        """Servers that were named and are not there."""
        shelves = self._supplies.yard.catalogue.shelves
        named = [query.server[:80] for query in queries if query.server and query.server not in shelves]
        names = ", ".join(list(shelves)[:20]) or "none"
        return {} if asked else dict.fromkeys(named, f"there is no such server; there are {names}")


def _source(findings: list[Finding], local: list[list[Found]], remote: list[list[Found]]) -> str:
    """Whose finds are shown: what is left out does not count."""
    shown = {one.tool for finding in findings for one in finding.results}
    ours = any(one.tool in shown for found in local for one in found)
    theirs = any(one.tool in shown for found in remote for one in found)
    return "composio+local" if ours and theirs else "composio" if theirs else "local"
