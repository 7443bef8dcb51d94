"""Change events: published once, delivered to every listener of either protocol era.

A slow listener misses nothing: pending events are stored by subject, so ten changes of one list become one
notification, and memory stays bounded.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct

from ..wire.call import Caller

TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
TASK_CHANGED = "notifications/tasks"


class ChangeEvent(Struct, frozen=True):
    method: str
    about: str = ""
    params: Any = None
    concerns: Callable[[Caller], bool] | None = None
    """Whether a caller may hear of it; None: everybody may."""

    def is_for(self, caller: Caller) -> bool:
        return self.concerns is None or self.concerns(caller)


class EventListener:
    """An async iterator over the events that `wants` accepts."""

    def __init__(self, hub: "EventHub", wants: Callable[[ChangeEvent], bool]) -> None:
        self._hub = hub
        self._wants = wants
        self._pending: dict[tuple[str, str], ChangeEvent] = {}
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def put(self, event: ChangeEvent) -> None:
        """May be called from any thread."""
        if self._wants(event):
            try:
                on_loop = asyncio.get_running_loop() is self._loop
            except RuntimeError:
                on_loop = False
            if on_loop:
                self._store(event)
            else:
                self._loop.call_soon_threadsafe(self._store, event)

    def _store(self, event: ChangeEvent) -> None:
        self._pending[event.method, event.about] = event
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def __enter__(self) -> "EventListener":
        self._hub.listeners.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._hub.listeners.discard(self)

    async def __aiter__(self) -> AsyncIterator[ChangeEvent]:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pending, self._pending = self._pending, {}
            for event in pending.values():
                yield event
            if self._closed:
                return


class EventHub:
    def __init__(self) -> None:
        self.listeners: set[EventListener] = set()

    def listener(self, wants: Callable[[ChangeEvent], bool]) -> EventListener:
        return EventListener(self, wants)

    def publish(self, event: ChangeEvent) -> None:
        for listener in list(self.listeners):
            listener.put(event)

    def close(self) -> None:
        """End every listener after its pending events. The hub can be used again afterwards."""
        for listener in list(self.listeners):
            listener.close()
