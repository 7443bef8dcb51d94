"""Change notifications: `subscriptions/listen` in the modern era, the session's stream in the legacy era."""

from typing import Any

import msgspec
from msgspec import UNSET

from ...languages import said
from ...wire.call import SUBSCRIPTION_KEY, TASKS_EXTENSION, Call
from ...wire.errors import InvalidParams, MissingCapability
from ...wire.messages import decode_params
from ...wire.types import ListenParams, Result, SubscriptionFilter, TaskState
from ..events import (
    PROMPTS_CHANGED,
    RESOURCE_UPDATED,
    RESOURCES_CHANGED,
    TASK_CHANGED,
    TOOLS_CHANGED,
    ChangeEvent,
)
from .base import Feature, FeatureHost


class SubscriptionFeature(Feature[FeatureHost]):
    def __init__(self, host: FeatureHost) -> None:
        super().__init__(host)
        self.modern = {"subscriptions/listen": self._listen}

    async def listen_legacy(self, call: Call) -> None:
        """Send all changes of interest to a legacy session until cancelled or the hub closes."""
        session = call.session

        def wants(event: ChangeEvent) -> bool:
            if not event.is_for(call.caller):
                return False
            if event.method == RESOURCE_UPDATED:
                return session is not None and event.about in session.subscriptions
            return event.method != TASK_CHANGED

        with self._host.hub.listener(wants) as events:
            async for event in events:
                await call.channel.notify(event.method, event.params or {})

    async def _listen(self, call: Call) -> Result:
        agreed = self._agree(call, decode_params(call.params, ListenParams).notifications)
        about = {
            RESOURCE_UPDATED: set(agreed.resource_subscriptions or ()),
            TASK_CHANGED: set(agreed.task_ids or ()),
        }
        lists = {
            TOOLS_CHANGED: agreed.tools_list_changed is True,
            PROMPTS_CHANGED: agreed.prompts_list_changed is True,
            RESOURCES_CHANGED: agreed.resources_list_changed is True,
        }

        def wants(event: ChangeEvent) -> bool:
            is_wanted = lists.get(event.method, False) or event.about in about.get(event.method, ())
            return is_wanted and event.is_for(call.caller)

        mark = {SUBSCRIPTION_KEY: call.id}
        with self._host.hub.listener(wants) as events:
            for uri in about[RESOURCE_UPDATED]:
                self._host.subscribed(uri, call.caller)
            acknowledged = {"notifications": agreed, "_meta": mark}
            await call.channel.notify("notifications/subscriptions/acknowledged", acknowledged)
            for id in about[TASK_CHANGED]:
                # Send the current state: earlier changes were missed.
                state = self._host.tasks.find(id, call.caller).state()
                await call.channel.notify(TASK_CHANGED, _marked(state, mark))
            async for event in events:
                await call.channel.notify(event.method, _marked(event.params, mark))
        return Result(meta=dict(mark))

    def _agree(self, call: Call, wanted: SubscriptionFilter) -> SubscriptionFilter:
        """The part of a subscription that this server supports."""
        host, features = self._host, self._host.features
        agreed = SubscriptionFilter()
        if wanted.tools_list_changed is True and "tools" in features:
            agreed.tools_list_changed = True
        if wanted.prompts_list_changed is True and "prompts" in features:
            agreed.prompts_list_changed = True
        if wanted.resources_list_changed is True and "resources" in features:
            agreed.resources_list_changed = True
        if wanted.resource_subscriptions is not UNSET and "resources" in features:
            if len(set(wanted.resource_subscriptions)) > host.max_subscriptions:
                most = host.max_subscriptions
                raise InvalidParams(
                    said(
                        f"A subscription may name {most} resources",
                        f"Uma assinatura pode nomear {most} recursos",
                    )
                )
            agreed.resource_subscriptions = wanted.resource_subscriptions
        if wanted.task_ids is not UNSET and "tasks" in features:
            if not call.caller.supports(TASKS_EXTENSION):
                raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
            agreed.task_ids = [id for id in wanted.task_ids if host.tasks.owns(id, call.caller)]
        return agreed


def _marked(params: Any, mark: dict[str, Any]) -> Any:
    if isinstance(params, TaskState):
        return msgspec.structs.replace(params, meta=mark)
    members: dict[str, Any] = params or {}
    return {**members, "_meta": mark}
