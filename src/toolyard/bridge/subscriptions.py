"""`subscriptions/listen` on an upstream of either era."""

import asyncio
from contextlib import suppress
from typing import Any, Protocol

from msgspec import UNSET, Raw

from ..upstream.base import Forward, Outcome
from ..upstream.connection import SILENT, ChangeWatcher, UpstreamConnection
from ..upstream.errors import ConnectionLostError
from ..upstream.messages.envelope import read_outcome
from ..upstream.messages.router import LISTS_CHANGED, RESOURCE_UPDATED
from ..wire.errors import McpError
from ..wire.messages import decode_params
from ..wire.types import ListenParams, SubscriptionFilter, UriParams
from .translation import SubscriptionListener, raw, with_subscription_id

MAX_PENDING = 10_000


class ChangeSource(Protocol):
    """Where changes are told: a legacy session, or all of an upstream's."""

    def watch(self, watcher: ChangeWatcher) -> None: ...

    def unwatch(self, watcher: ChangeWatcher) -> None: ...


async def listen(link: UpstreamConnection, forward: Forward, source: ChangeSource) -> Outcome:
    """Passes on what is subscribed to until the caller goes; Lost when the upstream does."""
    if link.about.era == "modern":
        listener = SubscriptionListener(forward.call)
        body = await link.request(forward.method, forward.params, listener, None, forward.headers)
        return read_outcome(link.server, body)
    await _LegacySubscription(link, forward, source).run()
    return Outcome.of(b"{}")


class _LegacySubscription:
    """The same on a legacy session: its notifications filtered, and a subscription for each resource."""

    def __init__(self, link: UpstreamConnection, forward: Forward, source: ChangeSource) -> None:
        self._link = link
        self._call = forward.call
        self._source = source
        self._wanted = decode_params(raw(forward.params), ListenParams).notifications
        self._uris = set(self._wanted.resource_subscriptions or ())
        self._pending: dict[tuple[str, str], Raw] = {}
        self._wake = asyncio.Event()
        self._ended = False

    async def run(self) -> None:
        link, call = self._link, self._call
        self._source.watch(self._hear)
        held: list[str] = []
        try:
            for uri in self._uris:
                await _hold(link, uri)
                held.append(uri)
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
            raise ConnectionLostError(link.server, "the connection ended")
        finally:
            self._source.unwatch(self._hear)
            for uri in held:
                _let_go(link, uri)

    def _agreed(self) -> SubscriptionFilter:
        offered = self._link.about.capabilities
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

    def _hear(self, method: str, params: Raw) -> None:
        about = ""
        if method == "":
            self._ended = self._link.closed
        elif method == RESOURCE_UPDATED:
            try:
                about = decode_params(params, UriParams).uri
            except McpError:
                return
            if about not in self._uris:
                return
        elif method not in LISTS_CHANGED or not self._wants_list(method):
            return
        if method and len(self._pending) < MAX_PENDING:
            self._pending[method, about] = Raw(bytes(params))
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


async def _hold(link: UpstreamConnection, uri: str) -> None:
    standing = link.standing
    async with standing.turn:
        if not standing.held[uri]:
            await link.request("resources/subscribe", {"uri": raw(uri)}, SILENT)
        standing.held[uri] += 1


def _let_go(link: UpstreamConnection, uri: str) -> None:
    task = asyncio.ensure_future(_unsubscribe(link, uri))
    _leaving.add(task)
    task.add_done_callback(_leaving.discard)


_leaving: set["asyncio.Future[None]"] = set()


async def _unsubscribe(link: UpstreamConnection, uri: str) -> None:
    """It goes with the session at the latest, so failing does no harm."""
    standing = link.standing
    async with standing.turn:
        standing.held[uri] -= 1
        if standing.held[uri] > 0:
            return
        del standing.held[uri]
        if not link.closed:
            with suppress(McpError, TimeoutError):
                async with asyncio.timeout(5):
                    await link.request("resources/unsubscribe", {"uri": raw(uri)}, SILENT)
