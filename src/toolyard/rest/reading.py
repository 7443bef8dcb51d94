"""What a tool reads of the API: one reply, one part of a list, or the parts of a list one after the other."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from .api import Answer, Api
from .filters import Filter
from .paging import Parts
from .plan import Plan
from .replies import matter
from .requests import Draft, draft
from .results import Part

Progress = Callable[[float, float | None], Awaitable[None]]
"""Is told how many items were read, and of how many."""
MOST_PARTS = 200
"""Requests for one list, however small its parts are."""


class Reading(Struct, frozen=True):
    plan: Plan
    api: Api
    ask: Callable[[Draft], Awaitable[Answer]]
    kept: Callable[[Any], Any]
    """What is kept of an object."""
    progress: Progress

    async def part(self, arguments: dict[str, Any]) -> Part:
        wanted = Filter(self.plan, arguments)
        if self.plan.paging is None:
            return self._single(await self.ask(self._draft(arguments)), wanted)
        parts = Parts(self.plan, arguments, self.api.words, self.api.client.origin.base)
        if self.plan.tool.all_pages:
            return await self._every(parts, arguments, wanted)
        if wanted:
            chosen = parts.from_the_start()
            return parts.cut(await self._every(chosen, arguments, wanted))
        answer = await self.ask(parts.aimed(self._draft(arguments)))
        value, items = matter(answer.value, self.plan.tool.result)
        if items is None:
            return Part(self.kept(value))
        following = parts.after(answer, len(items), self.api.table.auth)
        return Part(value, self._kept(items, wanted), parts.total(answer), following)

    def _single(self, answer: Answer, wanted: Filter) -> Part:
        value, items = matter(answer.value, self.plan.tool.result)
        if items is None:
            return Part(self.kept(value))
        return Part(value, self._kept(items, wanted))

    async def _every(self, parts: Parts, arguments: dict[str, Any], wanted: Filter) -> Part:
        """All of a list, within its limits; what was left out is said."""
        assert self.plan.paging is not None
        most, found, read = self.plan.paging.most_items, list[Any](), 0
        total: int | None = None
        for _ in range(MOST_PARTS):
            answer = await self.ask(parts.aimed(self._draft(arguments)))
            value, items = matter(answer.value, self.plan.tool.result)
            if items is None:
                return Part(self.kept(value))
            total, surplus = parts.total(answer), read + len(items) > most
            found += self._kept(items[: most - read], wanted)
            read += len(items)
            following = parts.after(answer, len(items), self.api.table.auth)
            if following is None or read >= most:
                return self._whole(found, total, wanted, cut=surplus or following is not None)
            await self.progress(read, None if total is None else min(total, most))
            parts.position = following
        return self._whole(found, total, wanted, cut=True)

    def _whole(self, found: list[Any], total: int | None, wanted: Filter, *, cut: bool) -> Part:
        return Part(found, found, len(found) if wanted else total, truncated=cut)

    def _kept(self, items: list[Any], wanted: Filter) -> list[Any]:
        return [self.kept(item) for item in items if wanted.fits(item)]

    def _draft(self, arguments: dict[str, Any]) -> Draft:
        return draft(self.plan, arguments, self.api.words)
