"""An event store in memory, so that a client whose stream was cut can come back for the rest.

The interface is the same in 1.x and 2.x of the SDK, and so is this.
"""

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore

RETRY_MS = 500


class Replay(EventStore):
    """Keeps every event: a conformance run is short."""

    def __init__(self) -> None:
        # An event's id is its place in this list, counted from one.
        self._events: list[tuple[str, object]] = []

    async def store_event(self, stream_id: str, message: object) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdecimal() or not 0 < (seen := int(last_event_id)) <= len(self._events):
            return None
        stream = self._events[seen - 1][0]
        for place, (stream_id, message) in enumerate(self._events[seen:], start=seen + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream
