"""What both views have in common: the methods of the protocol, answered from the catalogue or passed on.

A view is a `wire.call.Service`, so every edge can serve it.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from ..catalogue.catalogue import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Entry
from ..catalogue.items import Item, Kind
from ..dispatch import Mount
from ..kit.hub import Event
from ..wire.call import Call
from ..wire.eras import SERVER_KEY
from ..wire.errors import InvalidParams, MethodNotFound
from ..wire.messages import decode_params, encode
from ..wire.types import Result, SetLevelParams, UriParams
from ..wire.versions import MODERN_VERSIONS
from .calling import Calling, not_found, tell
from .listening import MAX_SUBSCRIPTIONS, Listening
from .pages import Pages
from .stored import MORE, TEMPLATE
from .yard import Yard

Answer = Callable[[Call], Awaitable[Any]]

_STORED = encode(TEMPLATE)


class View(ABC):
    sees_all = False
    """Every upstream there is, or will be."""
    more = MORE

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self._pages = Pages(yard, self)
        self._calling = Calling(yard, self)
        self._listening = Listening(yard, self)
        shared: dict[str, Answer] = {
            "tools/list": self._list(TOOLS),
            "prompts/list": self._list(PROMPTS),
            "resources/list": self._list(RESOURCES),
            "resources/templates/list": self._list(TEMPLATES),
            "tools/call": self._calling.call_tool,
            "prompts/get": self._calling.get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._calling.complete,
        }
        self._modern: dict[str, Answer] = {
            **shared,
            "server/discover": self._discover,
            "subscriptions/listen": self._listening.modern,
            "tasks/get": self._calling.task,
            "tasks/update": self._calling.task,
            "tasks/cancel": self._calling.task,
        }
        self._legacy: dict[str, Answer] = {
            **shared,
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "notifications/roots/list_changed": self._roots_changed,
        }

    # What the views differ in

    @abstractmethod
    def entries(self, kind: Kind, call: Call) -> list[Entry]: ...

    @abstractmethod
    def name_of(self, entry: Entry) -> str: ...

    def item_of(self, entry: Entry) -> Item:
        """As it is listed."""
        return entry.item

    @abstractmethod
    def resolve(self, kind: Kind, name: str, call: Call) -> tuple[Mount, str, Entry | None]:
        """Where a tool's or prompt's name leads and what it is called there; InvalidParams if nowhere."""

    @abstractmethod
    def places_of(self, uri: str) -> tuple[list[Mount], str]:
        """Who may have a resource, likeliest first, and its address there."""

    @abstractmethod
    def knows(self, uri: str) -> bool:
        """Whether some upstream offers a resource at this address."""

    @abstractmethod
    def servers(self) -> list[str]:
        """The upstreams that can be seen here."""

    def concerns(self, event: Event, call: Call) -> bool:
        """Whether a change is one that this caller can see. What has params is told to those it is for."""
        # A server that has just gone is not among them any more, and its tools are gone with it.
        return event.params is None and (self.sees_all or event.about in self.servers())

    def offers(self, kind: Kind) -> bool:
        return True

    @abstractmethod
    def server_info(self) -> Raw: ...

    @abstractmethod
    async def about(self, modern: bool) -> dict[str, Any]:
        """`capabilities`, `serverInfo` and `instructions`."""

    # Service

    async def handle(self, call: Call) -> Any:
        answer = (self._modern if call.caller.era == "modern" else self._legacy).get(call.method)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        return await answer(call)

    async def listen(self, call: Call) -> None:
        await self._listening.legacy(call)

    async def close(self) -> None:
        """Ends who listens; the upstreams belong to whoever mounted them."""
        self._listening.close()

    def health(self) -> dict[str, Any]:
        return {"status": "ok"}

    # First words

    async def _discover(self, call: Call) -> Any:
        self.yard.met(call)
        about = await self.about(modern=True)
        info = about.pop("serverInfo")
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            **about,
            "ttlMs": self._pages.ttl_ms,
            "cacheScope": "private",
            "resultType": "complete",
            "_meta": {SERVER_KEY: info},
        }

    async def _initialize(self, call: Call) -> Any:
        self.yard.met(call)
        return {"protocolVersion": call.caller.version, **await self.about(modern=False)}

    async def _ping(self, call: Call) -> Any:
        return Result()

    async def _set_level(self, call: Call) -> Any:
        level = decode_params(call.params, SetLevelParams).level
        if call.session is not None:
            call.session.log_level = level
        return Result()

    # Lists

    def _list(self, kind: Kind) -> Answer:
        async def answer(call: Call) -> Any:
            if not self.offers(kind):
                raise MethodNotFound(call.method)
            await self.yard.catalogue.settled(self.yard.list_wait)
            self.yard.touch()
            return self._pages.page(call, kind, self._ours(kind))

        return answer

    def _ours(self, kind: Kind) -> list[bytes]:
        """What the gateway itself has."""
        return [_STORED] if kind is TEMPLATES and self.yard.stored is not None else []

    async def _read_resource(self, call: Call) -> Any:
        stored = self.yard.stored
        if stored is not None and stored.is_one(decode_params(call.params, UriParams).uri):
            return await stored.read(call)
        return await self._calling.read_resource(call)

    # What a legacy session sets

    async def _subscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if not self.knows(uri):
            raise not_found(call, uri)
        if call.session is not None:
            if len(call.session.subscriptions | {uri}) > MAX_SUBSCRIPTIONS:
                raise InvalidParams(f"A session may subscribe to {MAX_SUBSCRIPTIONS} resources")
            call.session.subscriptions.add(uri)
            await self._listening.subscribed(call.session)
        return Result()

    async def _unsubscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if call.session is not None:
            call.session.subscriptions.discard(uri)
            await self._listening.subscribed(call.session)
        return Result()

    async def end_session(self, call: Call) -> None:
        """What was opened upstream for this client alone goes with it."""
        for server in self.servers():
            mount = self.yard.mounts.get(server)
            if mount is not None:
                mount.let_go(call)

    async def _roots_changed(self, call: Call) -> None:
        """Told side by side and behind the client's back: one that hangs holds up nobody."""
        for server in self.servers():
            mount = self.yard.mounts.get(server)
            if mount is not None and mount.roots_changed is not None:
                tell(mount.roots_changed(call))
