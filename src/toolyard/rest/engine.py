"""One call of a tool, from the arguments to the result.

Owns the order of the steps: the key, ids, the server's own step, name lookups, defaults, the request or
requests, the fields that are kept. Each step is a module of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import UNSET, Struct

from ..kit import Context, Secret, ToolResult
from .api import DecodedResponse, RestApi
from .definition.plan import ToolPlan
from .request.arguments import Defaults, check_needs, normalized, with_defaults
from .request.auth import Keyring
from .request.builder import RequestDraft, texts
from .request.lookups import Lookups
from .response.paging import ResponseReader
from .response.result import FieldSelection, RestResult, Verbosity, tool_result

Fetch = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Any]]
"""Method, path below the base URL and query, to what the API says there."""
Prepare = Callable[[dict[str, Any], Fetch], Awaitable[dict[str, Any]]]
"""A server's own step: the arguments as a caller could have given them, before names are looked up."""
Finish = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""A server's own last step: what a tool would have answered and its arguments, to what it answers."""


class RestEngine(Struct, frozen=True):
    api: RestApi
    keyring: Keyring
    defaults: Defaults
    lookups: Lookups
    verbosity: Verbosity
    prepare: Mapping[str, Prepare]
    finish: Mapping[str, Finish]

    def function(self, plan: ToolPlan) -> Callable[[dict[str, Any], Context], Awaitable[ToolResult]]:
        """What the kit runs for this tool."""

        keeping = FieldSelection(plan.tool.result, self.verbosity)

        async def call(arguments: dict[str, Any], ctx: Context) -> ToolResult:
            return await self.run(plan, keeping, arguments, ctx)

        return call

    async def run(
        self, plan: ToolPlan, keeping: FieldSelection, arguments: dict[str, Any], ctx: Context
    ) -> ToolResult:
        key = self.keyring.key(ctx)
        ready = await self._ready(plan, arguments, key)
        current = await self._part(plan, keeping, dict(ready), key, ctx)
        if plan.name in self.finish:
            return ToolResult(structured=self.finish[plan.name](current.plain(), ready))
        if not plan.tool.also:
            return tool_result(plan, current, ready, self.api.words)
        parts = {"current": current}
        for name, also in plan.tool.also.items():
            if all(ready.get(normalized) is not None for normalized in also.when):
                replaced = ready | {to: ready[by] for to, by in also.replace.items() if by in ready}
                parts[name] = await self._part(plan, keeping, replaced, key, ctx)
        return ToolResult(structured={name: part.plain() for name, part in parts.items()})

    async def _ready(self, plan: ToolPlan, arguments: dict[str, Any], key: Secret | None) -> dict[str, Any]:
        words = self.api.words
        found = normalized(plan, arguments, words)
        check_needs(plan, found, self.defaults, words)
        if plan.name in self.prepare:
            found = await self._prepared(plan, found, key)
        if plan.with_names:
            await self._look_up(plan, found, key)
        return with_defaults(plan, found, self.defaults)

    async def _look_up(self, plan: ToolPlan, found: dict[str, Any], key: Secret | None) -> None:
        def known(name: str) -> Any:
            value = self.defaults.of(plan.parameters[name]) if name in plan.parameters else UNSET
            return None if value is UNSET else value

        async def ask(request: RequestDraft) -> DecodedResponse:
            return await self.api.ask(request, key)

        async def read(looking: ToolPlan, values: dict[str, Any]) -> RestResult:
            return await ResponseReader(looking, self.api, ask, _unchanged, _ignore_progress).part(values)

        await self.lookups.resolve(plan, found, known, read)

    async def _prepared(
        self, plan: ToolPlan, arguments: dict[str, Any], key: Secret | None
    ) -> dict[str, Any]:
        async def fetch(method: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
            return await self._fetched(method, quote(path, safe="/%:@~,;=+!$&'()*"), query or {}, key)

        return await self.prepare[plan.name](arguments, fetch)

    async def _fetched(self, method: str, path: str, query: Mapping[str, Any], key: Secret | None) -> Any:
        pairs = [pair for name, value in query.items() for pair in texts(name, value)]
        headers = dict(self.api.table.headers)
        asked = RequestDraft(method, path, pairs, headers, repeatable=method == "GET")
        value = (await self.api.ask(asked, key)).value
        return None if value is UNSET else value

    async def _part(
        self,
        plan: ToolPlan,
        keeping: FieldSelection,
        arguments: dict[str, Any],
        key: Secret | None,
        ctx: Context,
    ) -> RestResult:
        async def ask(request: RequestDraft) -> DecodedResponse:
            return await self.api.ask(request, key, plan.tool.errors, plan.tool.timeout)

        return await ResponseReader(plan, self.api, ask, keeping.asked(arguments), ctx.report_progress).part(
            arguments
        )


def _unchanged(item: Any) -> Any:
    return item


async def _ignore_progress(done: float, total: float | None) -> None:
    """The progress of a call is that of its own list: a look-up's before it would make it go backwards."""
