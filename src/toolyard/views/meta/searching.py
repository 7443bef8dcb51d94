"""Queries answered: by our index, and beside it by the remotes that search by themselves.

Owns who is asked, how long anybody waits, and what is said when a remote is down, slow or finds nothing.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ...catalogue.catalogue import TOOLS
from ...dispatch.remote import Remote, RemoteAnswer, RemoteTool
from ...search.documents import Query
from ...sessions.leases import Lease
from ...state.errors import StateError
from ...upstream.errors import UpstreamError
from ...wire.call import Call
from ...wire.errors import McpError
from ..instructions import brief
from .answers import Finding, Found
from .describing import described
from .known import Known
from .merging import by_words, cut, from_remote, merged, recommend, with_schemas
from .supplies import Supplies

if TYPE_CHECKING:
    from ...search.index import Index

logger = logging.getLogger("toolyard.views")

MAX_LIMIT = 25
CONSIDERED = 25
"""How many of a query are counted."""
FALLBACK_TOOLKITS = 3
NOTHING, WEAK = 0.05, 0.3
"""Scores below which a tool has nothing to do with a query, or little."""


class Searched(Struct, kw_only=True):
    findings: list[Finding]
    source: str
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None
    """As a remote gave it."""


class _Heard(Struct):
    """What came of asking the remotes."""

    results: list[list[Found]]
    """For each query."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None


class _Asked(Struct):
    """A remote that has been asked, and which of the queries."""

    remote: Remote
    places: list[int]
    task: "asyncio.Task[RemoteAnswer]"


class Searching:
    def __init__(self, supplies: Supplies, known: Known) -> None:
        self._supplies = supplies
        self._known = known

    async def answer(self, call: Call, queries: Sequence[Query]) -> Searched:
        asked = self._ask(call, queries)
        until = asyncio.get_running_loop().time() + self._supplies.settings.remote_seconds
        try:
            local = await self._local(call, queries)
            heard = await self._heard(asked, len(queries), until)
        finally:
            for one in asked:
                one.task.cancel()
        source = _source(bool(asked), any(heard.results), any(local))
        if asked and not any(heard.results) and not any(found and found[0].score >= WEAK for found in local):
            heard.results = await self._by_toolkits(call, queries, asked)
        findings = [self._finding(*three) for three in zip(queries, local, heard.results, strict=True)]
        with_schemas(findings, self._supplies.settings.schema_tokens)
        return Searched(
            findings=findings,
            source=source,
            missing=self._known.missing() | self._strangers(queries, asked) | heard.missing,
            guidance=heard.guidance,
            session=heard.session,
        )

    def _finding(self, query: Query, local: list[Found], remote: list[Found]) -> Finding:
        found = merged(local, remote)
        recommend(found)
        return Finding(query=query, results=found[: self._limit(query)], total=len(found))

    def _limit(self, query: Query) -> int:
        return max(1, min(query.limit or self._supplies.settings.limit, MAX_LIMIT))

    # Our index

    async def _local(self, call: Call, queries: Sequence[Query]) -> list[list[Found]]:
        await self._supplies.yard.catalogue.settled(self._supplies.yard.list_wait)
        self._supplies.yard.touch()
        index = await self._supplies.index()
        return [await self._hits(index, call, query) for query in queries]

    async def _hits(self, index: "Index", call: Call, query: Query) -> list[Found]:
        catalogue = self._supplies.yard.catalogue
        hits = index.search(
            query,
            max(CONSIDERED, self._limit(query)),
            among=lambda tool: catalogue.find(TOOLS, tool) is not None,
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

    # Remotes

    def _ask(self, call: Call, queries: Sequence[Query]) -> list[_Asked]:
        asked: list[_Asked] = []
        shelves = self._supplies.yard.catalogue.shelves
        for server, remote in self._supplies.remotes().items():
            # A server that is none of ours may be one of the remote's apps.
            places = [
                at
                for at, query in enumerate(queries)
                if query.server in ("", server) or query.server not in shelves
            ]
            if places:
                wanted = [queries[at] for at in places]
                limit = max(map(self._limit, wanted))
                asked.append(_Asked(remote, places, asyncio.create_task(remote.search(call, wanted, limit))))
        return asked

    async def _heard(self, asked: list[_Asked], count: int, until: float) -> _Heard:
        heard = _Heard([[] for _ in range(count)])
        if asked:
            left = max(0.0, until - asyncio.get_running_loop().time())
            await asyncio.wait([one.task for one in asked], timeout=left)
        for one in asked:
            answer = self._result(one, heard.missing)
            if answer is None:
                continue
            for place, tools in zip(one.places, answer.results, strict=False):
                heard.results[place] += from_remote(one.remote.server, tools)
            if not any(answer.results):
                heard.missing[one.remote.server] = "it found nothing"
            heard.guidance += answer.guidance
            heard.session = heard.session or answer.session
        return heard

    def _result(self, asked: _Asked, missing: dict[str, str]) -> RemoteAnswer | None:
        server = asked.remote.server
        if not asked.task.done():
            missing[server] = f"it did not answer within {self._supplies.settings.remote_seconds:g} s"
            return None
        try:
            return asked.task.result()
        except (McpError, StateError, TimeoutError) as error:
            missing[server] = brief(error.reason if isinstance(error, UpstreamError) else str(error))
        except Exception as error:  # whatever it stumbled over, the index can answer
            logger.error("the search of %s failed in an unforeseen way", server, exc_info=error)
            missing[server] = "its search failed in an unforeseen way"
        return None

    async def _by_toolkits(
        self, call: Call, queries: Sequence[Query], asked: Sequence[_Asked]
    ) -> list[list[Found]]:
        """Nobody has anything: the apps that sound like it may, and their tools are looked through here."""
        found: list[list[Found]] = [[] for _ in queries]
        for one in asked:
            try:
                async with asyncio.timeout(self._supplies.settings.remote_seconds):
                    for place in one.places:
                        tools = await self._tools_like(call, one.remote, queries[place])
                        found[place] += from_remote(one.remote.server, tools)
            except (McpError, StateError, TimeoutError):
                continue
        return found

    async def _tools_like(self, call: Call, remote: Remote, query: Query) -> list[RemoteTool]:
        toolkits = await remote.toolkits(call, query.use_case, query.category, FALLBACK_TOOLKITS)
        tools: list[RemoteTool] = []
        for toolkit in toolkits[:FALLBACK_TOOLKITS]:
            tools += await remote.tools_of(call, toolkit.slug)
        return by_words(query.use_case, tools)[:CONSIDERED]

    def _strangers(self, queries: Sequence[Query], asked: Sequence[_Asked]) -> dict[str, str]:
        """Servers that were named and are not there."""
        shelves = self._supplies.yard.catalogue.shelves
        named = [query.server[:80] for query in queries if query.server and query.server not in shelves]
        names = ", ".join(list(shelves)[:20]) or "none"
        return {} if asked else dict.fromkeys(named, f"there is no such server; there are {names}")


def _source(asked: bool, remote: bool, local: bool) -> str:
    if not asked:
        return "local"
    if not remote:
        return "fallback"
    return "composio+local" if local else "composio"
