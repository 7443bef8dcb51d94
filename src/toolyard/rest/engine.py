"""One call of a tool, from the arguments to the result.

Owns the order of the steps: the key, ids, the server's own step, name lookups, defaults, the requests, the
selection of fields. Each step is a module of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from ..kit import Context, Secret, ToolResult
from ..wire.seal import Sealer, digest
from .api import DecodedResponse, RestApi
from .definition.plan import ToolPlan
from .definition.schemas import LINK_POSITION, shown_name
from .request.arguments import Defaults, check_needs, normalized, with_defaults
from .request.auth import Keyring
from .request.builder import RequestDraft, text_pairs
from .request.lookups import Lookups
from .response.paging import LinkSeal, ResponseReader
from .response.result import FieldSelection, RestResult, Verbosity, aside, tool_result

Fetch = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Any]]
"""Takes method, path below the base URL and query; returns the decoded response."""
Prepare = Callable[[dict[str, Any], Fetch], Awaitable[dict[str, Any]]]
"""A server's own first step: changes the arguments before names are looked up."""
Finish = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""A server's own last step: takes the result and the arguments, returns the final result."""


class RestEngine(Struct, frozen=True):
    api: RestApi
    keyring: Keyring
    defaults: Defaults
    lookups: Lookups
    verbosity: Verbosity
    prepare: Mapping[str, Prepare]
    finish: Mapping[str, Finish]
    sealer: Callable[[], Sealer]
    """The server's, which whoever serves it may replace."""

    def function(self, plan: ToolPlan) -> Callable[[dict[str, Any], Context], Awaitable[ToolResult]]:
        """The function of this tool for the kit."""
        selection = FieldSelection(plan.tool.result, self.verbosity)

        async def call(arguments: dict[str, Any], ctx: Context) -> ToolResult:
            return await self.run(plan, selection, arguments, ctx)

        return call

    async def run(
        self, plan: ToolPlan, selection: FieldSelection, arguments: dict[str, Any], ctx: Context
    ) -> ToolResult:
        key = self.keyring.key(ctx)
        seal = self._link_seal(plan, arguments, ctx)
        prepared = await self._arguments(plan, arguments, key)
        current = await self._result(plan, selection, dict(prepared), key, ctx, seal)
        if plan.name in self.finish:
            finished = await aside(current.size, self.finish[plan.name], current.plain(), prepared)
            return ToolResult(structured=finished)
        if not plan.tool.also:
            return tool_result(plan, current, prepared, self.api.texts)
        parts = {"current": current}
        for name, also in plan.tool.also.items():
            if all(prepared.get(parameter) is not None for parameter in also.when):
                replacing = {to: prepared[by] for to, by in also.replace.items() if by in prepared}
                replaced = prepared | replacing
                parts[name] = await self._result(plan, selection, replaced, key, ctx)
        return ToolResult(structured={name: part.plain() for name, part in parts.items()})

    def _link_seal(self, plan: ToolPlan, arguments: Mapping[str, Any], ctx: Context) -> LinkSeal | None:
        """Bind links to the caller, the tool at this API, and all arguments but the link itself."""
        if plan.paging is None or plan.paging.kind != "link":
            return None
        origin, position = self.api.client.origin, shown_name(plan, LINK_POSITION)
        others = {name: value for name, value in arguments.items() if name != position}
        call = [ctx.caller.principal.owner, origin.authority, origin.base, plan.name, others]
        return LinkSeal(ctx.sealer or self.sealer(), digest(msgspec.json.encode(call, order="deterministic")))

    async def _arguments(
        self, plan: ToolPlan, arguments: dict[str, Any], key: Secret | None
    ) -> dict[str, Any]:
        texts = self.api.texts
        found = normalized(plan, arguments, texts)
        check_needs(plan, found, self.defaults, texts)
        if plan.name in self.prepare:
            found = await self._run_prepare(plan, found, key)
        if plan.with_names:
            await self._look_up(plan, found, key)
        return with_defaults(plan, found, self.defaults)

    async def _look_up(self, plan: ToolPlan, found: dict[str, Any], key: Secret | None) -> None:
        def known(name: str) -> Any:
            value = self.defaults.of(plan.parameters[name]) if name in plan.parameters else UNSET
            return None if value is UNSET else value

        async def send(request: RequestDraft) -> DecodedResponse:
            return await self.api.request(request, key)

        async def read(list_plan: ToolPlan, values: dict[str, Any]) -> RestResult:
            return await ResponseReader(list_plan, self.api, send, _unchanged, _ignore_progress).read(values)

        await self.lookups.resolve(plan, found, known, read)

    async def _run_prepare(
        self, plan: ToolPlan, arguments: dict[str, Any], key: Secret | None
    ) -> dict[str, Any]:
        async def fetch(method: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
            return await self._fetch(method, quote(path, safe="/%:@~,;=+!$&'()*"), query or {}, key)

        return await self.prepare[plan.name](arguments, fetch)

    async def _fetch(self, method: str, path: str, query: Mapping[str, Any], key: Secret | None) -> Any:
        pairs = [pair for name, value in query.items() for pair in text_pairs(name, value)]
        headers = dict(self.api.definition.headers)
        request = RequestDraft(method, path, pairs, headers, repeatable=method == "GET")
        value = (await self.api.request(request, key)).value
        return None if value is UNSET else value

    async def _result(
        self,
        plan: ToolPlan,
        selection: FieldSelection,
        arguments: dict[str, Any],
        key: Secret | None,
        ctx: Context,
        seal: LinkSeal | None = None,
    ) -> RestResult:
        async def send(request: RequestDraft) -> DecodedResponse:
            return await self.api.request(request, key, plan.tool.errors, plan.tool.timeout)

        select = selection.for_arguments(arguments)
        return await ResponseReader(plan, self.api, send, select, ctx.report_progress, seal).read(arguments)


def _unchanged(item: Any) -> Any:
    return item


async def _ignore_progress(done: float, total: float | None) -> None:
    """The lists of lookups do not count: progress would go backwards."""
