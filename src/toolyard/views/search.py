"""The search view: a handful of meta tools, through which every other tool is found and called.

Pinned tools are listed beside them and, where the configuration says so, what a conversation has found, for
that conversation. Otherwise the list stays the same: it stands at the start of a model's prompt, and a change
costs the client its prompt cache. What may be called is not decided by what is listed: any tool that the
caller may use answers to its full name, because clients remember names from conversations that this process
never saw. Prompts, resources and the rest are as in the view of everything.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..catalogue.catalogue import TOOLS, Entry
from ..catalogue.items import Kind
from ..catalogue.lending import borrower
from ..dispatch import Mount
from ..kit.content import ToolError, error_result
from ..kit.hub import TOOLS_CHANGED, Event
from ..upstream.errors import UpstreamError
from ..wire.call import Call
from ..wire.eras import SERVER_KEY
from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode
from ..wire.types import CallToolResult, Implementation
from .all import AllView
from .instructions import how_to_search
from .meta.desk import Desk
from .meta.known import UnknownTool
from .meta.reading import MORE, NAME, read_result
from .meta.supplies import Supplies
from .meta.threads import is_known
from .meta.tools import Dialect, MetaTool, Renames


class SearchView(AllView):
    more = MORE

    def __init__(
        self,
        supplies: Supplies,
        dialects: Sequence[Dialect],
        implementation: Implementation,
        own_instructions: str = "",
    ) -> None:
        super().__init__(supplies.yard, implementation, own_instructions)
        self._dialects = dialects
        self._tools: dict[str, MetaTool] = {}
        for dialect in dialects:
            for tool in dialect.tools():
                self._tools.setdefault(tool.name, tool)
        if supplies.yard.stored is not None:
            self._tools.setdefault(NAME, read_result(supplies.yard.stored))
        self._definitions = [encode(tool.shown()) for tool in self._tools.values()]
        self.desk = Desk(supplies, self._calling.call_tool, self._tools)
        for methods in (self._modern, self._legacy):
            methods["tools/list"] = self._list_tools
            methods["tools/call"] = self._call_tool

    # Lists

    def entries(self, kind: Kind, call: Call) -> list[Entry]:
        if kind is not TOOLS:
            return super().entries(kind, call)
        shelves = self.yard.catalogue.shelves
        listed = {
            entry.name: entry
            for shelf in shelves.values()
            if shelf.pinned
            for entry in shelf.entries[TOOLS.name]
            if entry.bare in shelf.pinned or entry.item.own in shelf.pinned
        }
        found = self.desk.finds.tools(borrower(call)) if self.desk.lists_found(call) else ()
        for name in found:
            entry = self.desk.known.entry(call, name)
            if entry is not None:
                listed.setdefault(name, entry)
        # In the order of mounting, which is what pages go by.
        return sorted(listed.values(), key=lambda entry: shelves[entry.server].number)

    async def _list_tools(self, call: Call) -> Any:
        await self.yard.catalogue.settled(self.yard.list_wait)
        self.yard.touch()
        renamed = [
            encode(tool)
            for dialect in self._dialects
            if isinstance(dialect, Renames)
            for tool in await dialect.listed(self.desk, call)
        ]
        return self._pages.page(call, TOOLS, [*self._definitions, *renamed])

    def concerns(self, event: Event, call: Call) -> bool:
        if event.method != TOOLS_CHANGED:
            return super().concerns(event, call)
        whose = borrower(call)
        if event.params is not None:
            return event.params == whose
        if not event.about:
            return is_known(call, self.yard)
        shelf = self.yard.catalogue.shelves.get(event.about)
        if shelf is None or shelf.pinned:
            return True
        return self.desk.lists_found(call) and event.about in self.desk.finds.servers(whose)

    def _instructions(self) -> str:
        return how_to_search(self._own_instructions, list(self._tools), self.yard.catalogue)

    # Calls

    def resolve(self, kind: Kind, name: str, call: Call) -> tuple[Mount, str, Entry | None]:
        entry = self.desk.known.entry(call, name) if kind is TOOLS else None
        if entry is None:
            return super().resolve(kind, name, call)
        return self.yard.mounts[entry.server], entry.item.own, entry

    async def _call_tool(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        name = decode_params(members.get("name", Raw(b"null")), str)
        tool = self._tools.get(name)
        if tool is not None:
            return self._stamped(call, await self._answered(tool, call, members))
        try:
            full = await self._full_name(call, name)
        except UnknownTool as error:
            raise InvalidParams(str(error)) from None
        except ToolError as error:
            return self._stamped(call, error_result(str(error)))
        if full != name:
            call = replace(call, params=Raw(encode({**members, "name": full})))
        return await self.desk.executing.run(call, full)

    async def _full_name(self, call: Call, name: str) -> str:
        if self.desk.known.entry(call, name) is not None:
            return name
        for dialect in self._dialects:
            if isinstance(dialect, Renames):
                full = await dialect.full_name(self.desk, call, name)
                if full is not None:
                    return full
        return (await self.desk.known.seek(call, name)).name

    async def _answered(self, tool: MetaTool, call: Call, members: dict[str, Raw]) -> Any:
        """What goes wrong is for the model to read, unless it is about the protocol."""
        try:
            arguments = decode_params(members.get("arguments", Raw(b"{}")), dict[str, Any])
            return await tool.answer(self.desk, call, arguments)
        except (ToolError, UpstreamError) as error:
            return error_result(str(error))
        except InvalidParams as error:
            if "requestState" in members:
                raise
            return error_result(error.message)

    def _stamped(self, call: Call, result: Any) -> Any:
        """Results of upstreams say already whose they are; our own do not."""
        if call.caller.era == "modern" and isinstance(result, CallToolResult) and result.result_type is UNSET:
            result.result_type = "complete"
            meta = {} if result.meta is UNSET else result.meta
            result.meta = {SERVER_KEY: self._implementation, **meta}
        return result
