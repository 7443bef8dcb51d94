"""Composio's meta tools, on the desk. Also as `RUBE_*`: the same under that product's prefix.

Workbench, shell and recipes are Composio's own; where a mounted Composio offers them they are passed on.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ....catalogue.catalogue import TOOLS, Entry
from ....catalogue.items import shown
from ....kit.content import ToolError
from ....wire.call import Call
from ...meta.desk import Desk
from ...meta.tools import MetaTool
from ..definitions import Does, T, meta_tool
from . import asked, connecting, executing
from .connecting import Connecting
from .searching import Searching
from .words import NOT_OURS, SINGULAR, WORDS
from .wrapping import refused

OWN = "COMPOSIO"


class Composio:
    name = "composio"
    prefix = OWN

    def tools(self) -> Sequence[MetaTool]:
        searching, links = Searching(self.prefix), Connecting(self.prefix)
        return [
            self._tool("SEARCH_TOOLS", asked.Search, searching.search),
            self._tool("GET_TOOL_SCHEMAS", asked.Schemas, searching.schemas),
            self._tool("MULTI_EXECUTE_TOOL", asked.MultiExecute, executing.multi_execute),
            self._tool("EXECUTE_TOOL", asked.Execute, executing.execute),
            self._tool("MANAGE_CONNECTIONS", asked.Manage, links.manage),
            self._tool("WAIT_FOR_CONNECTIONS", asked.Wait, connecting.wait),
            self._tool("WAIT_FOR_CONNECTIONS", asked.Wait, connecting.wait, SINGULAR),
            self._tool("LIST_TOOLKITS", asked.ListToolkits, connecting.list_toolkits),
            self._tool("INITIATE_CONNECTION", asked.Initiate, connecting.initiate),
            self._tool("GET_REQUIRED_PARAMETERS", asked.Required, connecting.required),
            self._tool("CREATE_PLAN", asked.Plan, executing.plan),
        ]

    def _tool(self, what: str, takes: type[T], answer: Does[T], name: str = "") -> MetaTool:
        words = WORDS[what]
        words = replace(words, description=words.description.replace("{p}", self.prefix))
        return meta_tool(f"{self.prefix}_{name or what}", words, takes, answer, refused)

    # Renames: what only Composio itself has

    async def listed(self, desk: Desk, call: Call) -> Sequence[dict[str, Any]]:
        return [_shown(f"{self.prefix}_{what}", entry) for what, entry in self._passed_on(desk).items()]

    async def full_name(self, desk: Desk, call: Call, name: str) -> str | None:
        what = name.removeprefix(f"{self.prefix}_")
        if what == name:
            return None
        entry = self._passed_on(desk).get(what)
        if entry is not None:
            return entry.name
        if what in NOT_OURS:
            raise ToolError(
                f"Unknown tool: {name!r}; {NOT_OURS[what]} are Composio's own, and no mounted one offers them"
            )
        return None

    def _passed_on(self, desk: Desk) -> dict[str, Entry]:
        shelves = desk.supplies.yard.catalogue.shelves
        entries = [
            entry for server in desk.supplies.remotes() for entry in shelves[server].entries[TOOLS.name]
        ]
        ours = {*WORDS, SINGULAR}
        found = {entry.item.own.removeprefix(f"{OWN}_"): entry for entry in reversed(entries)}
        return {what: entry for what, entry in found.items() if what != entry.item.own and what not in ours}


def _shown(name: str, entry: Entry) -> dict[str, Any]:
    return msgspec.json.decode(shown(TOOLS, entry.item, name), type=dict[str, Any])
