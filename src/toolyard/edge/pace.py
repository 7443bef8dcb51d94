"""How patient the HTTP edge is, in seconds."""

from msgspec import Struct


class Pace(Struct, frozen=True, kw_only=True):
    watch_after: float = 0.05
    """A call still running then has its connection watched, so that hanging up cancels it."""
    stream_after: float = 5.0
    """A watched call without an answer by then goes on as a stream, so that nobody takes it for dead."""
    ping_every: float = 15.0
    """A silent stream shows a sign of life this often."""
    keep_streams: float = 60.0
    """A legacy stream that nobody reads is kept this long for its client to come back."""
    read_body: float = 60.0
    """A body that comes in pieces must be complete by then."""
    close_grace: float = 2.0
    """Calls under way have this long to finish when the server closes."""
    ask_timeout: float = 3600.0
    """A legacy client has this long to answer a question."""
