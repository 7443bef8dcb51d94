"""Answers queries from our own index and from remotes that search by themselves, merged into one list.

Owns who is asked what, how long a remote may take, and what is reported of one that is down or slow.
"""

import asyncio
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from ...catalogue.items import TOOLS
from ...dispatch.remote import Remote, RemoteAnswer, RemoteTool
from ...search.documents import ToolQuery
from ...sessions.leases import Lease
from ...state.store import StateError
from ...upstream.errors import UpstreamError
from ...wire.call import Call
from ...wire.errors import McpError
from ..context import MetaToolContext
from ..instructions import brief
from .conversation import ToolResolver
from .description import describe_entry
from .tools import QueryMatches, ToolMatch

if TYPE_CHECKING:
    from ...search.index import ToolIndex


MAX_DESCRIPTION = 400
RECOMMENDED_SCORE = 0.6
"""A local score from which the best of a query is recommended."""
FIRST_RECOMMENDED, FIRST_RELATED = 0.95, 0.7
STEP, LEAST = 0.04, 0.2
UNCONNECTED = 0.1
TOKEN = 4.0
"""Characters of a JSON schema; in those of 3,000 public tools o200k has 4.3 to one, in few less than 3.7."""
WITH_SCHEMA = 3
"""For one query at most."""
_WORD = re.compile(r"[a-z0-9]{3,}")


def from_remote(server: str, tools: Sequence[RemoteTool]) -> list[ToolMatch]:
    """A remote gives an order and no scores: what it recommends begins above most of ours, the rest below."""
    found: list[ToolMatch] = []
    for at, tool in enumerate(sorted(tools, key=lambda tool: not tool.recommended)):
        first = FIRST_RECOMMENDED if tool.recommended else FIRST_RELATED
        score = max(LEAST, first - STEP * at - (0.0 if tool.connected else UNCONNECTED))
        found.append(
            ToolMatch(
                tool=tool.name,
                server=server,
                title=tool.title,
                description=shorten(tool.description),
                score=score,
                recommended=tool.recommended,
                connected=tool.connected,
                auth=tool.auth,
                input_schema=tool.input_schema,
                toolkit=tool.toolkit,
                parts={"remote": score},
            )
        )
    return found


def merged(local: Iterable[ToolMatch], remote: Iterable[ToolMatch]) -> list[ToolMatch]:
    """The best first. A tool that both have found is the remote's, with the better score."""
    found = {one.tool: one for one in local}
    for one in remote:
        ours = found.get(one.tool)
        if ours is not None and ours.score > one.score:
            one.score, one.parts = ours.score, ours.parts
        found[one.tool] = one
    return sorted(found.values(), key=lambda one: (-one.score, one.tool))


def recommend(found: list[ToolMatch]) -> None:
    """The best of them, when it is good enough and nobody has recommended another."""
    if found and found[0].score >= RECOMMENDED_SCORE and found[0].connected:
        found[0].recommended = True


def with_schemas(findings: Sequence[QueryMatches], tokens: int) -> None:
    """Leave the schemas of the best few, as many as there is room for: first the first of every query."""
    room = tokens
    given: set[str] = set()
    for rank in range(max((len(finding.results) for finding in findings), default=0)):
        for finding in findings:
            if rank >= len(finding.results):
                continue
            found = finding.results[rank]
            size = _size(found.input_schema)
            if rank >= WITH_SCHEMA or size > room or found.tool in given:
                found.input_schema = None
            elif found.input_schema is not None:
                room -= size
                given.add(found.tool)


def _size(schema: dict[str, Any] | None) -> int:
    return 0 if schema is None else math.ceil(len(msgspec.json.encode(schema)) / TOKEN)


def by_words(use_case: str, tools: Iterable[RemoteTool]) -> list[RemoteTool]:
    """Those that share a word with the use case, most of them first."""
    wanted = set(_WORD.findall(use_case.lower()))

    def shared(tool: RemoteTool) -> int:
        said = f"{tool.own} {tool.title} {tool.description} {tool.toolkit}".lower().replace("_", " ")
        return len(wanted & set(_WORD.findall(said)))

    counted = [(shared(tool), tool) for tool in tools]
    return [tool for count, tool in sorted(counted, key=lambda pair: -pair[0]) if count]


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"


logger = logging.getLogger("toolyard.views")

FALLBACK_TOOLKITS = 3
FALLBACK_TOOLS = 25


class RemoteMatches(Struct):
    """What came of it."""

    results: list[list[ToolMatch]]
    """For each query."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None


class RemoteRequest(Struct):
    """A remote that has been asked, and which of the queries."""

    remote: Remote
    places: list[int]
    task: "asyncio.Task[RemoteAnswer]"


class RemoteSearch:
    """Begun at once, so that they work while the index is asked; ended with the block."""

    def __init__(
        self, supplies: MetaToolContext, call: Call, queries: Sequence[ToolQuery], limits: Sequence[int]
    ) -> None:
        self._supplies = supplies
        self._call = call
        self._queries = queries
        self._seconds = supplies.settings.remote_seconds
        self._until = asyncio.get_running_loop().time() + self._seconds
        self.asked = [
            self._ask(remote, places, limits)
            for remote in supplies.remotes().values()
            if (places := self._places(remote))
        ]

    def __enter__(self) -> "RemoteSearch":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.asked:
            one.task.cancel()

    def _places(self, remote: Remote) -> list[int]:
        """The queries that are for it: a server that is none of ours may be one of its apps."""
        servers = self._supplies.yard.catalogue.servers
        return [
            at
            for at, query in enumerate(self._queries)
            if query.server in ("", remote.server) or query.server not in servers
        ]

    def _ask(self, remote: Remote, places: list[int], limits: Sequence[int]) -> RemoteRequest:
        wanted = [self._queries[at] for at in places]
        searching = remote.search(self._call, wanted, max(limits[at] for at in places))
        return RemoteRequest(remote, places, asyncio.ensure_future(searching))

    async def heard(self) -> RemoteMatches:
        heard = RemoteMatches([[] for _ in self._queries])
        if self.asked:
            left = max(0.0, self._until - asyncio.get_running_loop().time())
            await asyncio.wait([one.task for one in self.asked], timeout=left)
        for one in self.asked:
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

    def _result(self, asked: RemoteRequest, missing: dict[str, str]) -> RemoteAnswer | None:
        server = asked.remote.server
        if not asked.task.done():
            missing[server] = f"it did not answer within {self._seconds:g} s"
            return None
        try:
            return asked.task.result()
        except (McpError, StateError, TimeoutError) as error:
            missing[server] = brief(error.reason if isinstance(error, UpstreamError) else str(error))
        except Exception as error:  # whatever it stumbled over, the index can answer
            logger.error("the search of %s failed in an unforeseen way", server, exc_info=error)
            missing[server] = "its search failed in an unforeseen way"
        return None

    async def by_toolkits(self) -> list[list[ToolMatch]]:
        """Nobody has anything: the apps that sound like it may, and their tools are looked through here."""
        found: list[list[ToolMatch]] = [[] for _ in self._queries]
        for one in self.asked:
            if not one.task.done():  # it hangs, and would hang once more
                continue
            try:
                async with asyncio.timeout(self._seconds):
                    for place in one.places:
                        tools = await self._tools_like(one.remote, self._queries[place])
                        found[place] += from_remote(one.remote.server, tools)
            except (McpError, StateError, TimeoutError):
                continue
        return found

    async def _tools_like(self, remote: Remote, query: ToolQuery) -> list[RemoteTool]:
        toolkits = await remote.toolkits(self._call, query.use_case, query.category, FALLBACK_TOOLKITS)
        tools: list[RemoteTool] = []
        for toolkit in toolkits[:FALLBACK_TOOLKITS]:
            tools += await remote.tools_of(self._call, toolkit.slug)
        return by_words(query.use_case, tools)[:FALLBACK_TOOLS]


MAX_LIMIT = 25
MAX_SHOWN = 100
"""Tools in one answer, of all its queries; each says how many there are beside those that it shows."""
CONSIDERED = 25
"""How many of a query are counted."""
COMPOSIO_META_TOOLS = frozenset(
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


class MergedMatches(Struct, kw_only=True):
    findings: list[QueryMatches]
    source: str
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None
    """As a remote gave it."""


class ToolSearch:
    def __init__(self, supplies: MetaToolContext, known: ToolResolver) -> None:
        self._supplies = supplies
        self._known = known

    async def answer(self, call: Call, queries: Sequence[ToolQuery]) -> MergedMatches:
        most = max(1, MAX_SHOWN // len(queries))
        limits = [min(self._limit(query), most) for query in queries]
        with RemoteSearch(self._supplies, call, queries, limits) as asking:
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
        return MergedMatches(
            findings=findings,
            source="fallback" if is_fallback else _source(findings, local, heard.results),
            missing=self._known.missing() | self._strangers(queries, bool(asking.asked)) | heard.missing,
            guidance=heard.guidance,
            session=heard.session,
        )

    def _finding(
        self, query: ToolQuery, limit: int, local: list[ToolMatch], remote: list[ToolMatch]
    ) -> QueryMatches:
        found = merged(local, remote)
        recommend(found)
        return QueryMatches(query=query, results=found[:limit], total=len(found))

    def _limit(self, query: ToolQuery) -> int:
        return max(1, min(query.limit or self._supplies.settings.limit, MAX_LIMIT))

    # Our index

    async def _local(self, call: Call, queries: Sequence[ToolQuery]) -> list[list[ToolMatch]]:
        """In what is known now: `missing` names the servers that are still starting."""
        self._supplies.yard.touch()
        index = await self._supplies.index()
        return [await self._hits(index, call, query) for query in queries]

    async def _hits(self, index: "ToolIndex", call: Call, query: ToolQuery) -> list[ToolMatch]:
        hits = index.search(
            query,
            max(CONSIDERED, self._limit(query)),
            among=self._among(),
            state_of=self._known.state_of,
            boosts=await self._boosts(call, query),
        )
        found: list[ToolMatch] = []
        for at, hit in enumerate(hit for hit in hits if hit.score >= NOTHING):
            # Only what can be shown is decoded.
            one = ToolMatch(tool=hit.tool, server=hit.server, score=hit.score, parts=hit.parts)
            found.append(self._described(one) if at < self._limit(query) else one)
        await asyncio.sleep(0)  # many queries are no reason for others to wait
        return found

    def _among(self) -> Callable[[str], bool]:
        catalogue, remotes = self._supplies.yard.catalogue, self._supplies.remotes()

        def shows(tool: str) -> bool:
            entry = catalogue.find(TOOLS, tool)
            return entry is not None and not (
                entry.server in remotes and entry.item.own in COMPOSIO_META_TOOLS
            )

        return shows

    async def _boosts(self, call: Call, query: ToolQuery) -> Mapping[str, float]:
        if self._supplies.outcomes is None:
            return {}
        try:
            return await self._supplies.outcomes.boosts(call.caller.tenant, query.use_case)
        except StateError:
            return {}

    def _described(self, found: ToolMatch) -> ToolMatch:
        entry = self._supplies.yard.catalogue.find(TOOLS, found.tool)
        if entry is not None:
            told = describe_entry(entry)
            found.title, found.description = told.title, shorten(told.description)
            found.input_schema = told.input_schema
            found.connected = self._known.state_of(found.server) == "up"
        return found

    def _strangers(self, queries: Sequence[ToolQuery], asked: bool) -> dict[str, str]:
        """Servers that were named and are not there."""
        servers = self._supplies.yard.catalogue.servers
        named = [query.server[:80] for query in queries if query.server and query.server not in servers]
        names = ", ".join(list(servers)[:20]) or "none"
        return {} if asked else dict.fromkeys(named, f"there is no such server; there are {names}")


def _source(findings: list[QueryMatches], local: list[list[ToolMatch]], remote: list[list[ToolMatch]]) -> str:
    """Whose finds are shown: what is left out does not count."""
    shown = {one.tool for finding in findings for one in finding.results}
    ours = any(one.tool in shown for found in local for one in found)
    theirs = any(one.tool in shown for found in remote for one in found)
    return "composio+local" if ours and theirs else "composio" if theirs else "local"
