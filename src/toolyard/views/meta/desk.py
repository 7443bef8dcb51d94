"""The desk: what every dialect's meta tools do, under no particular name.

Owns the order of things: which thread, who is asked, what is checked before anything leaves. Finding is
the index's and the remotes' work, calling the yard's.
"""

import logging
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ...catalogue.lending import borrower
from ...dispatch.remote import Connection
from ...kit.content import ToolError
from ...kit.hub import TOOLS_CHANGED, Event
from ...search.documents import Query
from ...sessions.leases import Lease
from ...state.errors import StateError
from ...wire.call import Call
from ...wire.threads import thread_of
from .answers import Described, Done, Item, SearchAnswer
from .batch import Batch
from .connecting import Action, Connecting, Wish
from .describing import Describing
from .executing import BadArguments, Executing, Forward
from .finds import Finds
from .known import Known, UnknownTool
from .searching import Searching
from .supplies import Supplies
from .threads import Threads, is_known

logger = logging.getLogger("toolyard.views")

MAX_ITEMS = 50
MAX_QUERIES = 20
MAX_USE_CASE = 4_000


class Desk:
    def __init__(self, supplies: Supplies, forward: Forward, own: Collection[str] = ()) -> None:
        """`forward` takes a tools/call to its upstream; `own` are the names of the meta tools."""
        self.supplies = supplies
        self.own = own
        self.finds = Finds()
        self.known = Known(supplies, own)
        self.executing = Executing(supplies, self.known, self.finds, forward)
        self._threads = Threads(supplies)
        self._searching = Searching(supplies, self.known)
        self._describing = Describing(supplies, self.known)
        self._connecting = Connecting(supplies)

    def lists_found(self, call: Call) -> bool:
        """Whether what was found in a call's conversation is listed for it."""
        return self.supplies.settings.list_found and is_known(call, self.supplies.yard)

    async def thread(self, call: Call, session: str | None) -> Call:
        """The same call in the thread that `session` names: the id of one of its sessions, or any name."""
        return await self._threads.within(call, session)

    async def search(self, call: Call, queries: Sequence[Query], session: str | None = None) -> SearchAnswer:
        """ToolError when there is no query, or one without a use case."""
        _check(queries)
        call = await self.thread(call, session)
        searched = await self._searching.answer(call, queries)
        missing = dict(searched.missing)
        lease = searched.session or await self._own_session(call, missing)
        await self._threads.remember(call, lease)
        whose = borrower(call)
        if self.finds.note(whose, searched.findings) and self.lists_found(call):
            self.supplies.yard.catalogue.hub.publish(Event(TOOLS_CHANGED, "", whose))
        return SearchAnswer(
            findings=searched.findings,
            session=lease,
            source=searched.source,
            missing=missing,
            guidance=searched.guidance,
        )

    async def _own_session(self, call: Call, missing: dict[str, str]) -> Lease:
        try:
            return await self.supplies.leases.get(call.caller.tenant, thread_of(call), "")
        except StateError as error:
            # What was found is worth having though nothing can be kept.
            logger.warning("a session of a search is not kept: %s", error)
            missing["state"] = error.told
            expires = (datetime.now(UTC) + timedelta(seconds=60)).isoformat(timespec="seconds")
            return Lease(f"local-{uuid.uuid4()}", 60.0, expires, True, "local")

    async def describe(self, call: Call, tools: Sequence[str], session: str | None = None) -> Described:
        return await self._describing.answer(await self.thread(call, session), tools)

    async def call_tool(
        self, call: Call, tool: str, arguments: dict[str, Any], session: str | None = None
    ) -> Any:
        """The upstream's own result object; UnknownTool, BadArguments, or McpError as the upstream has it."""
        return await self.executing.call(await self.thread(call, session), tool, arguments)

    async def call_tools(
        self,
        call: Call,
        items: Sequence[Item],
        *,
        parallel: int | None = None,
        seconds: float | None = None,
        session: str | None = None,
    ) -> list[Done]:
        """In the order of the items; ToolError when there are none or more than MAX_ITEMS."""
        if not 1 <= len(items) <= MAX_ITEMS:
            raise ToolError(f"{len(items)} calls were given; it takes 1 to {MAX_ITEMS}")
        settings = self.supplies.settings
        call = await self.thread(call, session)
        batch = Batch(self.supplies, self.known, self.executing, call, len(items))
        side_by_side = max(1, min(parallel or settings.batch_concurrency, settings.batch_concurrency))
        time = settings.batch_seconds if seconds is None else max(0.0, min(seconds, settings.batch_seconds))
        return await batch.run(items, side_by_side, time)

    async def connections(
        self,
        call: Call,
        names: Sequence[str] = (),
        action: Action = "status",
        *,
        seconds: float = 60.0,
        alias: str = "",
        fields: dict[str, Any] | None = None,
        every: bool = True,
        session: str | None = None,
    ) -> list[Connection]:
        """Of servers and of remotes' apps; of all there are when none is named."""
        wish = Wish(action, seconds, alias, fields, every)
        return await self._connecting.answer(await self.thread(call, session), names, wish)


def _check(queries: Sequence[Query]) -> None:
    if not 1 <= len(queries) <= MAX_QUERIES:
        raise ToolError(f"{len(queries)} queries were given; it takes 1 to {MAX_QUERIES}")
    for at, query in enumerate(queries):
        if not query.use_case.strip() or len(query.use_case) > MAX_USE_CASE:
            raise ToolError(f"queries[{at}].use_case is empty, or longer than {MAX_USE_CASE} characters")


__all__ = ["BadArguments", "Desk", "UnknownTool"]
