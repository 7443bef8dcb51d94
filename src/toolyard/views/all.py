"""Everything that is mounted, under full names."""

from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import Raw

from ..catalogue.catalogue import TOOLS, Entry
from ..catalogue.items import Item, Kind, introduced
from ..dispatch import Mount
from ..wire.call import Call
from ..wire.eras import TASKS_EXTENSION, UI_EXTENSION
from ..wire.errors import InvalidParams
from ..wire.types import Implementation
from .instructions import instructions
from .routes import is_offered, not_there, servers_for
from .view import View
from .yard import Yard

OFFERS: dict[str, Any] = {
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
MAX_COMPARED = 200
EXTENSIONS = (TASKS_EXTENSION, UI_EXTENSION)


class AllView(View):
    sees_all = True

    def __init__(self, yard: Yard, implementation: Implementation, own_instructions: str = "") -> None:
        super().__init__(yard)
        self._implementation = implementation
        self._info = Raw(msgspec.json.encode(implementation))
        self._own_instructions = own_instructions

    def entries(self, kind: Kind, call: Call) -> list[Entry]:
        return self.yard.catalogue.all(kind)

    def name_of(self, entry: Entry) -> str:
        return entry.name

    def item_of(self, entry: Entry) -> Item:
        return introduced(entry.item, entry.about)

    def server_info(self) -> Raw:
        return self._info

    def servers(self) -> list[str]:
        return list(self.yard.catalogue.shelves)

    def resolve(self, kind: Kind, name: str, call: Call) -> tuple[Mount, str, Entry | None]:
        entry = self.yard.catalogue.find(kind, name)
        mount = None if entry is None else self.yard.mounts.get(entry.server)
        if entry is None or mount is None:
            raise not_there(self.yard.catalogue, name) or InvalidParams(self._unknown(kind, name))
        return mount, entry.item.own, entry

    def _unknown(self, kind: Kind, name: str) -> str:
        what = "tool" if kind is TOOLS else "prompt"
        # Comparing takes long: only with those of the same server or of the same name, and with few.
        start = "__".join(name.split("__", 2)[:2]) + "__"
        end = name[len(start) - 2 :]
        known = [entry.name for entry in self.yard.catalogue.all(kind)]
        names = [one for one in known if one.startswith(start)] or [one for one in known if one.endswith(end)]
        near = get_close_matches(name[:80], names[:MAX_COMPARED], 3, 0.6)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return f"Unknown {what}: {name[:80]!r}{hint}"

    def places_of(self, uri: str) -> tuple[list[Mount], str]:
        servers, own = servers_for(self.yard.catalogue, uri)
        mounts = self.yard.mounts
        return [mounts[server] for server in servers if server in mounts], own

    def knows(self, uri: str) -> bool:
        servers, own = servers_for(self.yard.catalogue, uri)
        shelves = self.yard.catalogue.shelves
        return any(is_offered(shelves[server], own) for server in servers)

    def _instructions(self) -> str:
        return instructions(self._own_instructions, self.yard.catalogue)

    def health(self) -> dict[str, Any]:
        return self.yard.health()

    async def about(self, modern: bool) -> dict[str, Any]:
        catalogue = self.yard.catalogue
        await catalogue.settled(self.yard.list_wait)
        found = [shelf.identity.capabilities for shelf in catalogue.shelves.values()]
        # What is not mounted yet may come with the next change of the configuration; tools always do.
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        if self.yard.stored is not None:
            capabilities["resources"] = {}
        capabilities |= {name: offer for name, offer in OFFERS.items() if any(name in one for one in found)}
        extensions: dict[str, Any] = {
            name: {}
            for name in EXTENSIONS
            if (modern or name != TASKS_EXTENSION)
            and any(name in (one.get("extensions") or {}) for one in found)
        }
        if extensions:
            capabilities["extensions"] = extensions
        text = self._instructions()
        return {
            "capabilities": capabilities,
            "serverInfo": self._implementation,
            **({"instructions": text} if text else {}),
        }
