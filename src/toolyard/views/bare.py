"""One upstream, with its own names, as if a client spoke to it directly."""

from typing import Any

from msgspec import Raw

from ..catalogue.catalogue import PROMPTS, TOOLS, Entry, Shelf
from ..catalogue.items import Kind
from ..dispatch import Mount
from ..wire.call import Call
from ..wire.eras import TASKS_EXTENSION
from ..wire.errors import InvalidParams, Unavailable
from .instructions import brief
from .routes import is_offered
from .view import View
from .yard import Yard


class BareView(View):
    def __init__(self, yard: Yard, server: str) -> None:
        super().__init__(yard)
        self._server = server

    @property
    def _shelf(self) -> Shelf:
        shelf = self.yard.catalogue.shelves.get(self._server)
        if shelf is None:
            raise Unavailable(f"server {self._server!r} is not mounted any more")
        return shelf

    @property
    def _mount(self) -> Mount:
        mount = self.yard.mounts.get(self._server)
        if mount is None:
            raise Unavailable(f"server {self._server!r} is not mounted any more")
        return mount

    def entries(self, kind: Kind, call: Call) -> list[Entry]:
        return self._shelf.entries[kind.name]

    def name_of(self, entry: Entry) -> str:
        return entry.bare

    def server_info(self) -> Raw:
        return self._shelf.identity.info

    def offers(self, kind: Kind) -> bool:
        identity = self._shelf.identity
        ours = kind.capability == "resources" and self.yard.stored is not None
        return ours or not identity.version or kind.capability in identity.capabilities

    def servers(self) -> list[str]:
        return [self._server]

    def resolve(self, kind: Kind, name: str, call: Call) -> tuple[Mount, str, Entry | None]:
        """A name that we do not know may be new: the upstream itself says whether it is."""
        shelf = self._shelf
        entry = shelf.find(kind, name)
        if entry is None and not shelf.shows(name):
            what = "tool" if kind is TOOLS else "prompt" if kind is PROMPTS else "resource"
            raise InvalidParams(f"Unknown {what}: {name[:80]!r}")
        return self._mount, shelf.own_name(name) if entry is None else entry.item.own, entry

    def places_of(self, uri: str) -> tuple[list[Mount], str]:
        return [self._mount], uri

    def knows(self, uri: str) -> bool:
        return is_offered(self._shelf, uri)

    async def about(self, modern: bool) -> dict[str, Any]:
        shelf = self._shelf
        if not shelf.known:
            await self.yard.catalogue.settled(self.yard.list_wait, [shelf])
        identity = shelf.identity
        capabilities = {name: value for name, value in identity.capabilities.items() if name != "tasks"}
        if self.yard.stored is not None:
            capabilities.setdefault("resources", {})
        for name in ("tools", "prompts", "resources"):
            if name in capabilities:
                capabilities[name] = {**(capabilities[name] or {}), "listChanged": True}
        extensions = dict(capabilities.get("extensions") or {})
        if not modern:
            extensions.pop(TASKS_EXTENSION, None)
        capabilities.pop("extensions", None)
        if extensions:
            capabilities["extensions"] = extensions
        text = identity.instructions
        if shelf.fault is not None:
            text = f"{text or ''}\n\nThis server is not available now: {brief(shelf.fault)}".strip()
        return {
            "capabilities": capabilities,
            "serverInfo": identity.info if identity.version else {"name": self._server, "version": "0"},
            **({"instructions": text} if text else {}),
        }
