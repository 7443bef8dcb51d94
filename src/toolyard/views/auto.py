"""The view that is chosen for each conversation, or is an index: `call_tool` with a signature for every tool.

Owns which choice holds in a conversation. It is made with the conversation's first list or handshake and kept
while it lasts; calls do not ask for it, because every name answers in every view. Callers who do not name
their conversation are served by what they are and see alone.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Raw

from ..catalogue.catalogue import CatalogueEntry, conversation_of
from ..catalogue.items import MAX_ABOUT, TOOLS, ItemKind
from ..kit.events import ChangeEvent
from ..languages import said
from ..wire.call import NO_CHANNEL, Call, Caller, ClientInfo
from ..wire.messages import encode
from ..wire.types import Implementation
from ..wire.versions import LATEST_MODERN
from .choice import ViewChoice, ViewName, choose, index_line
from .context import MetaToolContext
from .dialects.definitions import Dialect, MetaTool
from .dialects.native import CALL_TOOL
from .instructions import brief, how_to_call
from .meta.conversation import is_identified
from .view import AllView, SearchView, View

MAX_CONVERSATIONS = 10_000


class AutoView(SearchView):
    """`always`: the one view that is served; None to choose."""

    def __init__(
        self,
        context: MetaToolContext,
        dialects: Sequence[Dialect],
        implementation: Implementation,
        own_instructions: str = "",
        always: Literal["index"] | None = None,
    ) -> None:
        super().__init__(context, dialects, implementation, own_instructions)
        self._always: ViewName | None = always
        self._chosen: OrderedDict[str, ViewName] = OrderedDict()
        self._remotes_of = context.remotes_of

    def chosen(self, call: Call) -> ViewName:
        """Return the view that this call's conversation is served."""
        if self._always is not None:
            return self._always
        client = call.caller.client
        identified = is_identified(call, self.context)
        key = f"{client.name}\0{conversation_of(call)}"
        if identified and key in self._chosen:
            return self._chosen[key]
        chosen = choose(client, self.context.visible(call), bool(self._remotes_of(call))).view
        if identified:
            self._chosen[key] = chosen
            while len(self._chosen) > MAX_CONVERSATIONS:
                self._chosen.popitem(last=False)
        return chosen

    def explain(self, client: ClientInfo) -> ViewChoice:
        """Return the choice for a client of the local user."""
        call = Call("tools/list", Raw(b"{}"), Caller(LATEST_MODERN, {}, client), NO_CHANNEL)
        return choose(client, self.context.visible(call), bool(self._remotes_of(call)))

    # Lists

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        if kind is not TOOLS:
            return super().entries(kind, call)
        match self.chosen(call):
            case "search":
                return super().entries(kind, call)
            case "all":
                return AllView.entries(self, kind, call)
            case "index":
                return []

    async def _list_tools(self, call: Call) -> Any:
        await self.context.catalogue.wait_settled(self.context.list_wait)
        chosen = self.chosen(call)
        if chosen == "search":
            return await super()._list_tools(call)
        self.context.host.lists_wanted()
        return self._pages.page(call, TOOLS, self._index(call) if chosen == "index" else [])

    def _index(self, call: Call) -> list[bytes]:
        """Return `call_tool` with every tool that the caller sees, and what else is listed but searches."""
        lines: list[str] = []
        about = ""
        for entry in AllView.entries(self, TOOLS, call):
            if entry.about and entry.about != about:
                lines.append(f"# {entry.server}: {entry.about[:MAX_ABOUT]}")
            about = entry.about
            lines.append(index_line(entry)[0])
        lines += self._without_tools(call)
        searches = {dialect.search_tool for dialect in self._dialects}
        others = [
            tool
            for tool in self._tools.values()
            if tool.is_listed and tool.name not in searches and tool.name != CALL_TOOL
        ]
        return [encode(tool.shown()) for tool in (indexed(self._tools[CALL_TOOL], lines), *others)]

    def _without_tools(self, call: Call) -> list[str]:
        """Name the servers whose tools nobody knows: a host may show its model no instructions."""
        servers = self.context.visible(call).servers.values()
        advice = said(
            'see call_tool with tool "manage_connections"', 'veja call_tool com tool "manage_connections"'
        )
        return [
            f"# {server.name}: {brief(server.reason_unavailable)} ({advice})"
            for server in servers
            if server.reason_unavailable and not server.entries[TOOLS.name]
        ]

    def concerns(self, event: ChangeEvent, call: Call) -> bool:
        if self.chosen(call) == "search":
            return super().concerns(event, call)
        return View.concerns(self, event, call)

    def _instructions(self, call: Call) -> str:
        match self.chosen(call):
            case "search":
                return super()._instructions(call)
            case "all":
                return AllView._instructions(self, call)
            case "index":
                return how_to_call(self._own_instructions, self.context.visible(call))


def indexed(tool: MetaTool, lines: Sequence[str]) -> MetaTool:
    """Return `call_tool` with the tools in the schema of its argument: a description is cut by some hosts."""
    tools = {"type": "string", "description": "\n".join([said("One of:", "Uma destas:"), *lines])}
    schema = {**tool.input_schema, "properties": {**tool.input_schema["properties"], "tool": tools}}
    description = said(
        "Call a tool by its full name. The tools: NAME(argument, optional?: type, other=default); without a "
        "type it is a string.",
        "Chama uma ferramenta pelo nome completo. As ferramentas: NOME(argumento, opcional?: tipo, "
        "outro=padrão); sem tipo, é texto.",
    )
    return MetaTool(
        name=tool.name, description=description, input_schema=schema, answer=tool.answer, meta=tool.meta
    )
