"""Legacy streams: numbered events that a client can come back for.

They live in this process only. A session can be served by any process; a stream ends with its own.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterator

from ..wire.sse import PING, frame
from .asgi import SSE, until_gone
from .pace import Pace
from .visit import Visit

MAX_STREAMS = 10_000
MAX_STREAM_BYTES = 8 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024


class Stream:
    """What was sent on one stream, as far back as it is kept."""

    def __init__(self, session: str, *, of_call: bool, account: Callable[[int], None]) -> None:
        self.of_call = of_call
        self.account = account
        self.id = secrets.token_urlsafe(9)
        self.session = session
        self.ended = asyncio.Event()
        self.readers = 0
        self.follower = 0
        """The number of the latest follower; a message goes to one connection only, the latest."""
        self.bells: set[asyncio.Event] = set()
        self._events: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self._count = 0

    def put(self, data: bytes, retry_ms: int | None = None) -> bytes:
        """Record an event and return its frame."""
        self._count += 1
        framed = frame(data, f"{self.id}.{self._count}", retry_ms)
        self._events.append((self._count, framed))
        before = self.size
        self.size += len(framed)
        while self.size > MAX_STREAM_BYTES and len(self._events) > 1:
            self.size -= len(self._events.popleft()[1])
        self.account(self.size - before)
        self._ring()
        return framed

    def drop(self) -> None:
        """Nobody can come back for it any more; a timer may still hold it for a while."""
        self.account = _ignore
        self._events.clear()
        self.size = 0

    def follow(self) -> int:
        """Become the connection that this stream is sent on; whoever was it before stops."""
        self.follower += 1
        self._ring()
        return self.follower

    def end(self) -> None:
        self.ended.set()
        self._ring()

    def _ring(self) -> None:
        for bell in self.bells:
            bell.set()

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        return (event for event in list(self._events) if event[0] > number)


def _ignore(bytes_more: int) -> None:
    """For a stream that no longer counts."""


class Streams:
    """The streams of this process, each kept for a while after nobody reads it any more."""

    def __init__(self, pace: Pace, max_total: int = MAX_TOTAL_BYTES) -> None:
        self._pace = pace
        self._max_total = max_total
        self._streams: dict[str, Stream] = {}
        self._total = 0

    def open(self, session: str, *, of_call: bool) -> Stream:
        while len(self._streams) >= MAX_STREAMS:
            self._forget(next(iter(self._streams.values())))
        stream = Stream(session, of_call=of_call, account=self._count)
        self._streams[stream.id] = stream
        return stream

    def find(self, event_id: str, session: str) -> tuple[Stream, int] | None:
        """The stream and position of a Last-Event-ID, if it is ours and this session's."""
        id, _, number = event_id.rpartition(".")
        stream = self._streams.get(id)
        if (
            stream is None
            or stream.session != session
            or not (number.isascii() and number.isdigit())
            or len(number) > 12
        ):
            return None
        return stream, int(number)

    def expire_later(self, stream: Stream) -> None:
        """Forget it, unless somebody has come back for it by then; at once, if there is no room to wait."""
        self._make_room()
        asyncio.get_running_loop().call_later(self._pace.keep_streams, self._forget_unread, stream)

    def _make_room(self) -> None:
        """Of the streams whose call is over, the oldest go first."""
        if self._total <= self._max_total:
            return
        for stream in list(self._streams.values()):
            if stream.ended.is_set() and not stream.readers:
                self._forget(stream)
                if self._total <= self._max_total:
                    return

    def _count(self, bytes_more: int) -> None:
        self._total += bytes_more

    def _forget_unread(self, stream: Stream) -> None:
        # While its call runs, a stream waits for the result, whoever reads or does not.
        running = stream.of_call and not stream.ended.is_set()
        if not stream.readers and not running:
            self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        if self._streams.pop(stream.id, None) is not None:
            self._total -= stream.size
            stream.drop()
        stream.end()

    def end_session(self, session: str) -> None:
        for stream in [item for item in self._streams.values() if item.session == session]:
            self._forget(stream)

    async def follow(self, stream: Stream, position: int, visit: Visit) -> None:
        """Send what came after `position` and what comes from now on, until either side ends it."""
        bell = asyncio.Event()
        bell.set()
        send = visit.send
        gone = asyncio.create_task(until_gone(visit.receive))
        gone.add_done_callback(lambda _: bell.set())
        stream.bells.add(bell)
        stream.readers += 1
        me = stream.follow()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": SSE + visit.headers})
            # Some servers send the head only with the first piece of body.
            await send({"type": "http.response.body", "body": PING, "more_body": True})
            while not gone.done() and stream.follower == me:
                bell.clear()
                for number, framed in stream.after(position):
                    await send({"type": "http.response.body", "body": framed, "more_body": True})
                    position = number
                if stream.ended.is_set():
                    break
                try:
                    async with asyncio.timeout(self._pace.ping_every):
                        await bell.wait()
                except TimeoutError:
                    await send({"type": "http.response.body", "body": PING, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            stream.bells.discard(bell)
            stream.readers -= 1
            self.expire_later(stream)
