"""Handles `subscriptions/listen` on an upstream of either era."""

import asyncio
from contextlib import suppress
from typing import Any, Protocol

from msgspec import UNSET, Raw

from ..upstream.connection import SILENT, ChangeWatcher, UpstreamConnection
from ..upstream.errors import ConnectionLostError
from ..upstream.messages.router import LISTS_CHANGED, RESOURCE_UPDATED
from ..wire.call import Call
from ..wire.errors import McpError
from ..wire.messages import decode_params
from ..wire.types import ListenParams, SubscriptionFilter, UriParams
from .translation import SubscriptionListener, members_of, raw, with_subscription_id

MAX_PENDING = 10_000


class ChangeSource(Protocol):
    """Reports changes: one legacy session, or all sessions of an upstream."""

    def watch(self, watcher: ChangeWatcher) -> None: ...

    def unwatch(self, watcher: ChangeWatcher) -> None: ...


async def listen(connection: UpstreamConnection, call: Call, source: ChangeSource) -> Any:
    """Pass on notifications until the caller leaves; ConnectionLostError if the upstream ends."""
    if connection.about.era == "modern":
        return await connection.request(
            call.method, members_of(call), SubscriptionListener(call), None, call.more_headers
        )
    await _LegacySubscription(connection, call, source).run()
    return {}


class _LegacySubscription:
    """A subscription on a legacy session: filters its notifications, and subscribes to each resource."""

    def __init__(self, connection: UpstreamConnection, call: Call, source: ChangeSource) -> None:
        self._connection = connection
        self._call = call
        self._source = source
        self._wanted = decode_params(call.params, ListenParams).notifications
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
            await connection.request("resources/subscribe", {"uri": raw(uri)}, SILENT)
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
                    await connection.request("resources/unsubscribe", {"uri": raw(uri)}, SILENT)
