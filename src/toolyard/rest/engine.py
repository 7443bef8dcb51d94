"""One call of a tool of a table, from the arguments to the result.

The steps, in order: whose key, ids, the server's own step, names, what was left out, the request or the
requests, what is kept of the reply. Each step is a module of its own; here is only their order.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import UNSET, Struct

from ..kit import Context, Secret, ToolResult
from .api import Answer, Api
from .arguments import Defaults, check_needs, filled, given
from .auth import Keyring
from .lookups import Lookups
from .plan import Plan
from .reading import Reading
from .replies import Keeping, Verbosity
from .requests import Draft, texts
from .results import Part, shown

Fetch = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Any]]
"""Method, path below the base URL and query, to what the API says there."""
Prepare = Callable[[dict[str, Any], Fetch], Awaitable[dict[str, Any]]]
"""A server's own step: the arguments as a caller could have given them, before names are looked up."""
Finish = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""A server's own last step: what a tool would have answered and its arguments, to what it answers."""


class Engine(Struct, frozen=True):
    api: Api
    keyring: Keyring
    defaults: Defaults
    lookups: Lookups
    verbosity: Verbosity
    prepare: Mapping[str, Prepare]
    finish: Mapping[str, Finish]

    def function(self, plan: Plan) -> Callable[[dict[str, Any], Context], Awaitable[ToolResult]]:
        """What the kit runs for this tool."""

        keeping = Keeping(plan.tool.result, self.verbosity)

        async def call(arguments: dict[str, Any], ctx: Context) -> ToolResult:
            return await self.run(plan, keeping, arguments, ctx)

        return call

    async def run(self, plan: Plan, keeping: Keeping, arguments: dict[str, Any], ctx: Context) -> ToolResult:
        key = self.keyring.key(ctx)
        ready = await self._ready(plan, arguments, key)
        current = await self._part(plan, keeping, dict(ready), key, ctx)
        if plan.name in self.finish:
            return ToolResult(structured=self.finish[plan.name](current.plain(), ready))
        if not plan.tool.also:
            return shown(plan, current, ready, self.api.words)
        parts = {"current": current}
        for name, also in plan.tool.also.items():
            if all(ready.get(given) is not None for given in also.when):
                replaced = ready | {to: ready[by] for to, by in also.replace.items() if by in ready}
                parts[name] = await self._part(plan, keeping, replaced, key, ctx)
        return ToolResult(structured={name: part.plain() for name, part in parts.items()})

    async def _ready(self, plan: Plan, arguments: dict[str, Any], key: Secret | None) -> dict[str, Any]:
        words = self.api.words
        found = given(plan, arguments, words)
        check_needs(plan, found, self.defaults, words)
        if plan.name in self.prepare:
            found = await self._prepared(plan, found, key)
        if plan.with_names:
            await self._look_up(plan, found, key)
        return filled(plan, found, self.defaults)

    async def _look_up(self, plan: Plan, found: dict[str, Any], key: Secret | None) -> None:
        def known(name: str) -> Any:
            value = self.defaults.of(plan.parameters[name]) if name in plan.parameters else UNSET
            return None if value is UNSET else value

        async def ask(request: Draft) -> Answer:
            return await self.api.ask(request, key)

        async def read(looking: Plan, values: dict[str, Any]) -> Part:
            return await Reading(looking, self.api, ask, _whole, _unheard).part(values)

        await self.lookups.resolve(plan, found, known, read)

    async def _prepared(self, plan: Plan, arguments: dict[str, Any], key: Secret | None) -> dict[str, Any]:
        async def fetch(method: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
            return await self._fetched(method, quote(path, safe="/%:@~,;=+!$&'()*"), query or {}, key)

        return await self.prepare[plan.name](arguments, fetch)

    async def _fetched(self, method: str, path: str, query: Mapping[str, Any], key: Secret | None) -> Any:
        pairs = [pair for name, value in query.items() for pair in texts(name, value)]
        headers = dict(self.api.table.headers)
        asked = Draft(method, path, pairs, headers, repeatable=method == "GET")
        value = (await self.api.ask(asked, key)).value
        return None if value is UNSET else value

    async def _part(
        self, plan: Plan, keeping: Keeping, arguments: dict[str, Any], key: Secret | None, ctx: Context
    ) -> Part:
        async def ask(request: Draft) -> Answer:
            return await self.api.ask(request, key, plan.tool.errors, plan.tool.timeout)

        return await Reading(plan, self.api, ask, keeping.asked(arguments), ctx.report_progress).part(
            arguments
        )


def _whole(item: Any) -> Any:
    return item


async def _unheard(done: float, total: float | None) -> None:
    """The progress of a call is that of its own list: a look-up's before it would make it go backwards."""
