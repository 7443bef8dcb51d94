"""Results that fit, put together: which limits a tool has, where whole results go, and what is counted."""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec.structs import replace

from ..artifacts.store import Store
from ..catalogue.catalogue import TOOLS, Catalogue
from ..catalogue.items import Item
from ..catalogue.names import shown_name
from ..config import Config
from ..dispatch import Forward
from ..results.limits import limits_for
from ..results.options import NONE, OPTIONS, Options
from ..results.reading import Reader
from ..results.schemas import widened
from ..results.shaper import Noted, Shaper, Tool, Wanted
from ..results.tasks import Tasks
from ..wire.call import Caller

REMEMBERED = 10_000


class Shaping:
    """What the stage asks. Limits are looked up once for each tool, until the configuration changes."""

    def __init__(self, config: Config, catalogue: Catalogue, store: Store, noted: Noted) -> None:
        self.shaper = Shaper(store, noted)
        self.reader = Reader(store, config.results)
        self._tasks = Tasks(self.shaper)
        self._catalogue = catalogue
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self._servers = {server.name: server for server in config.servers}
        self._tools: dict[tuple[str, str], Tool] = {}
        self.reader.reconfigure(config.results)

    async def close(self) -> None:
        await self.reader.close()

    def tool(self, forward: Forward) -> Tool:
        return self._tool(forward.mount.server, forward.name or "")

    def wanted(self, forward: Forward) -> Wanted:
        options = forward.options if isinstance(forward.options, Options) else NONE
        return Wanted(forward.call.caller, self.tool(forward), forward.more, options)

    async def fit_task(self, state: Any, server: str, tool: str, id: str, caller: Caller, more: str) -> Any:
        return await self._tasks.fit(state, id, Wanted(caller, self._tool(server, tool), more))

    def own_parameters(self, forward: Forward) -> Collection[str]:
        shelf = self._catalogue.shelves.get(forward.mount.server)
        lists = () if shelf is None else shelf.lists.get(TOOLS.name, ())
        found = next((item for item in lists if item.own == forward.name), None)
        return () if found is None else [name for name in OPTIONS if name in _parameters(found)]

    def _tool(self, server: str, own: str) -> Tool:
        found = self._tools.get((server, own))
        if found is None:
            if len(self._tools) >= REMEMBERED:
                self._tools.clear()
            found = self._tools[server, own] = self._made(server, own)
        return found

    def _made(self, server: str, own: str) -> Tool:
        shelf = self._catalogue.shelves.get(server)
        name = shown_name(server, own) if shelf is None else shelf.full_name(own)
        config = self._servers.get(server)
        limits = None if config is None else limits_for(self._config.results, config.results, own, name)
        return Tool(name, server, limits)


class _Schema(msgspec.Struct, frozen=True):
    properties: dict[str, Any] = {}


class _Definition(msgspec.Struct, rename="camel"):
    input_schema: _Schema = _Schema()


def _parameters(tool: Item) -> Collection[str]:
    try:
        return msgspec.json.decode(b"{" + tool.rest, type=_Definition).input_schema.properties
    except msgspec.DecodeError:
        return ()


def dressed(item: Item) -> Item:
    """As it is listed: its output schema admits what may take the place of a result."""
    rest = widened(item.rest)
    return item if rest is item.rest else replace(item, rest=rest)
