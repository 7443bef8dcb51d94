"""Result shaping for the gateway: the limits of each tool, the store of whole results, and the counts."""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..artifacts.store import ArtifactStore
from ..catalogue.catalogue import Catalogue
from ..catalogue.items import TOOLS, UpstreamItem, shown_name
from ..config import Config
from ..results.limits import OPTION_NAMES, declared_bound, limits_for
from ..results.preview import widen_output_schema
from ..results.query.reader import ResultReader
from ..results.shaper import ResultPolicy, Shaper, ShapeRequest, SizeRecorder, TaskResults
from ..wire.call import Caller

MAX_CACHED_TOOLS = 10_000


class ResultShaping:
    """What the stage asks. Limits are looked up once for each tool, until the configuration changes."""

    def __init__(
        self, config: Config, catalogue: Catalogue, store: ArtifactStore, noted: SizeRecorder
    ) -> None:
        self.shaper = Shaper(store, noted)
        self.reader = ResultReader(store, config.results)
        self._tasks = TaskResults(self.shaper)
        self._catalogue = catalogue
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self._servers = {server.name: server for server in config.servers}
        self._tools: dict[tuple[str, str], tuple[tuple[UpstreamItem, ...], ResultPolicy]] = {}
        """With the list that has its definition: another list may say otherwise."""
        self._is_suna = config.gateway.view == "search" and "suna" in config.gateway.dialects
        self.reader.reconfigure(config.results)

    async def close(self) -> None:
        await self.reader.close()

    async def fit_task(self, state: Any, server: str, tool: str, id: str, caller: Caller, hint: str) -> Any:
        return await self._tasks.fit(state, id, ShapeRequest(caller, self.policy(server, tool), hint))

    def own_parameters(self, server: str, tool: str) -> Collection[str]:
        found = _item(self._list(server), tool)
        parameters = () if found is None else _definition(found).input_schema.properties
        return [name for name in OPTION_NAMES if name in parameters]

    def policy(self, server: str, tool: str) -> ResultPolicy:
        """The limits of a tool, worked out again when its server sent another list."""
        shelf = self._catalogue.shelves.get(server)
        tools = () if shelf is None else shelf.lists.get(TOOLS.name, ())
        found = self._tools.get((server, tool))
        if found is not None and found[0] is tools:
            return found[1]
        if len(self._tools) >= MAX_CACHED_TOOLS:
            self._tools.clear()
        made = self._made(server, tool, tools)
        self._tools[server, tool] = (tools, made)
        return made

    def _list(self, server: str) -> tuple[UpstreamItem, ...]:
        """Its tools, as they were last listed."""
        shelf = self._catalogue.shelves.get(server)
        return () if shelf is None else shelf.lists.get(TOOLS.name, ())

    def _made(self, server: str, own: str, tools: tuple[UpstreamItem, ...]) -> ResultPolicy:
        shelf = self._catalogue.shelves.get(server)
        name = shown_name(server, own) if shelf is None else shelf.full_name(own)
        config = self._servers.get(server)
        if config is None:
            return ResultPolicy(name, server, None)
        limits = limits_for(self._config.results, config.results, own, name, self._is_suna)
        item = _item(tools, own)
        if limits is None or limits.always or item is None:
            return ResultPolicy(name, server, limits)
        return ResultPolicy(name, server, limits, declared_bound(_definition(item).meta, limits.bounded))


class _Schema(msgspec.Struct, frozen=True):
    properties: dict[str, Any] = {}


class _Definition(msgspec.Struct, rename="camel"):
    input_schema: _Schema = _Schema()
    meta: Raw = msgspec.field(default=Raw(b""), name="_meta")


def _item(tools: tuple[UpstreamItem, ...], own: str | None) -> UpstreamItem | None:
    return next((item for item in tools if item.own == own), None)


def _definition(tool: UpstreamItem) -> _Definition:
    try:
        return msgspec.json.decode(b"{" + tool.rest, type=_Definition)
    except msgspec.DecodeError:
        return _Definition()


def with_widened_schema(item: UpstreamItem) -> UpstreamItem:
    """As it is listed: its output schema admits what may take the place of a result."""
    rest = widen_output_schema(item.rest)
    return item if rest is item.rest else replace(item, rest=rest)
