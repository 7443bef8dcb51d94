"""What an operator looks for: sessions, searches that fell back, shortened results, uploads.

An event is declared once, as a class. Its line in the log, its counters in `/metrics` and its row of
`toolyard stats` derive from it: the line has all fields, the counters have the name, the server, the reason
and the `sizes`. A call that is simply forwarded makes none.
"""

import hashlib
import logging
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

_logger = logging.getLogger("toolyard.events")


FallbackReason = Literal["failed", "timeout", "nothing found"]


class EventKey(NamedTuple):
    """By what events are counted. All three come from small sets, so that the counters stay few."""

    event: str
    server: str
    reason: str


class Event(Struct, frozen=True, kw_only=True):
    name: ClassVar[str]
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = ""
    """The message of its line, with fields in braces; empty: its name."""
    sizes: ClassVar[tuple[str, ...]] = ()
    """The fields with bytes: before and after, or one."""

    server: str
    """Its name in the configuration."""
    reason: str = ""
    """One of few words, such as `HTTP 401`; what was said in full is in `error`."""

    @property
    def key(self) -> EventKey:
        return EventKey(self.name, self.server, self.reason)

    @property
    def size_values(self) -> tuple[int, ...]:
        return tuple(getattr(self, field) for field in self.sizes)

    def message(self) -> str:
        return self.text.format_map(asdict(self)) if self.text else self.name.replace("_", " ")

    def fields(self) -> dict[str, Any]:
        """What its line shows."""
        known = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        return {"event": self.name, **known}


class SessionBegun(Event, frozen=True, kw_only=True):
    """A conversation got a session at a server."""

    name = "session_begun"
    session: str
    source: str
    ttl: float | None = None


class SessionAttached(Event, frozen=True, kw_only=True):
    """A request was sent in the session of its conversation."""

    name = "session_attached"
    level = logging.DEBUG
    session: str


class SessionRenewed(Event, frozen=True, kw_only=True):
    """A server refused a request because its session was over, and a new one was begun; `reason` is how."""

    name = "session_renewed"
    session: str
    was: str


class SessionLost(Event, frozen=True, kw_only=True):
    """A server gave no session, at the first request or in the place of one that was over."""

    name = "session_lost"
    level = logging.WARNING
    text = "no session at {server!r}: {error}; using a local session"
    error: str
    was: str = ""


class SearchFallback(Event, frozen=True, kw_only=True):
    """A server's own search gave nothing, so the index answered; `reason` is a `FallbackReason`."""

    name = "search_fallback"
    error: str


class ResultShortened(Event, frozen=True, kw_only=True):
    """A result was too big, and a summary went on in its place."""

    name = "result_shortened"
    sizes = ("approx_size_bytes_before", "approx_size_bytes_after")
    tool: str
    approx_size_bytes_before: int
    approx_size_bytes_after: int


class Upload(Event, frozen=True, kw_only=True):
    """A whole result or a file was stored."""

    name = "upload"
    sizes = ("bytes",)
    what: str
    where: str
    bytes: int


class UploadFailed(Event, frozen=True, kw_only=True):
    """A whole result was not stored, so its summary has no link."""

    name = "upload_failed"
    level = logging.WARNING
    text = "the full result of {what} was not stored: {error}"
    what: str
    where: str
    error: str


EVENTS: tuple[type[Event], ...] = (
    SessionBegun,
    SessionAttached,
    SessionRenewed,
    SessionLost,
    SearchFallback,
    ResultShortened,
    Upload,
    UploadFailed,
)


def session_digest(id: str) -> str:
    """Stands for a session in the log: whoever has its id might speak in it."""
    return hashlib.sha256(id.encode(errors="replace")).hexdigest()[:12]


class EventCounter(Protocol):
    def count(self, event: Event) -> None: ...


class EventRecorder(Protocol):
    def note(self, event: Event) -> None: ...


class Events:
    """Writes events to the log and hands them to the counters. Implements `EventRecorder`."""

    def __init__(self, *counters: EventCounter, server: str = "") -> None:
        """`server` is the name under which all of them count, if it is given."""
        self._counters = counters
        self._server = server

    def of(self, server: str) -> "Events":
        """For a server in this process, which does not know its name in the configuration."""
        return Events(*self._counters, server=server)

    def note(self, event: Event) -> None:
        if self._server:
            event = replace(event, server=self._server)
        if _logger.isEnabledFor(event.level):
            _logger.log(event.level, "%s", event.message(), extra=event.fields())
        for counter in self._counters:
            counter.count(event)


LOG_ALONE = Events()
"""Where nothing is counted, as in a server of its own."""
