"""Change events: published once, delivered to every listener of either era.

A listener that is slow misses nothing that matters: its pending events are kept by what they are
about, so ten changes of one list are one notification and memory stays bounded.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct

TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
TASK_CHANGED = "notifications/tasks"


class Event(Struct, frozen=True):
    method: str
    about: str = ""
    params: Any = None


class Listener:
    """An async iterator over the events it was opened for."""

    def __init__(self, hub: "Hub", wants: Callable[[Event], bool]) -> None:
        self._hub = hub
        self._wants = wants
        self._pending: dict[tuple[str, str], Event] = {}
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def offer(self, event: Event) -> None:
        """May be called from any thread."""
        if self._wants(event):
            try:
                on_loop = asyncio.get_running_loop() is self._loop
            except RuntimeError:
                on_loop = False
            if on_loop:
                self._put(event)
            else:
                self._loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: Event) -> None:
        self._pending[event.method, event.about] = event
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def __enter__(self) -> "Listener":
        self._hub.listeners.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._hub.listeners.discard(self)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pending, self._pending = self._pending, {}
            for event in pending.values():
                yield event
            if self._closed:
                return


class Hub:
    def __init__(self) -> None:
        self.listeners: set[Listener] = set()

    def listener(self, wants: Callable[[Event], bool]) -> Listener:
        return Listener(self, wants)

    def publish(self, event: Event) -> None:
        for listener in list(self.listeners):
            listener.offer(event)

    def close(self) -> None:
        """End every listener after what it still has pending. A server may be started again afterwards."""
        for listener in list(self.listeners):
            listener.close()
