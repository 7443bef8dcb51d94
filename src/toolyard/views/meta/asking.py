"""Remotes that search by themselves, asked beside our own index.

Owns who is asked what, how long anybody waits, and what is said of one that is down, slow or finds nothing.
"""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct, field

from ...dispatch.remote import Remote, RemoteAnswer, RemoteTool
from ...search.documents import Query
from ...sessions.leases import Lease
from ...state.errors import StateError
from ...upstream.errors import UpstreamError
from ...wire.call import Call
from ...wire.errors import McpError
from ..instructions import brief
from .answers import Found
from .merging import by_words, from_remote
from .supplies import Supplies

logger = logging.getLogger("toolyard.views")

FALLBACK_TOOLKITS = 3
FALLBACK_TOOLS = 25


class Heard(Struct):
    """What came of it."""

    results: list[list[Found]]
    """For each query."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    guidance: tuple[str, ...] = ()
    session: Lease | None = None


class Asked(Struct):
    """A remote that has been asked, and which of the queries."""

    remote: Remote
    places: list[int]
    task: "asyncio.Task[RemoteAnswer]"


class Asking:
    """Begun at once, so that they work while the index is asked; ended with the block."""

    def __init__(
        self, supplies: Supplies, call: Call, queries: Sequence[Query], limits: Sequence[int]
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

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.asked:
            one.task.cancel()

    def _places(self, remote: Remote) -> list[int]:
        """The queries that are for it: a server that is none of ours may be one of its apps."""
        shelves = self._supplies.yard.catalogue.shelves
        return [
            at
            for at, query in enumerate(self._queries)
            if query.server in ("", remote.server) or query.server not in shelves
        ]

    def _ask(self, remote: Remote, places: list[int], limits: Sequence[int]) -> Asked:
        wanted = [self._queries[at] for at in places]
        searching = remote.search(self._call, wanted, max(limits[at] for at in places))
        return Asked(remote, places, asyncio.ensure_future(searching))

    async def heard(self) -> Heard:
        heard = Heard([[] for _ in self._queries])
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

    def _result(self, asked: Asked, missing: dict[str, str]) -> RemoteAnswer | None:
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

    async def by_toolkits(self) -> list[list[Found]]:
        """Nobody has anything: the apps that sound like it may, and their tools are looked through here."""
        found: list[list[Found]] = [[] for _ in self._queries]
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

    async def _tools_like(self, remote: Remote, query: Query) -> list[RemoteTool]:
        toolkits = await remote.toolkits(self._call, query.use_case, query.category, FALLBACK_TOOLKITS)
        tools: list[RemoteTool] = []
        for toolkit in toolkits[:FALLBACK_TOOLKITS]:
            tools += await remote.tools_of(self._call, toolkit.slug)
        return by_words(query.use_case, tools)[:FALLBACK_TOOLS]
