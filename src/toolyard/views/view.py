"""What both views have in common: the methods of the protocol, answered from the catalogue or passed on.

A view is a `wire.call.Service`, so every edge can serve it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from msgspec import UNSET, Raw, Struct

from ..bridge import Bridge
from ..bridge.results import kind_of
from ..catalogue.catalogue import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Catalogue, Entry
from ..catalogue.items import Kind
from ..dispatch import Forward, Mount
from ..pipeline import Handler
from ..upstream.errors import Late
from ..wire.call import NO_CHANNEL, Call
from ..wire.eras import SERVER_KEY, TASKS_EXTENSION
from ..wire.errors import InvalidParams, McpError, MethodNotFound, MissingCapability
from ..wire.headers import check_params, encode_value
from ..wire.messages import decode_params, encode
from ..wire.seal import Sealer
from ..wire.types import Result, SetLevelParams, UriParams
from ..wire.versions import MODERN_VERSIONS
from .listening import Listening
from .pages import Pages
from .tickets import Tickets

Members = dict[str, Raw]
Answer = Callable[[Call], Awaitable[Any]]

RESOURCE_NOT_FOUND = -32002  # legacy; the modern era uses invalid params
MAX_SUBSCRIPTIONS = 1000
TELL_SECONDS = 10.0


class Yard:
    """What a view stands on; shared by all of them."""

    def __init__(
        self, catalogue: Catalogue, mounts: Mapping[str, Mount], forward: Handler, sealer: Sealer
    ) -> None:
        self.catalogue = catalogue
        self.mounts = mounts
        self.forward = forward
        self.tickets = Tickets(sealer)
        self.page_size = 500
        self.list_wait = 5.0
        self.touch: Callable[[], None] = lambda: None
        """Somebody looks at the lists; old ones may be read anew."""
        self.met: Callable[[Call], None] = lambda call: None
        """A client has introduced itself."""


class _LegacyTask(Struct, rename="camel"):
    task_id: str


class _Begun(Struct):
    """A task of 2025-11-25, just begun."""

    task: _LegacyTask


class View(ABC):
    sees_all = False

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self._pages = Pages(yard, self)
        self._listening = Listening(yard, self)
        shared: dict[str, Answer] = {
            "tools/list": self._list(TOOLS),
            "prompts/list": self._list(PROMPTS),
            "resources/list": self._list(RESOURCES),
            "resources/templates/list": self._list(TEMPLATES),
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
        }
        self._modern: dict[str, Answer] = {
            **shared,
            "server/discover": self._discover,
            "subscriptions/listen": self._listening.modern,
            "tasks/get": self._task,
            "tasks/update": self._task,
            "tasks/cancel": self._task,
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
    def entries(self, kind: Kind) -> list[Entry]: ...

    @abstractmethod
    def name_of(self, entry: Entry) -> str: ...

    @abstractmethod
    def resolve(self, kind: Kind, name: str) -> tuple[Mount, str, Entry | None]:
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
            return self._pages.page(call, kind)

        return answer

    # Calls

    async def _call_tool(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        name = _string(members, "name")
        mount, own, entry = await self._resolve(TOOLS, name)
        headers = None
        if entry is not None and entry.item.headers:
            headers = _mirrored(call, entry, members)
        forward = self._forward(call, mount, members, "name", name, own, headers)
        if entry is not None:
            forward.name = own
            forward.safe = entry.item.safe
            if entry.item.task_only:
                return await self._as_task(call, forward)
        result = await self.yard.forward(forward)
        return self._with_ticket(call, mount, result)

    async def _resolve(self, kind: Kind, name: str) -> tuple[Mount, str, Entry | None]:
        """A client may remember a name from before we started; then its server's list is waited for."""
        if not self.yard.catalogue.is_settled:
            with suppress(InvalidParams):
                found = self.resolve(kind, name)
                if found[2] is not None:
                    return found
            await self.yard.catalogue.settled(self.yard.list_wait)
        return self.resolve(kind, name)

    async def _places_of(self, uri: str) -> tuple[list[Mount], str]:
        if not self.yard.catalogue.is_settled and not self.knows(uri):
            await self.yard.catalogue.settled(self.yard.list_wait)
        return self.places_of(uri)

    def _with_ticket(self, call: Call, mount: Mount, result: Any) -> Any:
        kind = getattr(result, "result_type", UNSET) if not isinstance(result, Raw) else kind_of(result)
        return self.yard.tickets.relabel(result, mount.server, call.caller) if kind == "task" else result

    async def _as_task(self, call: Call, forward: Forward) -> Any:
        """A tool of 2025-11-25 that answers only as a task: we wait for the task and give a plain answer."""
        begin = forward.call
        begin.params = Raw(encode({**decode_params(begin.params, dict[str, Raw]), "task": {}}))
        begun = await self.yard.forward(forward)
        if not isinstance(begun, Raw) or b'"task"' not in bytes(begun):
            return begun
        id = decode_params(begun, _Begun).task.task_id
        params = Raw(encode({"taskId": id}))
        try:
            waiting = _again(call, "tasks/result", params)
            return await self.yard.forward(Forward(waiting, forward.mount, forward.name))
        except (asyncio.CancelledError, Late):
            ending = Call("tasks/cancel", params, call.caller, NO_CHANNEL, call.id, None, call.session)
            _tell(forward.mount.service.handle(ending))
            raise

    async def _get_prompt(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        name = _string(members, "name")
        mount, own, entry = await self._resolve(PROMPTS, name)
        forward = self._forward(call, mount, members, "name", name, own)
        forward.name = own if entry is not None else None
        forward.safe = True
        return await self.yard.forward(forward)

    async def _read_resource(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        uri = _string(members, "uri")
        mounts, own = await self._places_of(uri)
        refused: McpError | None = None
        for mount in mounts:
            forward = self._forward(call, mount, members, "uri", uri, own)
            forward.name, forward.safe = own, True
            try:
                return await self.yard.forward(forward)
            except McpError as error:
                if len(mounts) == 1:
                    raise
                refused = refused or error
        raise refused or _not_found(call, uri)

    async def _complete(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        ref = decode_params(members.get("ref", Raw(b"{}")), dict[str, Raw])
        kind = _string(ref, "type")
        if kind == "ref/prompt":
            name = _string(ref, "name")
            mount, own, _ = await self._resolve(PROMPTS, name)
            ref["name"] = Raw(encode(own))
        elif kind == "ref/resource":
            name = _string(ref, "uri")
            mounts, own = await self._places_of(name)
            if not mounts:
                raise InvalidParams(f"Unknown resource: {name[:80]!r}")
            mount = mounts[0]
            ref["uri"] = Raw(encode(own))
        else:
            raise InvalidParams(f"params.ref.type is 'ref/prompt' or 'ref/resource', not {kind[:40]!r}")
        passed = _again(call, call.method, Raw(encode({**members, "ref": ref})))
        return await self.yard.forward(Forward(passed, mount, None, safe=True))

    async def _task(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        ticket = _string(members, "taskId")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        server, id = self.yard.tickets.read(ticket, call.caller)
        mount = self.yard.mounts.get(server) if server in self.servers() else None
        if mount is None:
            raise InvalidParams(f"Task not found: {ticket[:80]!r}; its server is not mounted any more")
        forward = self._forward(call, mount, members, "taskId", ticket, id)
        forward.safe = call.method == "tasks/get"
        result = await self.yard.forward(forward)
        return (
            self.yard.tickets.relabel(result, server, call.caller) if call.method == "tasks/get" else result
        )

    def _forward(
        self,
        call: Call,
        mount: Mount,
        members: Members,
        key: str,
        shown: str,
        own: str,
        headers: dict[str, str] | None = None,
    ) -> Forward:
        """The same call, under the name that the upstream knows."""
        params = call.params if shown == own else Raw(encode({**members, key: own}))
        passed = _again(call, call.method, params)
        passed.param_headers = None if headers is None else lambda: headers
        return Forward(passed, mount)

    # What a legacy session sets

    async def _subscribe(self, call: Call) -> Any:
        uri = decode_params(call.params, UriParams).uri
        if not self.knows(uri):
            raise _not_found(call, uri)
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
            if mount is not None and isinstance(mount.service, Bridge):
                mount.service.links.let_go(call)

    async def _roots_changed(self, call: Call) -> None:
        """Told side by side and behind the client's back: one that hangs holds up nobody."""
        for server in self.servers():
            mount = self.yard.mounts.get(server)
            if mount is not None and isinstance(mount.service, Bridge):
                _tell(mount.service.roots_changed(call))


_telling: set["asyncio.Task[None]"] = set()


def _tell(work: Awaitable[Any]) -> None:
    """Behind the caller's back, whatever comes of it."""
    task = asyncio.create_task(_quietly(work))
    _telling.add(task)
    task.add_done_callback(_telling.discard)


async def _quietly(work: Awaitable[Any]) -> None:
    with suppress(McpError, TimeoutError):
        async with asyncio.timeout(TELL_SECONDS):
            await work


def _again(call: Call, method: str, params: Raw) -> Call:
    return Call(method, params, call.caller, call.channel, call.id, call.progress_token, call.session)


def _string(members: Members, key: str) -> str:
    raw = members.get(key)
    if raw is None:
        raise InvalidParams(f"params.{key} is missing")
    return decode_params(raw, str)


def _mirrored(call: Call, entry: Entry, members: Members) -> dict[str, str]:
    """The arguments that a tool wants to see in headers; those that a client sent must agree."""
    arguments = decode_params(members.get("arguments", Raw(b"{}")), dict[str, Any])
    if call.param_headers is not None:
        check_params(list(entry.item.headers), arguments, call.param_headers())
    found: dict[str, str] = {}
    for item in entry.item.headers:
        value: Any = arguments
        for key in item.path:
            value = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
        if isinstance(value, str | int | bool):
            found[item.header] = encode_value(value)
    return found


def _not_found(call: Call, uri: str) -> McpError:
    message = f"Resource not found: {uri[:200]!r}"
    if call.caller.era == "modern":
        return InvalidParams(message, {"uri": uri})
    return McpError(RESOURCE_NOT_FOUND, message, {"uri": uri})
