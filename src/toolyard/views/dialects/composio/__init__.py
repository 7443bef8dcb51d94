"""The `composio` dialect: Composio's meta tools. `rube` is the same under the prefix of its product Rube.

Workbench, shell and recipes exist only at Composio; if a mounted Composio offers them, they are passed on.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ....catalogue.catalogue import CatalogueEntry
from ....catalogue.items import TOOLS, item_json
from ....composio import own_form
from ....kit.calls.content import ToolError
from ....wire.call import Call
from ...meta.service import MetaToolService
from ..definitions import DialectHandler, MetaTool, T, meta_tool
from . import handlers, requests
from .handlers import ComposioConnections, ComposioSearch, refused
from .texts import COMPOSIO_ONLY, SINGULAR, TEXTS

OWN = "COMPOSIO"


class ComposioDialect:
    name = "composio"
    prefix = OWN

    @property
    def search_tool(self) -> str:
        return f"{self.prefix}_SEARCH_TOOLS"

    def tools(self) -> Sequence[MetaTool]:
        search, connections = ComposioSearch(self.prefix), ComposioConnections(self.prefix)
        return [
            self._tool("SEARCH_TOOLS", requests.SearchToolsRequest, search.search),
            self._tool("GET_TOOL_SCHEMAS", requests.ToolSchemasRequest, search.schemas),
            self._tool("MULTI_EXECUTE_TOOL", requests.MultiExecuteRequest, handlers.multi_execute),
            self._tool("EXECUTE_TOOL", requests.ExecuteRequest, handlers.execute),
            self._tool("MANAGE_CONNECTIONS", requests.ManageConnectionsRequest, connections.manage),
            self._tool("WAIT_FOR_CONNECTIONS", requests.WaitForConnectionsRequest, handlers.wait),
            self._tool("WAIT_FOR_CONNECTIONS", requests.WaitForConnectionsRequest, handlers.wait, SINGULAR),
            self._tool("LIST_TOOLKITS", requests.ListToolkitsRequest, handlers.list_toolkits),
            self._tool("INITIATE_CONNECTION", requests.InitiateConnectionRequest, handlers.initiate),
            self._tool("GET_REQUIRED_PARAMETERS", requests.RequiredParametersRequest, handlers.required),
            self._tool("CREATE_PLAN", requests.CreatePlanRequest, handlers.plan),
        ]

    def _tool(self, what: str, takes: type[T], answer: DialectHandler[T], name: str = "") -> MetaTool:
        texts = TEXTS[what]
        texts = replace(texts, description=texts.description.replace("{p}", self.prefix))
        tool = meta_tool(f"{self.prefix}_{name or what}", texts, takes, answer, refused)

        async def understood(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> Any:
            return await tool.answer(service, call, own_form(f"{OWN}_{what}", arguments))

        return replace(tool, answer=understood)

    # Tools that exist only at Composio

    async def listed(self, service: MetaToolService, call: Call) -> Sequence[dict[str, Any]]:
        return [
            _shown(f"{self.prefix}_{what}", entry) for what, entry in self._passed_on(service, call).items()
        ]

    async def full_name(self, service: MetaToolService, call: Call, name: str) -> str | None:
        what = name.removeprefix(f"{self.prefix}_")
        if what == name:
            return None
        entry = self._passed_on(service, call).get(what)
        if entry is not None:
            return entry.name
        if what in COMPOSIO_ONLY:
            raise ToolError(
                f"Unknown tool: {name!r}; {COMPOSIO_ONLY[what]} exist only at Composio, "
                "and no mounted server offers them"
            )
        return None

    def _passed_on(self, service: MetaToolService, call: Call) -> dict[str, CatalogueEntry]:
        servers = service.context.view_context.visible(call).servers
        entries = [
            entry
            for server in service.context.remotes_of(call)
            for entry in servers[server].entries[TOOLS.name]
        ]
        ours = {*TEXTS, SINGULAR}
        found = {entry.item.own.removeprefix(f"{OWN}_"): entry for entry in reversed(entries)}
        return {what: entry for what, entry in found.items() if what != entry.item.own and what not in ours}


class RubeDialect(ComposioDialect):
    name = "rube"
    prefix = "RUBE"


def _shown(name: str, entry: CatalogueEntry) -> dict[str, Any]:
    return msgspec.json.decode(item_json(TOOLS, entry.item, name), type=dict[str, Any])
