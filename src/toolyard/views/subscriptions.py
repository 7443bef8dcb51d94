"""Passes on change notifications of mounted upstreams to callers of either era.

The catalogue reports a changed list once it has read the new one. Resources and tasks are subscribed to at
the upstream while a caller listens.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from msgspec import UNSET, Raw

from .._version import __version__
from ..catalogue.catalogue import CatalogueEntry
from ..catalogue.items import KINDS, RESOURCES, ItemKind
from ..dispatch import Mount
from ..kit.events import RESOURCE_UPDATED, TASK_CHANGED, ChangeEvent, EventListener
from ..languages import said
from ..upstream.base import Forward
from ..wire.call import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    SUBSCRIPTION_KEY,
    TASKS_EXTENSION,
    VERSION_KEY,
    Call,
    Caller,
    ClientInfo,
    LegacySession,
)
from ..wire.errors import METHOD_NOT_FOUND, InvalidParams, McpError, MissingCapability
from ..wire.messages import decode_params, encode
from ..wire.types import ListenParams, Result, SubscriptionFilter
from ..wire.versions import LATEST_MODERN
from .context import ViewContext
from .forwarding import upstream_task_id

MAX_SUBSCRIPTIONS = 1000
MAX_NOTED = 20
"""Resources of one request that lead nowhere and are recorded each."""
PAUSE_SECONDS = 1.0
ACKNOWLEDGE_SECONDS = 2.0
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LISTS = {
    "notifications/tools/list_changed": "tools_list_changed",
    "notifications/prompts/list_changed": "prompts_list_changed",
    "notifications/resources/list_changed": "resources_list_changed",
}


class SubscriptionView(Protocol):
    @property
    def read_hint(self) -> str: ...

    @property
    def marks(self) -> bool: ...

    def concerns(self, event: ChangeEvent, call: Call) -> bool: ...

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]: ...

    def places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]: ...


class _Relay:
    """The channel of a subscription at an upstream; passes its notifications on."""

    def __init__(self, pass_on: Callable[[str, Any], Any]) -> None:
        self._pass_on = pass_on
        self.acknowledged = asyncio.Event()

    async def notify(self, method: str, params: Any) -> None:
        if method == ACKNOWLEDGED:
            self.acknowledged.set()
        else:
            await self._pass_on(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        raise McpError(METHOD_NOT_FOUND, "a subscription cannot ask the client")

    async def release(self, retry_ms: int | None) -> None:
        return None


class _SeenLists:
    """The lists as a listener knows them: a change of what its caller may not see is none."""

    def __init__(self, context: ViewContext, view: SubscriptionView, call: Call) -> None:
        self._context = context
        self._view = view
        self._call = call
        self._lists = {} if self._sees_all else {method: self._now(method) for method in LISTS}

    @property
    def _sees_all(self) -> bool:
        return self._context.visible(self._call) is self._context.catalogue

    def _now(self, method: str) -> list[list[CatalogueEntry]]:
        try:
            return [self._view.entries(kind, self._call) for kind in KINDS if kind.changed == method]
        except McpError:  # there is no such server for the caller now
            return []

    def changed(self, event: ChangeEvent) -> bool:
        """Whether the caller sees a difference since the last change of this kind."""
        if event.params is not None or self._sees_all:
            return True
        before, now = self._lists.get(event.method), self._now(event.method)
        self._lists[event.method] = now
        return now != before


class _LegacySession:
    """The state of a listening legacy session.

    `changed`: it wants other resources; `applied`: the upstreams are subscribed accordingly.
    """

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.applied = asyncio.Event()


class Subscriptions:
    """All listeners of one view."""

    def __init__(self, context: ViewContext, view: SubscriptionView) -> None:
        self._context = context
        self._view = view
        self._listeners: set[EventListener] = set()
        self._sessions: dict[str, _LegacySession] = {}

    def close(self) -> None:
        for listener in list(self._listeners):
            listener.close()

    @contextmanager
    def _listening(self, wants: Callable[[ChangeEvent], bool]) -> Generator[EventListener, None, None]:
        with self._context.catalogue.hub.listener(wants) as events:
            self._listeners.add(events)
            try:
                yield events
            finally:
                self._listeners.discard(events)

    # Modern

    async def modern(self, call: Call) -> Any:
        wanted = decode_params(call.params, ListenParams).notifications
        if len(wanted.resource_subscriptions or ()) > MAX_SUBSCRIPTIONS:
            raise InvalidParams(
                said(
                    f"A subscription may name {MAX_SUBSCRIPTIONS} resources",
                    f"Uma assinatura pode nomear {MAX_SUBSCRIPTIONS} recursos",
                )
            )
        agreed = SubscriptionFilter()
        for member in LISTS.values():
            if getattr(wanted, member) is True:
                setattr(agreed, member, True)
        owners = self._owners(wanted.resource_subscriptions or (), call)
        if wanted.resource_subscriptions is not UNSET:
            agreed.resource_subscriptions = [uri for uri in wanted.resource_subscriptions if uri in owners]
            for uri in [uri for uri in wanted.resource_subscriptions if uri not in owners][:MAX_NOTED]:
                await self._context.note_unknown(call, RESOURCES, uri)
        tasks = self._tasks(call, wanted)
        if wanted.task_ids is not UNSET:
            agreed.task_ids = list(tasks)
        meta = {SUBSCRIPTION_KEY: call.id}
        seen = _SeenLists(self._context, self._view, call)

        def wants(event: ChangeEvent) -> bool:
            member = LISTS.get(event.method)
            is_wanted = member is not None and getattr(agreed, member) is True
            return is_wanted and self._view.concerns(event, call) and seen.changed(event)

        async def pass_on(method: str, params: Any) -> None:
            await call.channel.notify(method, {**_members(params), "_meta": meta})

        with self._listening(wants) as events:
            following = self._follow_all(call, owners, tasks, pass_on)
            try:
                await _wait_acknowledged([relay for _, relay in following])
                await call.channel.notify(ACKNOWLEDGED, {"notifications": agreed, "_meta": meta})
                async for event in events:
                    await pass_on(event.method, {})
            finally:
                await cancel_all([task for task, _ in following])
        return Result(result_type="complete", meta=dict(meta))

    def _owners(self, uris: Iterable[str], call: Call) -> dict[str, tuple[str, str]]:
        """Map each known URI to its server and the URI at that server."""
        found: dict[str, tuple[str, str]] = {}
        for uri in uris:
            mounts, own = self._view.places_of(uri, call)
            if mounts:
                found[uri] = (mounts[0].server, own)
        return found

    def _tasks(self, call: Call, wanted: SubscriptionFilter) -> dict[str, tuple[str, str, str]]:
        if wanted.task_ids is UNSET:
            return {}
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        found: dict[str, tuple[str, str, str]] = {}
        for id in wanted.task_ids[:MAX_SUBSCRIPTIONS]:
            with suppress(InvalidParams):
                opened = self._context.task_ids.open(id, call.caller)
                if self._context.visible(call).permits(opened[0], opened[1]):
                    found[id] = opened
        return found

    def _follow_all(
        self,
        call: Call,
        owners: dict[str, tuple[str, str]],
        tasks: dict[str, tuple[str, str, str]],
        pass_on: Callable[[str, Any], Any],
    ) -> list[tuple["asyncio.Task[None]", _Relay]]:
        """Start one subscription for each server that has any of these resources or tasks."""
        caller = call.caller
        servers = dict.fromkeys(owner[0] for owner in (*owners.values(), *tasks.values()))
        started: list[tuple[asyncio.Task[None], _Relay]] = []
        for server in servers:
            uris = [own for owner, own in owners.values() if owner == server]
            tools = {own: tool for owner, tool, own in tasks.values() if owner == server}

            async def pass_from(
                method: str, params: Any, server: str = server, tools: dict[str, str] = tools
            ) -> None:
                if not self._may_have(call, server, method, params, tools):
                    return
                if method == TASK_CHANGED:
                    params = await self._task(params, server, tools, caller)
                await pass_on(method, params)

            relay = _Relay(pass_from)
            started.append(
                (asyncio.create_task(self._follow(server, caller, uris, list(tools), relay)), relay)
            )
        return started

    def _may_have(self, call: Call, server: str, method: str, params: Any, tools: dict[str, str]) -> bool:
        """Whether the caller may still have this: rules may have changed since it began to listen."""
        catalogue = self._context.visible(call)
        if method == TASK_CHANGED:
            tool = tools.get(upstream_task_id(server, params))
            return tool is not None and catalogue.permits(server, tool)
        if method != RESOURCE_UPDATED:
            return method not in LISTS  # the catalogue reports those, when it has read the new list
        visible = catalogue.servers.get(server)
        uri = _members(params).get("uri", "")
        uri = decode_params(uri, str) if isinstance(uri, Raw) else str(uri)
        return visible is not None and visible.may_read(uri)

    async def _task(self, state: Any, server: str, tools: dict[str, str], caller: Caller) -> Any:
        """Return a task's state as its owner sees it."""
        id = upstream_task_id(server, state)
        tool = tools.get(id, "")
        if self._context.fit_task is not None:
            state = await self._context.fit_task(state, server, tool, id, caller, self._view.read_hint)
        return self._context.task_ids.seal_in(state, server, tool, caller, marks=self._view.marks)

    async def _follow(
        self, server: str, caller: Caller, uris: list[str], ids: list[str], relay: _Relay
    ) -> None:
        """Stay subscribed until cancelled; subscribes again when the upstream comes back."""
        filter: dict[str, Any] = {"resourceSubscriptions": uris} if uris else {}
        if ids:
            filter["taskIds"] = ids
        meta = {
            VERSION_KEY: LATEST_MODERN,
            CAPABILITIES_KEY: dict(caller.capabilities),
            CLIENT_KEY: ClientInfo("toolyard", __version__),
        }
        params = Raw(encode({"notifications": filter, "_meta": meta}))
        asker = Caller(LATEST_MODERN, dict(caller.capabilities), caller.client, caller.identity)
        while (mount := self._context.mounts.get(server)) is not None:
            try:
                call = Call("subscriptions/listen", params, asker, relay, 1)
                await mount.upstream.send(Forward.of(call))
            except McpError:
                relay.acknowledged.set()  # do not wait for an upstream that is down
            await asyncio.sleep(PAUSE_SECONDS)

    # Legacy

    async def legacy(self, call: Call) -> None:
        """Notify a legacy session of its changes until it is cancelled or closed."""

        seen = _SeenLists(self._context, self._view, call)

        def wants(event: ChangeEvent) -> bool:
            return event.method in LISTS and self._view.concerns(event, call) and seen.changed(event)

        with self._listening(wants) as events:
            updating = asyncio.create_task(self._updates(call))
            try:
                async for event in events:
                    await call.channel.notify(event.method, {})
            finally:
                await cancel_all([updating])

    async def subscribed(self, session: LegacySession) -> None:
        """Apply a session's changed subscriptions; returns when the upstreams have acknowledged them."""
        known = self._sessions.get(session.id)
        if known is not None:
            known.applied.clear()
            known.changed.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
                    await known.applied.wait()

    async def _updates(self, call: Call) -> None:
        """Keep a session's subscriptions at the upstreams, and renew them when they change."""
        session = call.session
        if session is None:
            return
        known = self._sessions[session.id] = _LegacySession()

        async def pass_on(method: str, params: Any) -> None:
            members = {key: value for key, value in _members(params).items() if key != "_meta"}
            await call.channel.notify(method, members)

        following: list[asyncio.Task[None]] = []
        try:
            while True:
                known.changed.clear()
                owners = self._owners(session.subscriptions, call)
                started = self._follow_all(call, owners, {}, pass_on)
                # Start the new ones before the old ones end, so that no change is missed.
                before, following = following, [task for task, _ in started]
                try:
                    await _wait_acknowledged([relay for _, relay in started])
                finally:
                    await cancel_all(before)
                if not known.changed.is_set():
                    known.applied.set()
                await known.changed.wait()
        finally:
            await cancel_all(following)
            if self._sessions.get(session.id) is known:
                del self._sessions[session.id]


async def _wait_acknowledged(relays: list[_Relay]) -> None:
    """Wait a limited time for the upstreams: changes after our acknowledgement must not be missed."""
    waiting = [asyncio.ensure_future(relay.acknowledged.wait()) for relay in relays]
    if waiting:
        try:
            await asyncio.wait(waiting, timeout=ACKNOWLEDGE_SECONDS)
        finally:
            for future in waiting:
                future.cancel()


async def cancel_all(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _members(params: Any) -> dict[str, Any]:
    if isinstance(params, Raw):
        return decode_params(params, dict[str, Raw])
    if isinstance(params, dict):
        return params  # pyright: ignore[reportUnknownVariableType]
    return decode_params(Raw(encode(params)), dict[str, Raw])
