"""Results that fit, put together: which limits a tool has, where whole results go, and what is counted."""

from msgspec.structs import replace

from ..artifacts.store import Store
from ..catalogue.catalogue import Catalogue
from ..catalogue.items import Item
from ..catalogue.names import shown_name
from ..config import Config, ServerConfig
from ..dispatch import Forward
from ..results.limits import Limits, limits_for
from ..results.reading import Reader
from ..results.schemas import widened
from ..results.shaper import Noted, Shaper, Tool

HINT = "read_result(id={id!r}) shows more of it: pages, a JMESPath query, or SQL"
_ENDLESS = Limits(max_bytes=2**62, max_items=2**62, max_lines=2**62)


class Shaping:
    """What the stage asks. Limits are looked up once for each tool, until the configuration changes."""

    def __init__(self, config: Config, catalogue: Catalogue, store: Store, noted: Noted) -> None:
        self.shaper = Shaper(store, noted, HINT)
        self.reader = Reader(store, config.results)
        self._catalogue = catalogue
        self._config = config
        self._servers: dict[str, ServerConfig] = {}
        self._tools: dict[tuple[str, str, str], Tool] = {}
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self._servers = {server.name: server for server in config.servers}
        self._tools.clear()
        self.reader.reconfigure(config.results)

    async def close(self) -> None:
        await self.reader.close()

    def tool(self, forward: Forward) -> Tool:
        server, own = forward.mount.server, forward.name or ""
        tenant = forward.call.caller.tenant
        found = self._tools.get((server, own, tenant))
        if found is None:
            if len(self._tools) >= 10_000:
                self._tools.clear()
            found = self._tools[server, own, tenant] = self._made(server, own, tenant)
        return found

    def _made(self, server: str, own: str, tenant: str) -> Tool:
        shelf = self._catalogue.shelves.get(server)
        name = shown_name(server, own) if shelf is None else shelf.full_name(own)
        config = self._servers.get(server)
        limits = None if config is None else limits_for(self._config.results, config, own, name)
        return Tool(name, server, tenant, limits or _ENDLESS)


def dressed(item: Item) -> Item:
    """As it is listed: its output schema admits what may take the place of a result."""
    rest = widened(item.rest)
    return item if rest is item.rest else replace(item, rest=rest)
