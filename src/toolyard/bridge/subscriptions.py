"""Handles `subscriptions/listen` on an upstream of either era."""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from msgspec import UNSET, Raw

from ..upstream.base import Forward, Outcome
from ..upstream.connection import SILENT, ChangeWatcher, Params, UpstreamConnection
from ..upstream.errors import ConnectionLostError
from ..upstream.messages.envelope import read_outcome
from ..upstream.messages.router import LISTS_CHANGED, RESOURCE_UPDATED
from ..wire.call import Call
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import decode_params
from ..wire.types import ListenParams, SubscriptionFilter, UriParams
from .translation import SubscriptionListener, raw, with_subscription_id

MAX_PENDING = 10_000
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"
SUBSCRIBING = (SUBSCRIBE, UNSUBSCRIBE)


class ChangeSource(Protocol):
    """Reports changes: one legacy session, or all sessions of an upstream."""

    def watch(self, watcher: ChangeWatcher) -> None: ...

    def unwatch(self, watcher: ChangeWatcher) -> None: ...


async def listen(connection: UpstreamConnection, forward: Forward, source: ChangeSource) -> Outcome:
    """Passes on notifications until the caller leaves; ConnectionLostError if the upstream ends."""
    if connection.about.era == "modern":
        listener = SubscriptionListener(forward.call)
        # What a subscription tells carries the id of its request, so the server knows it by its caller's.
        asking = connection.request(
            forward.method, forward.params, listener, None, forward.headers, as_id=forward.call.id
        )
        if source is connection:
            return read_outcome(connection.server, await asking)
        with _heard_elsewhere(forward.call, source):
            try:
                return read_outcome(connection.server, await asking)
            except McpError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                await asyncio.Event().wait()  # it has no subscriptions, and announces changes in calls
    await _LegacySubscription(connection, forward, source).run()
    return Outcome.of(b"{}")


@contextmanager
def _heard_elsewhere(call: Call, source: ChangeSource) -> Generator[None]:
    """Tell the caller of changed lists that a server announces in legacy sessions, or in calls, alone."""

    def receive(method: str, params: Raw) -> None:
        if method in LISTS_CHANGED:
            task = asyncio.ensure_future(call.channel.notify(method, {}))
            _telling.add(task)
            task.add_done_callback(_telling.discard)

    source.watch(receive)
    try:
        yield
    finally:
        source.unwatch(receive)


_telling: set["asyncio.Future[None]"] = set()


class _LegacySubscription:
    """A subscription on a legacy session: filters its notifications, and subscribes to each resource."""

    def __init__(self, connection: UpstreamConnection, forward: Forward, source: ChangeSource) -> None:
        self._connection = connection
        self._call = forward.call
        self._source = source
        self._wanted = decode_params(raw(forward.params), ListenParams).notifications
        self._uris = set(self._wanted.resource_subscriptions or ())
        self._pending: dict[tuple[str, str], Raw] = {}
        self._wake = asyncio.Event()
        self._ended = False

    async def run(self) -> None:
        connection, call = self._connection, self._call
        self._source.watch(self._receive)
        subscribed: list[str] = []
        try:
            for uri in self._uris:
                await _subscribe(connection, uri)
                subscribed.append(uri)
            agreed: dict[str, Any] = {"notifications": self._agreed(), "_meta": {}}
            await call.channel.notify(
                "notifications/subscriptions/acknowledged", with_subscription_id(_members(agreed), call)
            )
            while not self._ended:
                await self._wake.wait()
                self._wake.clear()
                pending, self._pending = self._pending, {}
                for (method, _), params in pending.items():
                    await call.channel.notify(
                        method, with_subscription_id(decode_params(params, dict[str, Raw]), call)
                    )
            raise ConnectionLostError(connection.server, "the connection ended")
        finally:
            self._source.unwatch(self._receive)
            for uri in subscribed:
                _unsubscribe_later(connection, uri)

    def _agreed(self) -> SubscriptionFilter:
        offered = self._connection.about.capabilities
        resources: dict[str, Any] = offered.get("resources") or {}
        agreed = SubscriptionFilter()
        if self._wanted.tools_list_changed is True and "tools" in offered:
            agreed.tools_list_changed = True
        if self._wanted.prompts_list_changed is True and "prompts" in offered:
            agreed.prompts_list_changed = True
        if self._wanted.resources_list_changed is True and "resources" in offered:
            agreed.resources_list_changed = True
        if self._wanted.resource_subscriptions is not UNSET and resources.get("subscribe"):
            agreed.resource_subscriptions = self._wanted.resource_subscriptions
        return agreed

    def _receive(self, method: str, params: Raw) -> None:
        uri = ""
        if method == "":
            self._ended = self._connection.closed
        elif method == RESOURCE_UPDATED:
            try:
                uri = decode_params(params, UriParams).uri
            except McpError:
                return
            if uri not in self._uris:
                return
        elif method not in LISTS_CHANGED or not self._wants_list(method):
            return
        if method and len(self._pending) < MAX_PENDING:
            self._pending[method, uri] = Raw(bytes(params))
        self._wake.set()

    def _wants_list(self, method: str) -> bool:
        wanted = self._wanted
        return {
            "notifications/tools/list_changed": wanted.tools_list_changed,
            "notifications/prompts/list_changed": wanted.prompts_list_changed,
            "notifications/resources/list_changed": wanted.resources_list_changed,
        }[method] is True


def _members(value: dict[str, Any]) -> dict[str, Raw]:
    return {key: raw(item) for key, item in value.items()}


async def _subscribe(connection: UpstreamConnection, uri: str) -> None:
    state = connection.standing
    async with state.turn:
        if not state.held[uri]:
            await connection.request(SUBSCRIBE, {"uri": raw(uri)}, SILENT)
        state.held[uri] += 1


def _unsubscribe_later(connection: UpstreamConnection, uri: str) -> None:
    task = asyncio.ensure_future(_unsubscribe(connection, uri))
    _unsubscribing.add(task)
    task.add_done_callback(_unsubscribing.discard)


_unsubscribing: set["asyncio.Future[None]"] = set()


async def _unsubscribe(connection: UpstreamConnection, uri: str) -> None:
    """Unsubscribe, ignoring failures: the subscription ends with the session at the latest."""
    state = connection.standing
    async with state.turn:
        state.held[uri] -= 1
        if state.held[uri] > 0:
            return
        del state.held[uri]
        if not connection.closed:
            with suppress(McpError, TimeoutError):
                async with asyncio.timeout(5):
                    await connection.request(UNSUBSCRIBE, {"uri": raw(uri)}, SILENT)


# Subscriptions that a client made in a session of its own


def note_subscription(connection: UpstreamConnection, method: str, params: Params) -> None:
    """A client's own session has been subscribed to a resource, or is not any more."""
    with suppress(McpError):
        uri = decode_params(raw(params), UriParams).uri
        connection.standing.held[uri] = int(method == SUBSCRIBE)


async def renew_subscriptions(connection: UpstreamConnection, uris: Iterable[str]) -> None:
    """A session that took the place of a lost one gets what its client had subscribed to."""
    for uri in [uri for uri in uris if not connection.standing.held[uri]]:
        with suppress(McpError):
            await connection.request(SUBSCRIBE, {"uri": raw(uri)}, SILENT)
            connection.standing.held[uri] = 1


async def until_closed(connection: UpstreamConnection) -> None:
    closed = asyncio.Event()

    def receive(method: str, params: Raw) -> None:
        if method == "" and connection.closed:
            closed.set()

    connection.watch(receive)
    try:
        if not connection.closed:
            await closed.wait()
    finally:
        connection.unwatch(receive)
