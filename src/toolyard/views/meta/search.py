"""Answers queries from the gateway's index and from remotes that search by themselves, merged into one list.

Decides which remotes get which queries, how long they may take, and what is reported of those that are down
or slow. `ToolSearch` is the whole; `RemoteSearch` asks the remotes; merging and ranking are at the end.
"""

import asyncio
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from ...catalogue.items import MAX_ABOUT, TOOLS, own_description
from ...dispatch.remote import Remote, RemoteAnswer, RemoteTool
from ...languages import said
from ...search.documents import ToolQuery, fits_well
from ...sessions.leases import Lease
from ...state.store import StateError
from ...telemetry.events import FallbackReason, SearchFallback
from ...upstream.errors import UpstreamError
from ...wire.call import Call
from ...wire.errors import McpError
from ...wire.text import printable
from ..context import MetaToolContext
from ..instructions import brief
from ..signatures import access, purpose
from .conversation import ToolResolver
from .description import describe_entry
from .tools import QueryMatches, ToolMatch

if TYPE_CHECKING:
    from ...search.index import ToolIndex


logger = logging.getLogger("toolyard.views")

MAX_LIMIT = 25
MAX_SHOWN = 100
"""Tools in one answer to all queries together; `total_results` counts those left out too."""
CONSIDERED = 25
"""Tools counted for one query."""
TO_CONNECT = "see manage_connections"
"""What a model does about a server that is not connected; a person at a terminal has a command for it."""
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
"""Meta tools that a remote lists. Searches leave them out: the gateway's own do the same."""
UNRELATED, WEAK = 0.05, 0.3
"""Scores below which a tool has nothing, or little, to do with a query."""
FALLBACK_TOOLKITS = 3
FALLBACK_TOOLS = 25

MAX_DESCRIPTION = 400
RECOMMENDED_SCORE = 0.6
"""The lowest local score with which the best tool of a query is recommended."""
FIRST_RECOMMENDED, FIRST_RELATED = 0.95, 0.7
SCORE_STEP, MIN_SCORE = 0.04, 0.2
UNCONNECTED_PENALTY = 0.1
CHARACTERS_PER_TOKEN = 4.0
"""In the JSON schemas of 3,000 public tools o200k has 4.3 characters in a token, in few less than 3.7."""
MAX_SCHEMAS = 3
"""Schemas for one query."""
_WORD = re.compile(r"[a-z0-9]{3,}")


class MergedMatches(Struct, kw_only=True):
    findings: list[QueryMatches]
    source: str
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None
    """A session that a remote returned."""


class ToolSearch:
    def __init__(self, context: MetaToolContext, resolver: ToolResolver) -> None:
        self._context = context
        self._resolver = resolver

    async def answer(self, call: Call, queries: Sequence[ToolQuery]) -> MergedMatches:
        most = max(1, MAX_SHOWN // len(queries))
        limits = [min(self._limit(query), most) for query in queries]
        with RemoteSearch(self._context, call, queries, limits) as search:
            local = await self._local(call, queries)
            remote = await search.results()
            is_fallback = bool(search.requests) and not any(remote.results)
            self._note_fallbacks(remote, is_fallback)
            if is_fallback and not any(found and found[0].score >= WEAK for found in local):
                remote.results = await search.by_toolkits()
                # Apps that match by name leave nothing to tools that hardly match.
                local = [[] if theirs else ours for ours, theirs in zip(local, remote.results, strict=True)]
        findings = [
            self._finding(query, limit, ours, theirs)
            for query, limit, ours, theirs in zip(queries, limits, local, remote.results, strict=True)
        ]
        lacking = await self._mark_unconnected(call, findings)
        limit_schemas(findings, self._context.settings.schema_tokens)
        unknown = {} if search.requests else self._unknown_servers(call, queries)
        return MergedMatches(
            findings=findings,
            source="fallback" if is_fallback else _source(findings, local, remote.results),
            missing=self._resolver.missing(call) | lacking | unknown | remote.missing,
            guidance=remote.guidance,
            session=remote.session,
        )

    def _note_fallbacks(self, remote: "RemoteMatches", is_fallback: bool) -> None:
        """Note for which remotes the index answers. One that found nothing is no loss if another did."""
        for server, reason in remote.faults.items():
            if is_fallback or reason != "nothing found":
                event = SearchFallback(server=server, reason=reason, error=remote.missing[server])
                self._context.events.note(event)

    async def _mark_unconnected(self, call: Call, findings: Sequence[QueryMatches]) -> dict[str, str]:
        """Say of tools that their server wants a login first, and of servers that nothing of them shows."""
        found = [match for finding in findings for match in finding.results]
        lacking = await self._context.unconnected(call, (match.server for match in found))
        for match in found:
            if match.server in lacking:
                match.connected, match.auth, match.recommended = False, lacking[match.server].auth, False
        advice = said(TO_CONNECT, "veja manage_connections")
        return {server: f"{one.reason}; {advice}" for server, one in lacking.items()}

    def _finding(
        self, query: ToolQuery, limit: int, local: list[ToolMatch], remote: list[ToolMatch]
    ) -> QueryMatches:
        found = merge(local, remote)
        recommend(found)
        weak = not fits_well(one.score for one in found)
        return QueryMatches(query=query, results=found[:limit], total=len(found), weak=weak)

    def _limit(self, query: ToolQuery) -> int:
        return max(1, min(query.limit or self._context.settings.limit, MAX_LIMIT))

    # The gateway's index

    async def _local(self, call: Call, queries: Sequence[ToolQuery]) -> list[list[ToolMatch]]:
        """Search the tools known now; `missing` names the servers that are still starting."""
        self._context.view_context.touch()
        index = await self._context.index()
        return [await self._hits(index, call, query) for query in queries]

    async def _hits(self, index: "ToolIndex", call: Call, query: ToolQuery) -> list[ToolMatch]:
        hits = index.search(
            query,
            max(CONSIDERED, self._limit(query)),
            among=self._is_searchable(call),
            state_of=self._resolver.state_of,
            boosts=await self._boosts(call, query),
        )
        found: list[ToolMatch] = []
        for at, hit in enumerate(hit for hit in hits if hit.score >= UNRELATED):
            # Only tools that may be shown are decoded.
            one = ToolMatch(tool=hit.tool, server=hit.server, score=hit.score, parts=hit.parts)
            found.append(self._describe(one) if at < self._limit(query) else one)
        await asyncio.sleep(0)  # let other calls run between the queries
        return found

    def _is_searchable(self, call: Call) -> Callable[[str], bool]:
        catalogue, remotes = self._context.view_context.visible(call), self._context.remotes()

        def is_searchable(tool: str) -> bool:
            entry = catalogue.find(TOOLS, tool)
            return entry is not None and not (
                entry.server in remotes and entry.item.own in COMPOSIO_META_TOOLS
            )

        return is_searchable

    async def _boosts(self, call: Call, query: ToolQuery) -> Mapping[str, float]:
        if not self._context.settings.learn:
            return {}
        try:
            return await self._context.feedback.boosts(call.caller.owner, query.use_case)
        except StateError:
            return {}

    def _describe(self, found: ToolMatch) -> ToolMatch:
        entry = self._context.view_context.catalogue.find(TOOLS, found.tool)
        if entry is not None:
            described = describe_entry(entry)
            found.title, found.description = described.title, shorten(described.description)
            found.input_schema = found.schema = described.input_schema
            found.purpose = purpose(own_description(entry.about, described.description))
            found.about = entry.about[:MAX_ABOUT]
            found.access = access(described.annotations)
            found.connected = self._resolver.state_of(found.server) == "up"
        return found

    def _unknown_servers(self, call: Call, queries: Sequence[ToolQuery]) -> dict[str, str]:
        servers = self._context.view_context.visible(call).servers
        unknown = [query.server[:80] for query in queries if query.server and query.server not in servers]
        return dict.fromkeys(unknown, unknown_server(servers))


def unknown_server(servers: Iterable[str]) -> str:
    """Say that there is no such server, and which there are."""
    names = ", ".join(list(servers)[:20]) or said("none", "nenhum")
    return said(f"unknown server; available: {names}", f"servidor desconhecido; há: {names}")


def no_answer_within(seconds: float) -> str:
    return said(f"it did not answer within {seconds:g} s", f"não respondeu em {seconds:g} s")


def _source(findings: list[QueryMatches], local: list[list[ToolMatch]], remote: list[list[ToolMatch]]) -> str:
    """Say where the shown tools come from, without those left out."""
    shown = {one.tool for finding in findings for one in finding.results}
    ours = any(one.tool in shown for found in local for one in found)
    theirs = any(one.tool in shown for found in remote for one in found)
    return "composio+local" if ours and theirs else "composio" if theirs else "local"


class RemoteMatches(Struct):
    """The answers of all remotes."""

    results: list[list[ToolMatch]]
    """The matches for each query."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    faults: dict[str, FallbackReason] = field(default_factory=dict[str, FallbackReason])
    """Of those in `missing`, in a word."""
    guidance: tuple[str, ...] = ()
    session: Lease | None = None

    def lacks(self, server: str, fault: FallbackReason, why: str) -> None:
        self.missing[server], self.faults[server] = why, fault


class RemoteRequest(Struct):
    """A running search at one remote, and the indexes of its queries."""

    remote: Remote
    query_indexes: list[int]
    task: "asyncio.Task[RemoteAnswer]"


class RemoteSearch:
    """Searches at all remotes; starts at once, beside the local search, and ends with the block."""

    def __init__(
        self, context: MetaToolContext, call: Call, queries: Sequence[ToolQuery], limits: Sequence[int]
    ) -> None:
        self._context = context
        self._call = call
        self._queries = queries
        self._seconds = context.settings.remote_seconds
        self._until = asyncio.get_running_loop().time() + self._seconds
        self.requests = [
            self._start(remote, indexes, limits)
            for remote in context.remotes_of(call).values()
            if (indexes := self._query_indexes(remote))
        ]

    def __enter__(self) -> "RemoteSearch":
        return self

    def __exit__(self, *_: object) -> None:
        for request in self.requests:
            request.task.cancel()

    def _query_indexes(self, remote: Remote) -> list[int]:
        """Return the queries for a remote; an unknown server in a query may be one of its apps."""
        servers = self._context.view_context.visible(self._call).servers
        return [
            at
            for at, query in enumerate(self._queries)
            if query.server in ("", remote.server) or query.server not in servers
        ]

    def _start(self, remote: Remote, indexes: list[int], limits: Sequence[int]) -> RemoteRequest:
        queries = [self._queries[at] for at in indexes]
        search = remote.search(self._call, queries, max(limits[at] for at in indexes))
        return RemoteRequest(remote, indexes, asyncio.ensure_future(search))

    async def results(self) -> RemoteMatches:
        """Wait for the remotes, up to the time limit."""
        matches = RemoteMatches([[] for _ in self._queries])
        if self.requests:
            left = max(0.0, self._until - asyncio.get_running_loop().time())
            await asyncio.wait([request.task for request in self.requests], timeout=left)
        for request in self.requests:
            answer = self._answer(request, matches)
            if answer is None:
                continue
            visible = [self._visible(request, tools) for tools in answer.results]
            for at, tools in zip(request.query_indexes, visible, strict=False):
                matches.results[at] += from_remote(request.remote.server, tools)
            if not any(visible):
                why = said("it found nothing", "não encontrou nada")
                matches.lacks(request.remote.server, "nothing found", why)
            if sum(map(len, visible)) == sum(map(len, answer.results)):
                matches.guidance += answer.guidance  # which names the tools
            matches.session = matches.session or answer.session
        return matches

    def _visible(self, request: RemoteRequest, tools: Sequence[RemoteTool]) -> list[RemoteTool]:
        """The tools that the caller may know of."""
        catalogue = self._context.view_context.visible(self._call)
        return [tool for tool in tools if catalogue.permits(request.remote.server, tool.own)]

    def _answer(self, request: RemoteRequest, matches: RemoteMatches) -> RemoteAnswer | None:
        server = request.remote.server
        if not request.task.done():
            matches.lacks(server, "timeout", no_answer_within(self._seconds))
            return None
        try:
            return request.task.result()
        except (McpError, StateError, TimeoutError) as error:
            fault = "timeout" if isinstance(error, TimeoutError) else "failed"
            reason = error.reason if isinstance(error, UpstreamError) else str(error)
            matches.lacks(server, fault, brief(reason))
        except Exception as error:  # the index can answer whatever failed here
            logger.error("unexpected error in the search of %s", server, exc_info=error)
            why = said("unexpected error in its search", "erro inesperado na busca dele")
            matches.lacks(server, "failed", why)
        return None

    async def by_toolkits(self) -> list[list[ToolMatch]]:
        """Find apps that match the queries, and rank their tools here: for queries without any result."""
        found: list[list[ToolMatch]] = [[] for _ in self._queries]
        for request in self.requests:
            if not request.task.done():  # it did not answer, and would not this time
                continue
            try:
                async with asyncio.timeout(self._seconds):
                    for at in request.query_indexes:
                        tools = await self._tools_for(request.remote, self._queries[at])
                        found[at] += from_remote(request.remote.server, self._visible(request, tools))
            except (McpError, StateError, TimeoutError):
                continue
        return found

    async def _tools_for(self, remote: Remote, query: ToolQuery) -> list[RemoteTool]:
        toolkits = await remote.toolkits(self._call, query.use_case, query.category, FALLBACK_TOOLKITS)
        tools: list[RemoteTool] = []
        for toolkit in toolkits[:FALLBACK_TOOLKITS]:
            tools += await remote.tools_of(self._call, toolkit.slug)
        return rank_by_words(query.use_case, tools)[:FALLBACK_TOOLS]


def from_remote(server: str, tools: Sequence[RemoteTool]) -> list[ToolMatch]:
    """Score a remote's tools by their order: recommended ones start above most local scores, others below."""
    found: list[ToolMatch] = []
    for at, tool in enumerate(sorted(tools, key=lambda tool: not tool.recommended)):
        first = FIRST_RECOMMENDED if tool.recommended else FIRST_RELATED
        penalty = 0.0 if tool.connected else UNCONNECTED_PENALTY
        score = max(MIN_SCORE, first - SCORE_STEP * at - penalty)
        found.append(
            ToolMatch(
                tool=tool.name,
                server=server,
                title=printable(tool.title),
                description=shorten(printable(tool.description)),
                score=score,
                recommended=tool.recommended,
                connected=tool.connected,
                auth=tool.auth,
                input_schema=tool.input_schema,
                schema=tool.input_schema,
                purpose=purpose(tool.description),
                toolkit=tool.toolkit,
                parts={"remote": score},
            )
        )
    return found


def merge(local: Iterable[ToolMatch], remote: Iterable[ToolMatch]) -> list[ToolMatch]:
    """Sort by score. A tool that both found is taken from the remote, with the better score."""
    found = {one.tool: one for one in local}
    for one in remote:
        known = found.get(one.tool)
        if known is not None and known.score > one.score:
            one.score, one.parts = known.score, known.parts
        found[one.tool] = one
    return sorted(found.values(), key=lambda one: (-one.score, one.tool))


def recommend(found: list[ToolMatch]) -> None:
    """Recommend the best tool if its score is high enough and it is connected."""
    if found and found[0].score >= RECOMMENDED_SCORE and found[0].connected:
        found[0].recommended = True


def limit_schemas(findings: Sequence[QueryMatches], tokens: int) -> None:
    """Keep the schemas of the best tools within a token limit: the best of every query first."""
    room = tokens
    given: set[str] = set()
    for rank in range(max((len(finding.results) for finding in findings), default=0)):
        for finding in findings:
            if rank >= len(finding.results):
                continue
            found = finding.results[rank]
            size = _size(found.input_schema)
            if rank >= MAX_SCHEMAS or size > room or found.tool in given:
                found.input_schema = None
            elif found.input_schema is not None:
                room -= size
                given.add(found.tool)


def _size(schema: dict[str, Any] | None) -> int:
    return 0 if schema is None else math.ceil(len(msgspec.json.encode(schema)) / CHARACTERS_PER_TOKEN)


def rank_by_words(use_case: str, tools: Iterable[RemoteTool]) -> list[RemoteTool]:
    """Return the tools that share words with the use case, those with most shared words first."""
    wanted = set(_WORD.findall(use_case.lower()))

    def shared(tool: RemoteTool) -> int:
        text = f"{tool.own} {tool.title} {tool.description} {tool.toolkit}".lower().replace("_", " ")
        return len(wanted & set(_WORD.findall(text)))

    counted = [(shared(tool), tool) for tool in tools]
    return [tool for count, tool in sorted(counted, key=lambda pair: -pair[0]) if count]


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
