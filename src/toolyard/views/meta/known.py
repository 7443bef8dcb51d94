"""The tools that a caller can use: of the catalogue, and those that a remote has lent to the conversation.

Owns what a name leads to and what is said of one that leads nowhere. A tool that is not allowed here is not
in the catalogue, and so is one that does not exist.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from ...catalogue.catalogue import TOOLS, Entry
from ...catalogue.lending import borrower
from ...catalogue.names import prefix_of
from ...dispatch.remote import Remote, RemoteTool
from ...kit.content import ToolError
from ...state.errors import StateError
from ...wire.call import Call
from ...wire.errors import McpError
from ..instructions import brief
from ..routes import not_there
from .supplies import Supplies

MAX_NAME = 80
SEARCH_FIRST = "search for what you want to do"


class UnknownTool(ToolError):
    """No such tool, or none that this caller may know of. `tool` is the name as it came."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool


class Known:
    def __init__(self, supplies: Supplies, own: Collection[str] = ()) -> None:
        """`own`: the names of the meta tools, which are not tools in this sense."""
        self._supplies = supplies
        self._own = own

    # What is there

    def entry(self, call: Call, name: str) -> Entry | None:
        catalogue = self._supplies.yard.catalogue
        entry = catalogue.find(TOOLS, name) or catalogue.lent(name, borrower(call))
        return entry if entry is not None and entry.server in self._supplies.yard.mounts else None

    async def seek(self, call: Call, name: str) -> Entry:
        """Also one that is not known yet: of a server that is just being read, or of a remote."""
        entry = self.entry(call, name)
        if entry is None and not self._supplies.yard.catalogue.is_settled:
            await self._supplies.yard.catalogue.settled(self._supplies.yard.list_wait)
            entry = self.entry(call, name)
        if entry is None and name not in self._own:
            lent = await self.borrow(call, [name])
            entry = next(filter(None, (self.entry(call, tool.name) for tool in lent)), None)
        if entry is None:
            raise not_there(self._supplies.yard.catalogue, name) or await self.unknown(name)
        return entry

    async def borrow(self, call: Call, names: Sequence[str]) -> list[RemoteTool]:
        """Have the remotes lend what they know under these names; they lend what they describe."""
        asking = [
            self._described(remote, call, mine)
            for remote in self._supplies.remotes().values()
            if (mine := [name for name in names if _may_have(remote, name)])
        ]
        return [tool for tools in await asyncio.gather(*asking) for tool in tools]

    async def _described(self, remote: Remote, call: Call, names: Sequence[str]) -> Iterable[RemoteTool]:
        try:
            async with asyncio.timeout(self._supplies.settings.remote_seconds):
                return await remote.describe(call, names)
        except (McpError, StateError, TimeoutError):
            return ()

    def state_of(self, server: str) -> str:
        """`up` or `down`."""
        shelf = self._supplies.yard.catalogue.shelves.get(server)
        return "up" if shelf is not None and shelf.fault is None else "down"

    def missing(self) -> dict[str, str]:
        """Servers of which nothing is known yet, or nothing current; not those that lack a tool or two."""
        shelves = self._supplies.yard.catalogue.shelves.values()
        return {one.server: brief(one.absence) for one in shelves if one.absence}

    # What is not

    async def unknown(self, name: str) -> UnknownTool:
        shown = name[:MAX_NAME]
        if name in self._own:
            return UnknownTool(name, f"{shown!r} finds and calls other tools; call it directly, by itself")
        catalogue = self._supplies.yard.catalogue
        index = await self._supplies.index()
        near = index.nearest(name, among=lambda tool: catalogue.find(TOOLS, tool) is not None)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        return UnknownTool(name, f"Tool function {shown!r} not found.{hint} Or {SEARCH_FIRST}.")


def _may_have(remote: Remote, name: str) -> bool:
    """By its name a tool is of this remote, or of none in particular."""
    if not name.startswith("mcp__"):
        return True
    return name.startswith(prefix_of(remote.server))
